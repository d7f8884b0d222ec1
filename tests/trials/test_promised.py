"""What a remedy applied from outside takes is what the script takes with its lines written in, to the byte."""

import re
import textwrap

import pytest
from forked_runs import Runs

from every_byte.advice.remedy import Left, Remedy, together
from every_byte.gpu.memory.specs import find_spec
from every_byte.trials.heads import offer
from every_byte.trials.offers import offers
from every_byte.trials.script import Script
from every_byte.trials.seen import Seen

SCRIPT = """
from contextlib import nullcontext
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))

class Net(nn.Module):
    def __init__(self, d=160, n=5):
        super().__init__()
        self.blocks, self.head = nn.ModuleList(Block(d) for _ in range(n)), nn.Linear(d, 1001)
    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)

loader = DataLoader(TensorDataset(torch.zeros(999, 17, 160), torch.zeros(999, 17, dtype=torch.long)), batch_size=48)
model = Net().to("cuda")
# the model is made
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
# the optimizer is made
for x, y in loader:
    x, y = x.to("cuda"), y.to("cuda")
    with nullcontext():
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
"""
MADE = "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)\n"


def around(script: str, lines: str) -> str:
    """The script with a remedy's `with` around its forward and loss."""
    return script.replace("with nullcontext():", lines.splitlines()[0])


def after_model(script: str, lines: str) -> str:
    return script.replace("# the model is made\n", f"{lines}\n# the model is made\n")


def made_with(script: str, lines: str) -> str:
    """The script whose optimizer is made as a remedy's line says, `...` being what it had."""
    line = re.sub(r"\.\.\.", "model.parameters(), lr=1e-3", lines)
    return script.replace(MADE, f"import bitsandbytes\n{line}\n" if "bitsandbytes" in line else f"{line}\n")


def after_optimizer(script: str, lines: str) -> str:
    return script.replace("# the optimizer is made\n", f"{lines}\n").replace("    optimizer.step()\n", "")


def without_zeros(script: str, _lines: str) -> str:
    return script.replace("optimizer.zero_grad(set_to_none=False)", "optimizer.zero_grad()")


EDITS = {
    "autocast bfloat16": around,
    "AdamW, fused": made_with,
    "AdamW, loop": made_with,
    "AdamW, 8-bit": made_with,
    "AdamW, 8-bit, paged": made_with,
    "step in backward": after_optimizer,
    "checkpoint, 5 regions": after_model,
    "checkpoint, every second region": after_model,
    "gradients set to None": without_zeros,
    "saved tensors on the CPU": around,
    "torch.compile": after_model,
    "expandable segments": lambda script, _lines: script,
}
TOGETHER = [
    ("autocast bfloat16", "checkpoint, 5 regions", "AdamW, fused"),
    ("autocast bfloat16", "torch.compile"),
    ("step in backward", "AdamW, fused", "saved tensors on the CPU"),
    ("autocast bfloat16", "checkpoint, every second region", "gradients set to None", "expandable segments"),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    found = Runs(tmp_path_factory.mktemp("programs"))
    (found.folder / "plain.py").write_text(SCRIPT, encoding="utf-8")
    yield found
    found.close()


@pytest.fixture(scope="module")
def seen(runs) -> Seen:
    return Seen(**runs.trial(("plain.py",), looks="around")["seen"])


def offered(seen: Seen) -> dict[str, Remedy[Script]]:
    found = offers(seen, find_spec("a100-80gb"), "")
    return {one.name: one for one in found if not isinstance(one, Left)}


def took(runs: Runs, script: str, settings: str = "") -> tuple[int, int, int]:
    """The peak, what is reserved at most, and the number of allocations and frees of a script that is run as it is."""
    found = runs(script, "--quiet", *(["--settings", settings] if settings else []), name="edited.py")
    assert found.exit_code == 0, found.err
    peak = found.figures["peak"]
    return peak["allocated_bytes"], peak["reserved_bytes"], found.figures["n_events"]


def figures(found: dict) -> tuple[int, int, int]:
    """The same of a run under changes."""
    return found["peak_bytes"], found["reserved_bytes"], found["n_events"]


def promised(runs: Runs, remedies: tuple[Remedy[Script], ...]) -> tuple[int, int, int]:
    changed = together(remedies, Script(("plain.py",)))
    words = (*(("--settings", changed.settings) if changed.settings else ()), *changed.step.words)
    return figures(runs.trial(words, changed.step.changes))


def edited(remedies: tuple[Remedy[Script], ...]) -> str:
    script = SCRIPT
    for remedy in remedies:
        lines = remedy.apply(Script(())).lines
        script = EDITS[remedy.name](script, lines)
    return script


@pytest.mark.long
def test_each_remedy_that_is_offered_is_here(seen):
    assert set(offered(seen)) == set(EDITS)


@pytest.mark.long
def test_looking_on_changes_nothing(runs):
    plain = runs.trial(("plain.py",), looks="around")
    assert figures(plain) == took(runs, SCRIPT) == promised(runs, ())


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", EDITS)
def test_a_remedy_takes_what_its_lines_take(runs, seen, name):
    remedies = (offered(seen)[name],)
    script, settings = edited(remedies), together(remedies, Script(())).settings
    assert (script != SCRIPT) or settings
    assert promised(runs, remedies) == took(runs, script, settings)
    if name not in ("AdamW, loop", "gradients set to None", "expandable segments"):  # by chance, here
        assert promised(runs, remedies) != promised(runs, ())


@pytest.mark.long
@pytest.mark.parametrize("names", TOGETHER, ids=" + ".join)
def test_several_together_take_what_their_lines_take(runs, seen, names):
    remedies = tuple(offered(seen)[name] for name in names)
    settings = together(remedies, Script(())).settings
    script = SCRIPT
    if "step in backward" in names:  # the form of the optimizer comes first
        remedies = tuple(sorted(remedies, key=lambda one: one.name == "step in backward"))
    if "saved tensors on the CPU" in names or "autocast bfloat16" in names:
        assert not {"saved tensors on the CPU", "autocast bfloat16"} <= set(names)  # there is one `with` to replace
    script = edited(remedies)
    assert promised(runs, remedies) == took(runs, script, settings)


@pytest.mark.long
@pytest.mark.parametrize("others", [(), ("autocast bfloat16", "checkpoint, 5 regions")], ids=["alone", "together"])
def test_a_loss_in_chunks_takes_what_its_lines_take(runs, seen, others):
    found = runs.trial(("plain.py",), looks="for the head")["found"]
    assert found["head"] == {"path": "head", "width": 160, "is_of_transformers": False, "ignore_index": -100}
    chunked = offer(found)
    script = after_model(SCRIPT, chunked.apply(Script(())).lines).replace("loss = F.cross_entropy(", "loss = chunked(")
    remedies = tuple(offered(seen)[name] for name in others)
    for remedy in remedies:
        script = EDITS[remedy.name](script, remedy.apply(Script(())).lines)
    assert promised(runs, (chunked, *remedies)) == took(runs, script)
    assert promised(runs, (chunked, *remedies))[0] < promised(runs, remedies)[0]


@pytest.mark.long
def test_a_loss_that_is_no_cross_entropy_has_no_head(runs):
    other = SCRIPT.replace("F.cross_entropy(model(x).flatten(0, 1), y.flatten())", "model(x).square().mean()")
    (runs.folder / "other.py").write_text(other, encoding="utf-8")
    found = runs.trial(("other.py",), looks="for the head")["found"]
    assert offer(found) == Left("loss in 8 chunks", "the loss is not a cross entropy: it comes from Mean")


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 31, 64])
def test_another_batch_size_takes_what_the_script_takes_with_it(runs, seen, size):
    assert (seen.loader, seen.batch_size, seen.rows) == (0, 48, 48)
    changed = Script(("plain.py",)).with_change("batch size", loader=seen.loader, size=size)
    found = runs.trial(changed.words, changed.changes, looks="around")
    assert found["seen"]["rows"] == size
    script = SCRIPT.replace("batch_size=48", f"batch_size={size}")
    assert figures(found) == took(runs, script)


@pytest.mark.long
def test_what_is_reserved_is_that_of_the_card_where_segments_go_back_to_the_driver(runs):
    program = textwrap.dedent(
        """
        import torch
        for n in (700, 300, 200):
            x = torch.zeros(n << 20, device="cuda", dtype=torch.uint8)
            del x
        x = torch.zeros(900 << 20, device="cuda", dtype=torch.uint8)
        """
    )
    (runs.folder / "tight.py").write_text(program, encoding="utf-8")
    context = "80156MiB"  # which leaves an A100 1,000 MiB
    found = runs.trial(("--context", context, "tight.py"))
    real = runs(program, "--quiet", "--context", context, name="tight.py")
    assert found["fits"]
    assert found["n_retries"] > 0
    assert real.exit_code == 0, real.err
    assert found["reserved_bytes"] == real.figures["peak"]["reserved_bytes"]
    assert found["peak_bytes"] == real.figures["peak"]["allocated_bytes"]
