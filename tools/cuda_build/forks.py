"""Processes that have imported torch, and fork one for each case: a case then takes a second where it took six.

A fork is made before CUDA is there, so that each case begins as in a process of its own. A process stands for a card.
"""

import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from contextlib import suppress
from types import TracebackType

DONE = "\0done"


class Forks:
    """So many processes for each card, started when they are first asked for; closed with the `with` around them.

    `command` starts one for a card in an environment, in which it calls `serve`. Each has a group of its own, which
    an error within the `with`, Ctrl-C above all, interrupts: what a case is at is not waited for.
    """

    def __init__(self, command: Callable[[str], list[str]], environment: Callable[[str], dict[str, str]]) -> None:
        self._command, self.environment = command, environment
        self._idle: dict[str, queue.SimpleQueue] = {}
        self._all: list[subprocess.Popen] = []
        self._starting, self._closed = threading.Lock(), False

    def __enter__(self) -> "Forks":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, where: TracebackType | None) -> None:
        with self._starting:
            self._closed = True
        for process in self._all:
            with process:
                with suppress(BrokenPipeError):  # it ended before it had read what it was asked
                    process.stdin.close()
                if error is not None and process.poll() is None:
                    with suppress(ProcessLookupError):  # it ended just now
                        os.killpg(process.pid, signal.SIGINT)

    def ask(self, card: str, *words: str) -> tuple[bool, str]:
        """Have one do what these words say: whether that went well, and the last that it said.

        Raises: CancelledError where it was interrupted, or the `with` around all was left meanwhile.
        """
        idle = self._idle.setdefault(card, queue.SimpleQueue())
        try:
            process = idle.get_nowait()
        except queue.Empty:
            process = self._start(card)
        with suppress(BrokenPipeError):  # it ended, and what it said, or did not say, tells
            process.stdin.write("\t".join(words) + "\n")
            process.stdin.flush()
        said = []
        while (line := process.stdout.readline()) and not line.startswith(DONE):
            said.append(line)
        if not line and (self._closed or process.wait() == -signal.SIGINT):
            raise CancelledError
        if not line:
            return False, f"the process for {card} ended: {''.join(said)[-1500:]}"
        idle.put(process)
        good = line.removeprefix(DONE).strip() == "0"
        text = "".join(said).strip()
        return good, text.split("\n")[-1] if good else text[-1500:]

    def _start(self, card: str) -> subprocess.Popen:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        command, environment = self._command(card), self.environment(card)
        with self._starting:
            if self._closed:
                raise CancelledError
            process = subprocess.Popen(command, env=environment, text=True, process_group=0, **pipes)
            self._all.append(process)
        return process


def results(pool: ThreadPoolExecutor, function: Callable, arguments: list[tuple]) -> list:
    """What a function returns of each, in order; once one raises, or Ctrl-C comes, what has not begun is left.

    It waits a second at a time: a signal that comes as an endless wait begins would be heard at its end. Ctrl-C that
    comes as a lock is let go is an error of the lock's in Python, and stays Ctrl-C here.
    """
    futures = [pool.submit(function, *each) for each in arguments]
    try:
        while (found := wait(futures, 1, FIRST_EXCEPTION)).not_done:
            if any(future.exception() for future in found.done):
                break
    except RuntimeError as error:
        if isinstance(error.__context__, KeyboardInterrupt):  # release unlocked lock
            raise KeyboardInterrupt from error
        raise
    finally:
        for future in futures:
            future.cancel()
    return [future.result() for future in futures]


def serve(prepare: Callable[..., object], work: Callable[..., None]) -> None:
    """For each line of words: prepare, which is kept for the lines after it, and work in a fork that is waited for."""
    for line in sys.stdin:
        words = line.rstrip("\n").split("\t")
        status = _forked(prepare, work, words)
        print(f"{DONE}{status}", flush=True)


def _forked(prepare: Callable[..., object], work: Callable[..., None], words: list[str]) -> int:
    try:
        prepare(*words)
    except Exception:
        traceback.print_exc()
        return 1
    sys.stdout.flush()
    if child := os.fork():
        return os.waitpid(child, 0)[1]
    status = 1
    try:
        work(*words)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
