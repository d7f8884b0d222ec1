"""What a simulated GPU is told by variables under PyTorch's names: given as an argument, not read from the process."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from .settings import AllocatorSettings

ALLOCATOR = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF")
"""The settings of the allocator; PyTorch takes the first of them that is set, the oldest name first."""

NO_CACHING, CUBLAS, CUBLASLT = "PYTORCH_NO_CUDA_MEMORY_CACHING", "CUBLAS_WORKSPACE_CONFIG", "CUBLASLT_WORKSPACE_SIZE"
KEEPS_WORKSPACES = "TORCH_CUBLAS_WORKSPACE_CACHE"
"""From PyTorch 2.15 on; before, workspaces are kept in any case."""
UNIFIES_WORKSPACES = "TORCH_CUBLASLT_UNIFIED_WORKSPACE"
"""Whether cuBLASLt works in cuBLAS's workspace, where that is kept: by default from PyTorch 2.13 on."""
VARIABLES = (*ALLOCATOR, NO_CACHING, CUBLAS, CUBLASLT, KEEPS_WORKSPACES, UNIFIES_WORKSPACES)

Settings: TypeAlias = "str | Mapping[str, str] | Environment"
"""A text as of PYTORCH_ALLOC_CONF, as "expandable_segments:True"; or several of `VARIABLES` by name."""


@dataclass(frozen=True)
class Environment:
    """The variables that change what PyTorch takes from a GPU; without arguments, as if none were set."""

    allocator: AllocatorSettings = AllocatorSettings()
    caches: bool = True
    cublas_workspace: str | None = None
    cublaslt_workspace: str | None = None
    keeps_workspaces: bool = False
    unifies_workspaces: bool | None = None

    @classmethod
    def read(cls, settings: Settings) -> "Environment":
        """What the settings say.

        Raises: ValueError for a variable that is none of `VARIABLES`, and as `AllocatorSettings.parse` does.
        """
        if isinstance(settings, Environment):
            return settings
        if not isinstance(settings, Mapping):
            return cls(AllocatorSettings.parse(settings))
        for name, value in settings.items():
            if name not in VARIABLES or not isinstance(value, str):
                raise ValueError(
                    f"settings must be texts under the names of variables that PyTorch reads, {', '.join(VARIABLES)}; "
                    f"got {name!r}: {value!r}."
                )
        text = next((settings[name] for name in ALLOCATOR if name in settings), "")
        return cls(
            AllocatorSettings.parse(text),
            settings.get(NO_CACHING) != "1",
            settings.get(CUBLAS),
            settings.get(CUBLASLT),
            settings.get(KEEPS_WORKSPACES) == "1",
            {"0": False, "1": True}.get(settings.get(UNIFIES_WORKSPACES, "")),
        )

    def __str__(self) -> str:
        """What is set, as a shell would be told; "" for the defaults."""
        said = {
            ALLOCATOR[-1]: self.allocator.text,
            NO_CACHING: "" if self.caches else "1",
            CUBLAS: self.cublas_workspace,
            CUBLASLT: self.cublaslt_workspace,
            KEEPS_WORKSPACES: "1" if self.keeps_workspaces else "",
            UNIFIES_WORKSPACES: "" if self.unifies_workspaces is None else str(int(self.unifies_workspaces)),
        }
        return " ".join(f"{name}={value}" for name, value in said.items() if value)
