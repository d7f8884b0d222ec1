"""What programs with marks share: a training loop that stops at them, and batches."""

import torch

STEPS = 3


def steps(run, model, batch, optimizer=None, n=STEPS, step=None, scaler=None):
    """Train: `run(*batch(i))` gives the loss of step i. Yields each mark's name."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), fused=True)
    for i in range(n):
        loss = run(*batch(i))
        yield f"forward {i}"
        (scaler.scale(loss) if scaler else loss).backward()
        yield f"backward {i}"
        if step:
            step()
        elif scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        yield f"step {i}"
        optimizer.zero_grad(set_to_none=True)
        del loss
        yield f"zero_grad {i}"


def same(*tensors):
    """The same batch in each step."""
    return lambda _i: tensors


def tokens(*shape, n=5000):
    return torch.randint(n, shape, device="cuda")


def noise(*shape, **kwargs):
    return torch.randn(*shape, device="cuda", **kwargs)
