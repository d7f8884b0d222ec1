"""Whether numbers that nobody knows are finite is answered as of the zeros that a program would read."""

import pytest
import torch

from every_byte.gpu.known.reading import known_values
from utils import SimulatedGPU

ASKED = {
    "finite": torch.isfinite,
    "no number": torch.isnan,
    "infinite": torch.isinf,
    "infinite, above": torch.isposinf,
    "by hand": lambda x: (x == x) & (x.abs() < float("inf")),
    "no number or infinite": lambda x: torch.logical_or(x.isnan(), x.isinf()),
}


@pytest.mark.filterwarnings("ignore:.* simulated GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", ASKED)
def test_of_unknown_numbers_it_is_that_of_zeros(gpu, name, dtype):
    for shape in ((), (3, 5)):
        x = torch.randn(shape, device=gpu.device, dtype=dtype) * 2
        zeros = torch.zeros(shape, dtype=dtype)
        answer, expected = ASKED[name](x), ASKED[name](zeros)
        assert known_values(answer) is None, "it is not known"
        assert answer.tolist() == expected.tolist()
        assert answer.all().item() == expected.all().item()
        assert answer.sum().item() == expected.sum().item()
        assert bool(answer.any()) == bool(expected.any())


@pytest.mark.filterwarnings("ignore:.* simulated GPU")
def test_a_step_that_looks_whether_its_loss_is_finite_goes_on(gpu):
    loss = torch.randn(8, device=gpu.device).square().mean()
    assert torch.isfinite(loss)
    assert not loss.isnan()


@pytest.mark.filterwarnings("ignore:.* simulated GPU")
def test_no_unknown_number_lies_below_a_bound(gpu):
    """An optimizer that stops where gradients are small, as L-BFGS, goes on."""
    gradient = torch.randn(8, device=gpu.device)
    assert not gradient.abs().max() <= 1e-7


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.* simulated GPU")
def test_whether_a_large_gradient_is_finite(gpu):
    gradient = torch.randn(50_257, 768, device=gpu.device)
    assert torch.isfinite(gradient).all()
    assert not torch.isnan(gradient).any()


def test_such_a_mask_still_cannot_say_how_large_a_result_is():
    with SimulatedGPU(assume=["nonzero=refuse"]) as gpu:
        x = torch.randn(4, 4, device=gpu.device)
        with pytest.raises(RuntimeError, match="shape of a result must not depend on values"):
            x[x > 0]


def test_beside_unknown_numbers_known_ones_stay_known(gpu):
    parts = torch.randn(2, 3, device=gpu.device).mean(0), torch.full((2,), 7.0, device=gpu.device)
    for whole in (torch.cat(parts), torch.stack([parts[0][:2], parts[1]]).view(-1)):
        assert known_values(whole[-2:]).tolist() == [7, 7]
        assert known_values(whole) is None


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:.* simulated GPU")
def test_a_scale_grows_and_is_not_lowered():
    """As where no step meets an infinity: which number that makes is not known, but what a program would print."""
    with SimulatedGPU("a100-80gb", cuda=True):
        model = torch.nn.Linear(4, 4).cuda()
        optimizer, scaler = torch.optim.SGD(model.parameters()), torch.amp.GradScaler("cuda", growth_interval=2)
        found = [scaler.get_scale()]
        for _ in range(60):
            scaler.scale(model(torch.ones(2, 4, device="cuda")).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            found.append(scaler.get_scale())
    assert found[:5] == [65536, 65536, 131072, 131072, 262144]
    assert found[-1] == 65536 * 2**30
