"""A launcher of ranks, run as it is, but for what it would start: that is written down.

A program, in a process of its own: `python -m every_byte.cli.launching FILE GPUS MODULE [arguments]` runs torchrun's
module, or another launcher's, where a simulated machine has so many GPUs, and writes to FILE, as JSON, a list of
[command, environment]: each process that the launcher would have started.
"""

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from torch.distributed.launcher import api

from every_byte.gpu.memory.as_cuda import AsCuda
from every_byte.gpu.patches.replacing import Function, all_of, replaced
from every_byte.gpu.simulated import SimulatedGPU

Started = list[tuple[list[str], dict[str, str]]]


class _Ended:
    """In the place of a process that was not started: it has ended, and well."""

    pid, returncode = 0, 0

    def poll(self) -> int:
        """Its exit code."""
        return 0

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code."""
        return 0


def main(argv: Sequence[str]) -> int:
    """Run a launcher and write down what it would start. Returns 0; what the launcher raises, it raises."""
    path, n_gpus, module, *arguments = argv
    started: Started = []

    def starting(original: Function) -> Function:
        def popen(args: Any, *rest: Any, env: dict[str, str] | None = None, **options: Any) -> Any:
            if env is None:  # a launcher asks other programs about the machine, and gives its ranks an environment
                return original(args, *rest, **options)
            started.append(([str(word) for word in args], dict(env)))
            return _Ended()

        return popen

    def agents(_original: Function) -> Function:
        def __call__(launch: Any, *arguments: str) -> NoReturn:
            config = launch._config
            here, machines = config.nproc_per_node, config.min_nodes
            world = {"WORLD_SIZE": str(here * machines), "LOCAL_WORLD_SIZE": str(here)}
            started.append(([launch._entrypoint, *map(str, arguments)], {**os.environ, **world}))
            raise SystemExit(0)

        return __call__

    undo = all_of([replaced(subprocess, "Popen", starting), replaced(api.elastic_launch, "__call__", agents)])
    sys.argv[:] = [module, *arguments]
    with SimulatedGPU("a100-80gb", cuda=AsCuda(0, int(n_gpus))):
        try:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        except SystemExit:
            if not started:
                raise
        finally:
            undo()
    Path(path).write_text(json.dumps(started), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
