"""Programs that check what is computed, as they are written: pytest writes the assertions of its own files anew."""

import torch

# ruff: noqa: PT018


def asserted(b):
    assert (b[:, 2:] >= b[:, :2]).all()
    assert (b >= 0).all(), f"boxes must be degenerate-free: got {b.min()}, of {b.shape}"
    assert torch.all(b > 0) and b.max() > 3, "all"
    assert b.min() > 0 or b.max() > 3
    assert bool((b > 1).any())
    assert (b > 1).all().item()
    assert not (b <= 0).any()
    assert not bool((b <= 0).any())
    assert (b > 0).sum()
    assert b.shape[0] == 4 and (b > 0).all()


def checked(b):
    if not (b > 0).all():
        raise ValueError(f"numbers must be positive: got {b.min()}")
    if (b <= 0).any():
        raise ValueError("must be positive")
    if not torch.isfinite(b).all():
        raise FloatingPointError("loss is not finite")
    if not (b > 0).all() or not (b > 1).all():
        raise ValueError("either")
    if b.dim() != 2 or not (b > 0).all():
        raise ValueError("shape or sign")


def positive(b):
    return bool((b > 0).all())


def handed_on(b):
    assert positive(b)
    if not positive(b):
        raise ValueError("no")


def by_pytorch(b):
    torch._assert((b > 0).all(), "positive")
    torch._assert_async((b > 0).all())
    assert torch.allclose(b, b * 2)
    assert torch.equal(b, b * 2)
    torch.testing.assert_close(b, b.clone())


def finished(b):
    if (b > 0).all():
        return
    raise RuntimeError("did not converge")


def raises_for(x):
    if not (x > 0).all():
        raise ValueError("no")
