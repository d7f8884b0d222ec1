"""However a program ends, `every-byte run` gives its exit code and its output, as Python does, and the report."""

import json
import re
import signal
import subprocess
import sys
import textwrap

import pytest
from forked_runs import Runs, before_the_report

ON_THE_GPU = "import os, sys, signal, time, torch\nx = torch.zeros(1 << 20, device='cuda')\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = Runs(tmp_path_factory.mktemp("programs"))
    yield runs
    runs.close()


def program(text: str) -> str:
    return ON_THE_GPU + textwrap.dedent(text)


class PlainPython:
    """Runs the same text by Python alone, on the CPU: what its exit code and its output are."""

    def __init__(self, folder) -> None:
        self.folder = folder

    def __call__(self, text: str) -> subprocess.CompletedProcess:
        script = self.folder / "plain.py"
        script.write_text(f"import os, sys, signal, time\n{textwrap.dedent(text)}", encoding="utf-8")
        return subprocess.run([sys.executable, script.name], cwd=self.folder, capture_output=True, text=True)


def own(err: str) -> str:
    """What a program wrote to standard error, without the report, addresses and the numbers of lines."""
    said = before_the_report(err)
    return re.sub(
        r'line \d+|0x[0-9a-f]+|(?<=refcount : )\d+|(?<=repeated )\d+|(?<=File ").*(plain|train)\.py', "", said
    )


ENDS = {
    "stdout closed": "print('said'); sys.stdout.close()",
    "stderr closed": "print('said'); sys.stderr.close()",
    "both closed": "sys.stdout.close(); sys.stderr.close()",
    "stderr closed in an error": "sys.stderr.close(); 1 / 0",
    "descriptor 1 closed": "os.close(1)",
    "descriptor 2 closed": "os.close(2)",
    "descriptors closed": "os.close(1); os.close(2)",
    "no streams": "sys.stdout = sys.stderr = None",
    "no streams at all": "del sys.stdout, sys.stderr",
    "streams of another kind": "sys.stdout = sys.stderr = object()",
    "streams in memory": "import io; sys.stdout, sys.stderr = io.StringIO(), io.StringIO()",
    "a stream that fails": "class S:\n    def flush(s): raise RuntimeError('no')\n    write = flush\nsys.stdout = S()",
    "exit ''": "sys.exit('')",
    "exit ' '": "sys.exit(' ')",
    "exit None": "sys.exit(None)",
    "exit True": "sys.exit(True)",
    "exit -1": "sys.exit(-1)",
    "exit 256": "sys.exit(256)",
    "exit 2**40 + 3": "sys.exit(2**40 + 3)",
    "exit 2**70": "sys.exit(2**70)",
    "exit -2**70": "sys.exit(-2**70)",
    "exit 10**5000": "sys.exit(10**5000)",
    "exit 1.5": "sys.exit(1.5)",
    "exit bytes": "sys.exit(b'ab')",
    "exit several lines": "sys.exit('several\\nlines')",
    "exit tuple": "sys.exit((3, 4))",
    "exit an exception": "sys.exit(ValueError('wrong'))",
    "exit what cannot be told": "class C:\n    def __str__(s): raise ValueError\nsys.exit(C())",
    "exit with a code that fails": "class E(SystemExit):\n    code = property(lambda s: 1 / 0)\nraise E('why')",
    "exit without stderr": "sys.stderr = None; sys.exit(4)",
    "exit in a thread": "import threading; t = threading.Thread(target=sys.exit, args=(3,)); t.start(); t.join()",
    "exit is replaced": "sys.exit = lambda code: print('not', code); sys.exit(3)",
    "error": "raise ValueError('wrong turn')",
    "error without words": "raise ValueError",
    "error of blanks": "raise ValueError('\\n \\n')",
    "error that cannot be told": "class E(Exception):\n    def __str__(s): raise TypeError\nraise E",
    "error that exits when told": "class E(Exception):\n    def __str__(s): sys.exit(9)\nraise E",
    "error of NUL, ESC and RLO": "raise ValueError('a\\0b\\x1b[2Jc\\u202ed')",
    "error of half a character": "raise ValueError('a\\ud800b')",
    "error of a class in a class": "class A:\n    class E(Exception): pass\nraise A.E('inner')",
    "errors in a group": "raise ExceptionGroup('some', [ValueError('one'), ExceptionGroup('more', [KeyError('two')])])",
    "exit in a group": "raise BaseExceptionGroup('some', [SystemExit(3)])",
    "error from another": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e",
    "recursion": "def f(): return f()\nf()",
    "memory": "raise MemoryError",
    "interrupted by itself": "try:\n    raise KeyboardInterrupt\nexcept KeyboardInterrupt:\n    sys.exit(8)",
    "generator exit": "raise GeneratorExit",
    "assertion": "assert 1 == 2, 'no'",
    "syntax error": "exec('1 +')",
    "os._exit": "os._exit(5)",
    "hook": "sys.excepthook = lambda *a: print('hooked', a[1]); 1 / 0",
    "hook that fails": "def h(*a): raise KeyError('in hook')\nsys.excepthook = h\n1 / 0",
    "hook that exits": "sys.excepthook = lambda *a: sys.exit(7); 1 / 0",
    "no hook": "del sys.excepthook; 1 / 0",
    "hook None": "sys.excepthook = None; 1 / 0",
    "thread fails": "import threading; threading.Thread(target=lambda: 1 / 0).start()",
    "daemon writes": "import threading\ndef f():\n    while True: time.sleep(.001)\n"
    "threading.Thread(target=f, daemon=True).start(); print('main')",
    "thread outlives main": "import threading\ndef f(): time.sleep(.2); print('late')\n"
    "threading.Thread(target=f).start(); print('main')",
    "atexit": "import atexit; atexit.register(print, 'one'); atexit.register(print, 'two')",
    "atexit after an error": "import atexit; atexit.register(print, 'at exit'); 1 / 0",
    "atexit fails": "import atexit; atexit.register(lambda: 1 / 0); atexit.register(print, 'two')",
    "atexit exits": "import atexit; atexit.register(lambda: sys.exit(6))",
    "atexit _exits": "import atexit; atexit.register(lambda: os._exit(6))",
    "atexit unregistered": "import atexit; atexit.register(print, 'one'); atexit.unregister(print)",
    "finalizer": "import weakref\nclass C: pass\nc = C(); weakref.finalize(c, print, 'finalized')",
    "os._exit skips atexit": "import atexit; atexit.register(print, 'never'); os._exit(0)",
    "own handler of SIGTERM": "signal.signal(signal.SIGTERM, lambda *a: sys.exit(9))\n"
    "os.kill(os.getpid(), 15); time.sleep(5)",
    "own handler of SIGHUP": "signal.signal(signal.SIGHUP, lambda *a: print('hup'))\n"
    "os.kill(os.getpid(), 1); time.sleep(.1)",
    "ignores SIGHUP": "signal.signal(signal.SIGHUP, signal.SIG_IGN); os.kill(os.getpid(), 1); print('on')",
    "folder gone": "import tempfile; d = tempfile.mkdtemp(); os.chdir(d); os.rmdir(d)",
    "nothing is found": "sys.path.clear(); sys.argv.clear()",
    "builtins gone": "import builtins; builtins.print = builtins.open = None",
    "few recursions": "sys.setrecursionlimit(60)",
    "forks": "p = os.fork()\nif not p: sys.exit(3)\nprint(os.waitpid(p, 0)[1] >> 8)",
    "forks and is killed": "p = os.fork()\nif not p: time.sleep(9)\ntime.sleep(.2); os.kill(p, 15)\n"
    "print(os.waitstatus_to_exitcode(os.waitpid(p, 0)[1]))",
    "a process is terminated": "import multiprocessing as m\n"
    "p = m.get_context('fork').Process(target=time.sleep, args=(9,))\n"
    "p.start(); p.terminate(); p.join(); print(p.exitcode)",
    "a process is not waited for": "import multiprocessing as m\n"
    "p = m.get_context('fork').Process(target=print, args=('child',), kwargs={'flush': True}); p.start()",
    "script deleted": "os.remove(__file__); 1 / 0",
}


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ENDS)
def test_exit_code_and_output_are_pythons_and_the_report_follows(run, tmp_path, name):
    found, plain = run(program(ENDS[name])), PlainPython(tmp_path)(ENDS[name])
    assert (found.exit_code, found.out) == (plain.returncode, plain.stdout)
    if name != "a stream that fails":  # which Python says after all else, and these runs end before that
        assert own(found.err) == own(plain.stderr)
    assert "4,194,304" in found.report
    assert found.figures["exit_code"] in (found.exit_code, 0)


@pytest.mark.long
def test_an_alarm_that_a_program_has_left_does_no_harm(run):
    text = """
    def ring(*_): raise TimeoutError
    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.01)
    """
    assert (found := run(program(text))).report
    assert found.figures["peak"]["allocated_bytes"] == 1 << 22


@pytest.mark.long
def test_no_frame_of_ours_is_printed_by_a_thread_or_a_destructor(run):
    text = """
    import threading
    def too_much():
        torch.empty(1 << 40, device="cuda")
    class Failing:
        def __del__(self): too_much()
    made = Failing(); del made
    thread = threading.Thread(target=too_much); thread.start(); thread.join()
    too_much()
    """
    found = run(program(text))
    said = before_the_report(found.err)
    assert said.count("CUDA out of memory") == said.count(", in too_much\n") == 3
    assert "every_byte/" not in said


SIGNALS = ["SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGXCPU"]


@pytest.mark.long
@pytest.mark.parametrize("name", SIGNALS)
def test_a_signal_that_ends_the_program_leaves_the_report(run, name):
    found = run(program(f"print('here', flush=True); os.kill(os.getpid(), signal.{name}); time.sleep(9)"))
    assert (found.exit_code, found.out) == (128 + getattr(signal, name), "here\n")
    assert found.figures["ended"] == {
        "SIGTERM": "terminated",
        "SIGHUP": "its terminal was closed (SIGHUP)",
    }.get(name, f"ended by {name}")


def test_abort_and_exec_leave_the_report(run):
    found = run(program("print('here', flush=True); os.abort()"))
    assert (found.exit_code, found.figures["ended"]) == (-signal.SIGABRT, "the program called os.abort()")
    found = run(program("os.execl(sys.executable, 'python', '-c', 'print(1 + 1)')"))
    assert (found.exit_code, found.out) == (0, "2\n")
    assert found.figures["ended"].startswith("the program became another one, /")
    found = run(program("try:\n    os.execlp('there-is-no-such', 'x')\nexcept OSError:\n    print('on')\nsys.exit(3)"))
    assert (found.exit_code, found.out, found.figures["exit_code"]) == (3, "on\n", 3)


def test_what_is_called_at_exit_uses_the_gpu(run):
    text = """
    import atexit
    net = torch.nn.Linear(64, 64).cuda()
    def save():
        torch.save({k: v.cpu() for k, v in net.state_dict().items()}, 'final.pt')
        y = torch.zeros(1 << 22, device="cuda")
        print("saved", torch.cuda.memory_allocated() >= 1 << 24)
    atexit.register(save)
    """
    found = run(program(text))
    assert (found.exit_code, found.out) == (0, "saved True\n"), found.err
    assert (run.folder / "final.pt").stat().st_size > 64 * 64 * 4
    assert found.figures["peak"]["allocated_bytes"] > 1 << 24
    assert "Exception" not in found.err


@pytest.mark.long
def test_what_is_called_at_exit_may_train_after_the_last_step(run):
    text = """
    import atexit
    net = torch.nn.Linear(64, 64).cuda()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    def step():
        net(torch.zeros(2, 64, device="cuda")).sum().backward(); optimizer.step()
    atexit.register(lambda: (step(), print("one more")))
    while True:
        step()
    """
    found = run(program(text), "--steps", "2")
    assert (found.exit_code, found.out) == (0, "one more\n"), found.err
    assert "SystemExit" not in found.err
    assert found.figures["ended"] == "stopped after 2 optimizer steps, as --steps says"


def test_nothing_in_an_errors_text_steers_the_terminal_or_the_page(run):
    found = run(program("raise ValueError('a\\0b\\x1b[2Jc\\u202ed\\ud800e')"), "--html", "r.html")
    assert found.figures["ended"] == r"ValueError: a\x00b\x1b[2Jc\u202ed\ud800e"
    page = (run.folder / "r.html").read_text(encoding="utf-8")
    assert r"a\x00b\x1b[2Jc\u202ed\ud800e" in page
    for text in (found.report, page):
        assert not re.search("[\x00-\x08\x0e-\x1f\u202a-\u202e\ud800-\udfff]", text)


def test_nothing_in_names_steers_the_terminal_or_the_page(run):
    text = """
    net = torch.nn.Sequential(torch.nn.Linear(64, 64)).cuda()
    net._modules["a\\x1b[1m\\u202e\\udcff"] = torch.nn.Linear(64, 64).cuda()
    net(torch.zeros(2, 64, device="cuda")).sum().backward()
    """
    found = run(program(text), "--html", "r.html", "--trace", "t.json", arguments=("\x1b[31m",))
    assert found.exit_code == 0, found.err
    page = (run.folder / "r.html").read_text(encoding="utf-8")
    assert r"a\\u001b[1m\\u202e\\udcff" in page  # in its JSON
    assert r"a\x1b[1m\u202e\udcff" in found.report
    assert r"\x1b[31m" in found.report
    events = (run.folder / "t.json").read_text(encoding="utf-8")
    for text in (found.report, page, events):
        assert not re.search("[\x00-\x08\x0e-\x1f\u202a-\u202e\ud800-\udfff]", text)
    assert not re.search("[\x1b\u202e\udcff]", str(json.loads(events)))


@pytest.mark.long
@pytest.mark.parametrize(
    "text",
    [
        "from torch.overrides import TorchFunctionMode\nm = TorchFunctionMode(); m.__enter__()",
        "from torch.utils._python_dispatch import TorchDispatchMode\nclass M(TorchDispatchMode):\n"
        "    def __torch_dispatch__(s, f, t, a=(), k=None): return f(*a, **k or {})\nM().__enter__()",
        "torch.set_default_device('cuda'); torch.set_default_dtype(torch.bfloat16)",
        "torch.inference_mode().__enter__()",
        "torch.use_deterministic_algorithms(True); torch.autograd.set_detect_anomaly(True)",
        "from every_byte import SimulatedGPU; SimulatedGPU('t4-16gb').__enter__()",
    ],
)
def test_what_is_left_open_does_no_harm(run, text):
    found = run(program(text + "\nprint('end')\nsys.exit(3)"))
    assert (found.exit_code, found.out, found.err.count("Traceback")) == (3, "end\n", 0), found.err
    assert found.figures["peak"]["allocated_bytes"] == 1 << 22
