"""The account of a reader's model: the bytes of the script that one would write, for any sizes, and what is refused."""

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from every_byte.account import account, numbers, tokens
from every_byte.gpu.memory.specs import find_spec
from every_byte.units import MiB, exact
from utils import GPT, SimulatedGPU


def mlp(d: int) -> nn.Module:
    return nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))


def squares(output, batch):
    return output.square().mean()


def of_an_mlp(**changed):
    how = {"loss": squares, "d": 96, "b": 40} | changed
    return account(mlp, (numbers("b", "d"),), **how)


def by_hand(gpu: str, d: int, b: int) -> int:
    """The peak of two steps of that MLP, as a script has them."""
    model = mlp(d)
    with SimulatedGPU(gpu, cuda=True) as simulated:
        model.to("cuda")
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            x = torch.randn(b, d).to("cuda")
            loss = squares(model(x), None)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        return simulated.max_memory_allocated()


def test_it_has_the_peak_of_the_script():
    found = of_an_mlp(gpu="h100-80gb")
    assert found.peak_bytes == by_hand("h100-80gb", 96, 40)
    assert found.ledger.requested_bytes == found.requested_bytes
    assert "Fits on h100-80gb" in repr(found)


def test_other_sizes_are_another_account():
    found = of_an_mlp().at(b=77, d=64)
    assert found.letters == {"b": 77, "d": 64}
    assert found.peak_bytes == by_hand("a100-80gb", 64, 77)


def test_a_module_stays_as_it_is():
    model = mlp(32)
    before = [p.clone() for p in model.parameters()]
    account(model, numbers("b", 32), loss=squares, b=3)
    assert all(torch.equal(p, q) and p.grad is None for p, q in zip(model.parameters(), before, strict=True))


def test_a_model_of_tokens_in_autocast():
    def made(V: int, s: int, L: int) -> nn.Module:
        return GPT(V, s, 48, L, 3)

    words = tokens("b", "s", below="V")
    found = account(made, (words, words), loss=lambda out, _: out[1], precision="autocast", V=101, s=32, L=2, b=4)
    assert found.ledger.parts["autocast copies"] > 0
    assert found.ledger.parts["parameters"] == sum(p.nbytes for p in made(V=101, s=32, L=2).parameters())
    assert {row.module.split(".")[0] for row in found.ledger.rows} >= {"blocks"}


def test_out_of_memory_is_an_account_too():
    def wide() -> nn.Module:
        return nn.Sequential(nn.Linear(8, 50_000), nn.GELU(), nn.Linear(50_000, 8))

    found = account(wide, numbers("b", 8), loss=squares, gpu="t4-16gb", b=50_000)
    assert found.report.ran_out
    assert "Out of memory on t4-16gb" in repr(found)


def wide_net() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 50_000), nn.GELU(), nn.Linear(50_000, 8))


def test_what_ran_out_has_the_sizes_that_the_step_needs():
    """And not those of the GPU on which it ended."""
    small, large = (account(wide_net, numbers("b", 8), loss=squares, gpu=gpu, b=50_000) for gpu in ("t4", "h200"))
    as_t4 = replace(find_spec("t4"), total_bytes=find_spec("h200").total_bytes)
    roomy = account(wide_net, numbers("b", 8), loss=squares, gpu=as_t4, b=50_000)
    assert (small.ran_out, roomy.ran_out, large.ran_out) == (True, False, False)
    assert small.report.peak.allocated_bytes < find_spec("t4").total_bytes < small.peak_bytes
    for name in ("peak_bytes", "requested_bytes", "most_requested_bytes"):
        assert getattr(small, name) == getattr(roomy, name)
    assert small.with_room.trace.events[-1].action != "oom"
    assert roomy.with_room is roomy.report
    said = " ".join(repr(small).split())
    assert said.startswith("It ran out of memory on t4-16gb. With room for all it allocates ")
    assert exact(small.peak_bytes) in said
    assert exact(small.peak_bytes) in small._repr_html_()
    assert repr(roomy) == repr(roomy.report)
    assert small.ledger.allocated_bytes == small.report.shortage.allocated_bytes  # where it ran out


def test_the_context_may_be_stated():
    found = account(wide_net, numbers("b", 8), loss=squares, gpu="t4", b=50, context_bytes="863MiB")
    assert found.report.spec.context_bytes == 863 * MiB
    assert found.at(b=60).report.spec.context_bytes == 863 * MiB
    assert "904,921,088 as stated for the" in repr(found)
    with pytest.raises(ValueError, match="context must be bytes or a size"):
        account(wide_net, numbers("b", 8), loss=squares, b=50, context_bytes="large")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"s": 3},
            "a letter must be a size of the batch or the targets, or an argument of the model: got 's'; they have b",
        ),
        ({"precision": "half"}, "precision must be one of 'as it is', 'float32', 'bfloat16'"),
        ({"optimizer": "Lion"}, "optimizer must be one of 'AdamW', 'AdamW, fused'"),
        ({"loss": None}, "loss must be given where the model returns none: got Tensor"),
    ],
)
def test_what_is_refused(changed, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        of_an_mlp(**changed)


def test_every_letter_has_a_value():
    with pytest.raises(ValueError, match=r"b of 'b' has none; try account\(…, b=8\)"):
        account(mlp, numbers("b", "d"), loss=squares, d=8)
    with pytest.raises(ValueError, match=r"d of mlp has none; try account\(…, d=8\)"):
        account(mlp, numbers("b", 8), loss=squares, b=8)
    with pytest.raises(ValueError, match="letters must be among d, b: got 's'"):
        of_an_mlp().at(s=3)


@pytest.mark.nightly
def test_a_formula_in_some_letters_alone_is_that_of_all_at_their_values():
    found = of_an_mlp()
    of_both, of_b = found.formula(n_checks=2), found.formula(letters=["b"], n_checks=2)
    assert (of_b.letters, set(of_both.letters)) == (("b",), {"b", "d"})
    assert of_b.is_exact
    assert of_b.n_runs < of_both.n_runs
    assert of_b.bytes(b=77) == of_both.bytes(b=77) == found.at(b=77).requested_bytes
    assert of_b.compare(found).is_exact


def test_a_formula_of_letters_that_there_are_not():
    with pytest.raises(ValueError, match=re.escape("letters must be among d, b: got 'x'.")):
        of_an_mlp().formula(letters=["x"])


def test_a_step_is_read_on_an_open_gpu():
    found = of_an_mlp()
    with SimulatedGPU("a100-80gb") as gpu:
        readings = found.step.readings(gpu)
    assert list(readings) == [f"step {n}, {what}" for n in (1, 2) for what in ("at most", "at its end")]
    assert max(readings.values()) == found.peak_bytes


def test_what_the_report_names_is_not_warned_of():
    """pytest makes an error of a warning: cuDNN's workspace is in the report, and in no warning."""
    found = account(nn.Conv2d(3, 8, 3), numbers("b", 3, 16, 16), loss=squares, b=2)
    assert any("cuDNN" in name for name in found.report.trace.notes.unmodelled)
    assert "cuDNN's workspaces are not modelled" in repr(found)


@pytest.mark.nightly
def test_the_most_that_is_requested_may_be_at_another_moment():
    """With biases of 16 bytes in blocks of 512 most is allocated in the optimizer, most requested in backward."""
    found = account(lambda: nn.Sequential(*[nn.Linear(4, 4) for _ in range(40)]), numbers("b", 4), loss=squares, b=60)
    held, most = 0, []
    for event in found.report.trace.events:
        if event.action in ("alloc", "free"):
            size = {e.allocation: e.n_bytes for e in found.report.trace.events if e.action == "alloc"}
            held += size[event.allocation] * (1 if event.action == "alloc" else -1)
            most.append(held)
    assert found.most_requested_bytes == max(most) > found.requested_bytes
    assert found.formula(n_checks=2).bytes() == found.most_requested_bytes


def test_a_precision_is_the_models_own_unless_one_is_asked_for():
    halves = account(nn.Linear(512, 512).bfloat16(), numbers("b", 512, dtype=torch.bfloat16), loss=squares, b=8)
    assert halves.ledger.of(category="parameters").requested_bytes == 2 * (512 * 512 + 512)
    whole = account(nn.Linear(512, 512).bfloat16(), numbers("b", 512), loss=squares, precision="float32", b=8)
    assert whole.ledger.of(category="parameters").requested_bytes == 4 * (512 * 512 + 512)


def test_parts_that_are_set_to_evaluate_stay_so_unless_all_are():
    model = nn.Sequential(nn.Linear(64, 64), nn.Dropout(0.5))
    trained = account(model, numbers("b", 64), loss=squares, b=100).requested_bytes
    model[1].eval()
    assert account(model, numbers("b", 64), loss=squares, b=100).requested_bytes < trained
    model.eval()
    assert account(model, numbers("b", 64), loss=squares, b=100).requested_bytes == trained


@pytest.mark.long
def test_targets_go_to_the_loss_alone():
    def of(gpu, targets, loss):
        model = nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 10))
        return account(model, numbers("b", 784), targets=targets, loss=loss, gpu=gpu, b=64)

    found = of("a100-80gb", tokens("b", below=10), nn.functional.cross_entropy)
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        model = nn.Sequential(nn.Linear(784, 300), nn.ReLU(), nn.Linear(300, 10)).to("cuda")
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            x, y = torch.randn(64, 784).to("cuda"), torch.randint(10, (64,)).to("cuda")
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        assert found.peak_bytes == gpu.max_memory_allocated()
    assert found.formula(n_checks=2).bytes(b=77) == found.at(b=77).most_requested_bytes


def test_a_batch_whose_parts_the_model_does_not_take_says_the_way_out():
    with pytest.raises(TypeError) as raised:
        account(mlp(8), (numbers("b", 8), tokens("b", below=8)), loss=squares, b=4)
    assert "targets=…" in raised.value.__notes__[0]


@pytest.mark.parametrize("keeps_output", [False, True])
def test_an_output_that_has_a_name_stays_through_backward(keeps_output):
    def make():
        return nn.Sequential(nn.Linear(64, 256), nn.Linear(256, 5000))

    def loss_of(output, batch):
        return output.log_softmax(-1).mean()

    found = account(make, numbers("b", 64), loss=loss_of, keeps_output=keeps_output, b=400)
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        model = make().to("cuda")
        optimizer = torch.optim.AdamW(model.parameters())
        for _ in range(2):
            x = torch.randn(400, 64).to("cuda")
            if keeps_output:
                output = model(x)
                loss = loss_of(output, x)
            else:
                loss = loss_of(model(x), x)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        assert found.peak_bytes == gpu.max_memory_allocated()


def test_the_same_call_gives_the_same_account():
    def batch(b):
        return (torch.rand(b, 64) < 0.5).nonzero()[:, :1].float().expand(-1, 64).contiguous()

    def make():
        return nn.Sequential(*[nn.Linear(64, 64) for _ in range(int(3 + 8 * torch.rand(())))])

    before = torch.random.get_rng_state()
    assert len({account(make, batch, loss=squares, b=50).requested_bytes for _ in range(3)}) == 1
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_row_that_an_embedding_does_not_have_is_refused():
    class Positions(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(50, 16), nn.Embedding(128, 16)

        def forward(self, x):
            return self.words(x) + self.places(torch.arange(x.shape[1], device=x.device))

    found = account(Positions, tokens("b", "s", below=50), loss=squares, b=2, s=128)
    with pytest.raises(IndexError, match="places has 128 rows, and is asked for row 128"):
        found.at(s=129)
    with pytest.raises(IndexError, match="words has 50 rows, and is asked for row"):
        account(Positions, tokens("b", "s", below=100), loss=squares, b=2, s=128)


class Places(nn.Embedding):
    """Positions behind two others, as BART's: it is called with the tokens, and looks up their places."""

    def forward(self, words):
        return super().forward(torch.arange(words.shape[1], device=self.weight.device) + 2)


@pytest.mark.parametrize(("n", "fits"), [(126, True), (127, False)])
def test_an_embedding_that_is_called_with_something_else(n, fits):
    """What counts is what it looks up: 128 rows hold 126 places, whatever the tokens are."""

    def run():
        return account(Places(128, 8), tokens(1, n, below=5000), loss=squares)

    if fits:
        assert run().requested_bytes > 0
        return
    with pytest.raises(IndexError, match="an embedding has 128 rows, and is asked for row 128"):
        run()


def test_some_letters_of_a_function_with_defaults():
    def make(d, V=100):
        return nn.Linear(d, V)

    found = account(make, numbers("b", "d"), loss=squares, b=8, d=64)
    assert found.formula(letters=["b"], n_checks=2).is_exact


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"steps": 0}, "steps must be a whole number from 1 on: got 0."),
        ({"steps": "2"}, "steps must be a whole number from 1 on: got '2'."),
        ({"precision": None}, "precision must be one of 'as it is', 'float32'"),
        ({"optimizer": None}, "or a function of the parameters: got None."),
        ({"loss": lambda output, batch: None}, "loss must return a number that depends on parameters: got NoneType"),
        ({"loss": lambda output, batch: output}, "got Tensor of shape [40, 96]"),
        ({"loss": None}, "loss must be given where the model returns none: got Tensor of shape [40, 96]"),
    ],
)
def test_what_else_is_refused(changed, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        of_an_mlp(**changed)


def test_a_formula_of_no_letters():
    with pytest.raises(ValueError, match="letters must be some of d, b: got none"):
        of_an_mlp().formula(letters=[])


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_batch_is_of_the_weights_type(precision):
    dtype = getattr(torch, precision)
    found = of_an_mlp(precision=precision)
    cast = account(mlp, (numbers("b", "d", dtype=dtype),), loss=squares, precision=precision, d=96, b=40)
    assert found.ledger.of(category="inputs").requested_bytes == 2 * 40 * 96
    assert found.peak_bytes == cast.peak_bytes
