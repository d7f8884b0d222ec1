"""Where PyTorch's compiler cannot be followed a function runs as it is written, and the report's first line says so."""

import gc
import importlib.util
import subprocess
import sys

import pytest
import torch
from places import ROOT

from every_byte.gpu.patches import compiling
from every_byte.gpu.patches.replacing import places
from utils import SimulatedGPU

NEEDS_TRITON = [
    pytest.mark.skipif(sys.platform != "linux", reason="Triton has wheels for Linux alone"),
    pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the compiler is known in PyTorch 2.13"),
]


def test_why_not(monkeypatch):
    assert "cuda=True" in compiling.why_not(stands_for_cuda=False)
    monkeypatch.setattr(torch, "__version__", "2.12.1")
    assert "the installed PyTorch is 2.12.1" in compiling.why_not(stands_for_cuda=True)
    monkeypatch.setattr(torch, "__version__", "2.13.0+cpu")
    monkeypatch.setattr(sys, "platform", "win32")
    assert "on win32" in compiling.why_not(stands_for_cuda=True)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert 'pip install "every-byte[compile]"' in compiling.why_not(stands_for_cuda=True)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert compiling.why_not(stands_for_cuda=True) == ""


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n"
        "model = torch.nn.Linear(64, 64).cuda()\n"
        "run = torch.compile(model)\n"
        "for i in range(3):\n"
        "    run(torch.zeros(8, 64, device='cuda')).sum().backward()\n"
    )
    return path


def told(program, before=""):
    """What the command prints of a program, without its line breaks; `before` is what Python runs first."""
    command = f"{before}\nfrom every_byte.__main__ import main\nraise SystemExit(main(['run', {str(program)!r}]))"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return " ".join((done.stdout + done.stderr).split())


@pytest.mark.long
def test_without_triton_the_first_line_says_so(program):
    said = told(
        program, "from every_byte.gpu.patches import compiling; compiling.why_not = lambda *_, **__: 'no Triton'"
    )
    assert " GiB (counted without torch.compile)." in said
    assert "and not exact: what is named above" in said


def standing():
    """What stands in PyTorch's places."""
    return {(id(place.owner), place.name): vars(place.owner).get(place.name) for place in places()}


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
class TestFollowed:
    pytestmark = NEEDS_TRITON

    def test_the_report_says_what_a_first_run_takes(self, program):
        said = told(program)
        assert "without torch.compile" not in said
        assert "a first run on a card also times kernels" in said

    def test_what_fails_runs_as_it_is_written(self, monkeypatch):
        import torch._inductor.compile_fx as inductor

        def fails(*_args, **_kwargs):
            raise ValueError("no kernel for this")

        monkeypatch.setattr(inductor, "_compile_fx_inner", fails)
        torch._dynamo.reset()
        with SimulatedGPU("a100-80gb", cuda=True) as gpu:
            with pytest.warns(UserWarning, match="torch.compile failed on a simulated GPU"):
                y = torch.compile(lambda x: x * 2 + 1)(torch.zeros(3, device="cuda"))
            assert y.shape == (3,)
            assert "torch.compile" in gpu.unmodelled

    def test_everything_is_in_its_place_afterwards(self):
        hooks = dict(torch.nn.modules.module._global_forward_hooks)
        torch._dynamo.reset()
        with SimulatedGPU("a100-80gb", cuda=True):
            before = standing()
            torch.compile(lambda x: torch.nn.functional.gelu(x).sum())(torch.zeros(3, device="cuda"))
            after = standing()
        assert {key: value for key, value in before.items() if after.get(key) is not value} == {}
        assert torch.nn.modules.module._global_forward_hooks == hooks

    def test_a_compiler_of_ones_own_then_traces_as_before(self):
        """On a GPU that does not stand for "cuda" it sees the simulator's hooks, and would stop at what is skipped."""
        import torch._dynamo.trace_rules as rules

        before = list(rules.SKIP_DIRS)
        with SimulatedGPU("a100-80gb", cuda=True):
            assert len(rules.SKIP_DIRS) > len(before)
            with SimulatedGPU("t4-16gb", cuda=True):
                pass
            assert len(rules.SKIP_DIRS) > len(before)
        assert before == rules.SKIP_DIRS
        module = torch.nn.Linear(3, 3)
        torch._dynamo.reset()
        with SimulatedGPU("a100-80gb") as gpu, torch._dynamo.config.patch(error_on_recompile=True):
            run = torch.compile(module.to(gpu.device), backend="eager", fullgraph=True)
            run(torch.zeros(2, 3, device=gpu.device)).sum().backward()

    def test_where_the_compiler_steps_back_nothing_of_the_simulators_is_traced(self):
        """On a T4 it does not compile bfloat16, and the function runs as it is, on what the simulator answers."""
        held = []
        for compiled in (False, True):
            torch._dynamo.reset()
            with SimulatedGPU("t4-16gb", cuda=True) as gpu:
                x = torch.zeros(2, 4, 64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)

                def attention(x):
                    y = x * 2
                    return torch.nn.functional.scaled_dot_product_attention(y, y, y, is_causal=True)

                gc.disable()
                try:
                    y = (torch.compile(attention) if compiled else attention)(x)
                    held.append(gpu.memory_allocated())
                finally:
                    gc.enable()
                del y
        assert held[0] == held[1]

    def test_no_step_compiles_again(self):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        with SimulatedGPU("a100-80gb", cuda=True):
            model = torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.LayerNorm(32), torch.nn.GELU()).cuda()
            run, optimizer = torch.compile(model), torch.optim.AdamW(model.parameters(), fused=True)
            for _ in range(4):
                run(torch.zeros(8, 32, device="cuda")).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
