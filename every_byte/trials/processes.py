"""Runs of a script, each in a process of its own, two at a time at most, until there is no time left."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from .script import Script

AT_ONCE = 2
_TRIAL = "every_byte.cli.trial"
_LAST_BYTES = 4096  # of what a program says


class NoTime(Exception):
    """There is no time left for a run, or Ctrl-C has ended it."""


class Failed(Exception):
    """A run ended by an error, which is in one line."""


class Processes:
    """Starts runs, and ends those that are left when the time is up, or on leaving the block.

    Unit: `seconds` for all runs together.
    """

    def __init__(self, seconds: float) -> None:
        self._until = time.monotonic() + seconds
        self._pool = ThreadPoolExecutor(AT_ONCE)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._turn, self._is_over = threading.Lock(), False
        self._folder = tempfile.TemporaryDirectory(prefix="every-byte-")
        self._n_started = 0

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    @property
    def left_s(self) -> float:
        """How much time is left; 0 once it is over."""
        return 0.0 if self._is_over else max(0.0, self._until - time.monotonic())

    def stop(self) -> None:
        """End what runs, and start nothing more."""
        with self._turn:
            self._is_over = True
            running = list(self._running)
        for process in running:
            _end(process)

    def start(self, script: Script, settings: str = "", *, looks: str = "") -> Future[dict[str, Any]]:
        """What a run took, as `every_byte.cli.trial` writes it, once it is over; it `looks` "around" or "for the head".

        Raises: Failed or NoTime, from the future's `result`.
        """
        return self._pool.submit(self._run, script, settings, looks)

    def _run(self, script: Script, settings: str, looks: str) -> dict[str, Any]:
        with self._turn:
            self._n_started += 1
            file = Path(self._folder.name) / f"{self._n_started}.json"
        words = [*(["--settings", settings] if settings else []), *script.words]
        request = {"words": words, "changes": script.changes, "looks": looks, "file": str(file)}
        with tempfile.TemporaryFile(dir=self._folder.name) as said:
            process = self._begin([sys.executable, "-m", _TRIAL, json.dumps(request)], said)
            try:
                process.wait(self.left_s)
            except subprocess.TimeoutExpired:
                _end(process)
                process.wait()
            finally:
                self._running.discard(process)
            if not self.left_s and not file.is_file():
                raise NoTime
            said.seek(max(0, said.seek(0, os.SEEK_END) - _LAST_BYTES))
            text = said.read().decode(errors="replace")
        took: dict[str, Any] = json.loads(file.read_text()) if file.is_file() else {}
        if not took or process.returncode and took["exit_code"]:
            raise Failed(took.get("ended") or _last_line(text) or f"it ended with exit code {process.returncode}")
        return took

    def _begin(self, command: list[str], said: Any) -> "subprocess.Popen[bytes]":
        with self._turn:
            if not self.left_s:
                raise NoTime
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
            )
            self._running.add(process)
        return process


def _end(process: "subprocess.Popen[bytes]") -> None:
    """A program and those that it has started; it may not be asked, for it could go on."""
    with suppress(OSError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""
