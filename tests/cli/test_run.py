"""The command `every-byte run`: a program's own exit code and output, and a report whatever the program does."""

import json
import os
import pickle
import subprocess
import sys
import textwrap

import pytest
import torch
from forked_runs import Runs, before_the_report, in_lines
from places import HELPERS, ROOT

from every_byte.report.report import Report
from utils import SimulatedGPU

TRAIN = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 256)).to("cuda")
optimizer = torch.optim.AdamW(model.parameters())
def step():
    x = torch.randn(64, 256, device="cuda")
    loss = model(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = Runs(tmp_path_factory.mktemp("programs"))
    yield runs
    runs.close()


def program(text: str) -> str:
    return TRAIN + textwrap.dedent(text)


@pytest.mark.nightly
def test_three_steps_of_a_loop_that_never_ends(run):
    found = run(program("while True:\n    step(); print('a step')"))
    assert (found.exit_code, found.out) == (0, "a step\n" * 3)
    assert [step["number"] for step in found.figures["steps"]] == [1, 2, 3]
    assert "stopped after 3 optimizer steps, as --steps says" in " ".join(found.report.split())


@pytest.mark.long
def test_a_real_snapshot_stays_and_the_programs_own_stands_beside_it(run):
    (run.folder / "real.pickle").write_bytes(b"of a real GPU")
    found = run(program("step(); [torch.cuda.memory._dump_snapshot(f'{name}.pickle') for name in ('new', 'real')]"))
    assert found.exit_code == 0, found.err
    assert (run.folder / "real.pickle").read_bytes() == b"of a real GPU"
    for name in ("new.pickle", "real.simulated.pickle"):
        assert pickle.loads((run.folder / name).read_bytes())["device_traces"][0]
    said = "was written as real.simulated.pickle: it is of a simulated GPU, and real.pickle may be"
    assert said in in_lines(found)


@pytest.mark.long
def test_what_the_program_has_dropped_is_not_held_at_its_end(run):
    """A model that is part of a cycle is garbage, which Python finds at a time that depends on all else it has made."""
    text = "step()\nx = torch.empty(1 << 20, device='cuda')\nfound = [x]\nfound.append(found)\ndel x, found\n"
    held = run(program("step()")).figures["allocated_at_end_bytes"]
    assert run(program("import gc; gc.disable()\n" + text)).figures["allocated_at_end_bytes"] == held


@pytest.mark.long
def test_the_figures_are_those_of_the_same_program_in_a_scope(run):
    found = run(program("for _ in range(2):\n    step()"), "--steps", "0")
    with SimulatedGPU("a100-80gb", cuda=True) as gpu:
        namespace: dict = {}
        exec(program("for _ in range(2):\n    step()"), namespace)
        end = gpu.memory_allocated()
        namespace.clear()
    assert found.figures["allocated_at_end_bytes"] == end
    assert found.figures["peak"]["allocated_bytes"] == gpu.max_memory_allocated()
    assert found.figures["peak"]["reserved_bytes"] == gpu.max_memory_reserved()


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("text", "exit_code", "ended"),
    [
        ("step()", 0, "the program ended by itself"),
        ("step(); import sys; sys.exit(7)", 7, "the program called sys.exit(7)"),
        ("step(); import sys; sys.exit('no luck')", 1, "the program called sys.exit('no luck')"),
        ("step(); raise ValueError('wrong turn')", 1, "ValueError: wrong turn"),
        ("import os; step(); os._exit(5)", 5, "the program called os._exit(5)"),
        ("import os, signal, time; step(); os.kill(os.getpid(), signal.SIGINT); time.sleep(9)", 130, "interrupted"),
        ("import os, signal; step(); os.kill(os.getpid(), signal.SIGTERM)", 143, "terminated"),
        ("step(); del model, optimizer; import gc; gc.collect()", 0, "the program ended by itself"),
        ("step(); import __main__; __main__.__dict__.clear()", 0, "the program ended by itself"),
        ("import sys; step(); sys.stdout = sys.stderr = None", 0, "the program ended by itself"),
        ("import warnings; warnings.simplefilter('error'); step().item()", 0, "the program ended by itself"),
    ],
)
def test_however_it_ends_its_exit_code_is_kept_and_the_report_is_written(run, text, exit_code, ended):
    found = run(program(text))
    assert found.exit_code == exit_code
    assert found.figures["exit_code"] == exit_code
    assert ended in found.figures["ended"]
    assert len(found.figures["steps"]) == 1


def test_an_error_in_backward_is_the_programs_own(run):
    found = run(
        program("""
        class Broken(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()
            @staticmethod
            def backward(ctx, g):
                raise RuntimeError("broken in backward")
        step()
        Broken.apply(model(torch.randn(8, 256, device="cuda"))).sum().backward()
        """)
    )
    assert found.exit_code == 1
    assert f'File "{run.folder}/train.py", line ' in found.err
    assert "every_byte" not in before_the_report(found.err)
    assert "RuntimeError: broken in backward" in found.err
    assert len(found.figures["steps"]) == 1


def test_out_of_memory_reaches_the_program_which_may_go_on(run):
    text = """
    try:
        torch.empty(1 << 40, device="cuda")
    except torch.OutOfMemoryError as error:
        print(str(error).split(". ")[0])
    step()
    """
    found = run(program(text), "--gpu", "t4-16gb")
    assert (found.exit_code, found.out) == (0, "CUDA out of memory\n")
    assert len(found.figures["steps"]) == 1


def test_out_of_memory_that_nobody_catches(run):
    found = run(program("step()\nkept = [torch.empty(1 << 30, device='cuda') for _ in range(9)]"), "--gpu", "t4-16gb")
    assert found.exit_code == 1
    assert "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.00 GiB" in found.err
    assert found.figures["out_of_memory"]["asked_bytes"] == 1 << 32


def test_threads_are_part_of_it(run):
    text = """
    import threading
    threads = [threading.Thread(target=step) for _ in range(2)]
    threads[0].start(); threads[0].join()
    threads[1].start()  # nobody waits for it
    """
    found = run(program(text))
    assert found.exit_code == 0
    assert len(found.figures["steps"]) == 2


def test_a_program_that_catches_everything_ends_all_the_same(run):
    text = """
    while True:
        try:
            step()
        except:
            print("went on")
    """
    found = run(program(text))
    assert (found.exit_code, found.out) == (0, "went on\n" * 3)
    assert len(found.figures["steps"]) == 3
    assert found.figures["ended"] == "stopped after 3 optimizer steps, as --steps says"


def test_a_thread_is_stopped_without_a_word(run):
    text = """
    import threading
    def train():
        while True:
            step()
    thread = threading.Thread(target=train); thread.start(); thread.join()
    print("joined")
    """
    found = run(program(text))
    assert (found.exit_code, found.out) == (0, "joined\n")
    assert "Traceback" not in found.err
    assert found.figures["ended"] == "stopped after 3 optimizer steps, as --steps says"


@pytest.mark.nightly
def test_a_subprocess_is_not_followed_and_does_no_harm(run):
    text = """
    import os, subprocess, sys
    step()
    code = "import torch; print(torch.cuda.is_available())"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip())
    if not (child := os.fork()):
        os._exit(3)
    print(os.waitpid(child, 0)[1] >> 8)
    """
    found = run(program(text))
    assert (found.exit_code, found.out) == (0, f"{torch.cuda.is_available()}\n3\n")
    assert found.figures["exit_code"] == 0


def test_printed_tensors_and_a_history_of_its_own(run):
    text = """
    torch.cuda.memory._record_memory_history(max_entries=100)
    print(torch.zeros(2, device="cuda"))
    step()
    torch.cuda.memory._dump_snapshot("own.pickle")
    torch.cuda.memory._record_memory_history(enabled=None)
    print(torch.cuda.memory_allocated() == sum(s["allocated_size"] for s in torch.cuda.memory_snapshot()))
    """
    found = run(program(text))
    assert found.out == "tensor([0., 0.], device='cuda:0')\nTrue\n"
    own = pickle.loads((run.folder / "own.pickle").read_bytes())
    assert {"segments", "device_traces"} <= own.keys()
    assert len(own["device_traces"][0]) > 20


def test_the_program_is_its_own_main_beside_its_own_modules(run):
    (run.folder / "utils.py").write_text("WHO = 'the one beside it'", encoding="utf-8")
    text = """
    import os, pickle, sys, utils
    class Own: pass
    print(__name__, sys.argv, utils.WHO, sys.path[0] == os.getcwd(), __file__ == os.path.abspath("train.py"))
    print(type(pickle.loads(pickle.dumps(Own()))) is Own, sys.modules["__main__"].Own is Own)
    """
    found = run(textwrap.dedent(text), arguments=("--lr", "3", "-m"))
    assert found.out == "__main__ ['train.py', '--lr', '3', '-m'] the one beside it True True\nTrue True\n"
    assert "No tensor was ever made on the GPU" in " ".join(found.report.split())


@pytest.mark.long
def test_several_optimizers_and_an_optimizer_within_backward(run):
    text = """
    other = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(5):
        model(torch.randn(64, 256, device="cuda")).sum().backward()
        optimizer.step(); other.step()
        optimizer.zero_grad()
        print("both")
    """
    assert run(program(text)).out == "both\n" * 3
    text = """
    each = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
    for p in model.parameters():
        p.register_post_accumulate_grad_hook(lambda p: each[p].step())
    for _ in range(5):
        model(torch.randn(64, 256, device="cuda")).sum().backward()
        print("within")
    """
    found = run(program(text))
    assert found.out == "within\n" * 3
    assert len(found.figures["steps"]) == 3


def test_evaluation_is_no_step_and_comes_before_the_stop(run):
    text = """
    for i in range(5):
        step()
        model.eval()
        with torch.no_grad():
            model(torch.randn(64, 256, device="cuda"))
        model.train()
        print("evaluated", i)
    """
    assert run(program(text), "--steps", "2").out == "evaluated 0\nevaluated 1\n"


def test_a_rank_of_eight_finds_its_environment_and_its_group(run):
    text = """
    import os
    import torch
    import torch.distributed as dist
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    x = torch.ones(4, device="cuda")
    dist.all_reduce(x)
    print(dist.get_rank(), dist.get_world_size(), dist.get_backend(), torch.cuda.device_count(), x.device)
    dist.destroy_process_group()
    """
    assert run(textwrap.dedent(text), "--ranks", "8", "--rank", "3").out == "3 8 nccl 8 cuda:3\n"


def test_what_it_writes(run):
    found = run(program("step(); step()"), "--html", "r.html", "--trace", "t.json", "--viz", "v.pickle", "--quiet")
    assert found.err == ""
    assert (run.folder / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    trace = json.loads((run.folder / "t.json").read_text(encoding="utf-8"))
    assert len(trace["events"]) == found.figures["n_events"]
    assert trace["fields"][0] == "action"
    assert pickle.loads((run.folder / "v.pickle").read_bytes())["device_traces"]


def command(*words: str, **more) -> subprocess.CompletedProcess:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    whole = [sys.executable, "-m", "every_byte", "run", *words]
    return subprocess.run(whole, capture_output=True, text=True, env=environment, check=False, **more)


@pytest.mark.long
def test_a_program_like_nanogpt_takes_what_nanogpt_takes_on_cuda(tmp_path):
    """karpathy/nanoGPT's train.py, of 3adf61e, took these over PyTorch 2.13's CUDA build, with stubs of an A100."""
    for split in ("train", "val"):
        (tmp_path / f"{split}.bin").write_bytes(bytes(400_000))
    figures = tmp_path / "figures.json"
    found = command("--steps", "0", "--quiet", "--json", str(figures), str(HELPERS / "like_nanogpt.py"), str(tmp_path))
    assert found.returncode == 0
    told = json.loads(figures.read_text(encoding="utf-8"))
    assert told["peak"]["allocated_bytes"] == 13_827_186_176
    assert told["peak"]["reserved_bytes"] == 15_990_784_000
    assert told["allocated_at_end_bytes"] == 2_747_079_680
    assert told["unmodelled"] == []


def test_another_pytorch_is_named(monkeypatch):
    gpu = SimulatedGPU("a100-80gb")
    assert Report.of(gpu).notes == ()
    monkeypatch.setattr(torch, "__version__", "2.15.1+cu132")
    (note,) = Report.of(gpu).notes
    assert str(note).startswith("the rules of PyTorch 2.13 were followed, and the program ran under 2.15.1+cu132: ")
