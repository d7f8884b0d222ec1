"""What a program brings along that is not PyTorch's, and of which something is not known: a note for each kind."""

from every_byte.gpu.cuda.extensions import EXTENSION
from every_byte.gpu.cuda.foreign import LIBRARY
from every_byte.gpu.cuda.kernels import SCRATCH
from every_byte.gpu.cuda.stand_ins import HIDDEN, STAND_IN
from every_byte.units import short

from .note import MEASURED, Note, few, listed

TRITON = "Triton kernel "


def notes_of_libraries(names: list[str], managed_bytes: int) -> list[Note | None]:
    """Of these names of what is not modelled, those that a library brings along; None for a kind that is not there."""
    return [
        _built([name for name in names if name.startswith(EXTENSION)]),
        _of_libraries([name for name in names if name.startswith(LIBRARY)]),
        _stood_in([name for name in names if name.startswith(STAND_IN)]),
        _of_triton([name for name in names if name.startswith(TRITON)]),
        _paged(managed_bytes),
    ]


def is_of_libraries(name: str) -> bool:
    """Whether what is not modelled is no operator of PyTorch's."""
    return name.startswith((EXTENSION, LIBRARY, STAND_IN, TRITON))


def _built(names: list[str]) -> Note | None:
    """CUDA extensions that the program compiles while it runs."""
    if not names:
        return None
    return Note(
        listed([name.removeprefix(EXTENSION) for name in names], "compiled while the program runs"),
        "what its CUDA kernels allocate is not known; without CUDA's compiler the program stops here or goes another "
        "way than on a card",
        'have the library take PyTorch\'s own operators instead, as DeepSpeed does with "torch_adam": true',
    )


def _of_libraries(names: list[str]) -> Note | None:
    """Libraries of CUDA kernels of which nothing is known."""
    if not names:
        return None
    return Note(
        listed([name.removeprefix(LIBRARY) for name in names], "a library of CUDA kernels, and did nothing here"),
        "what it allocates itself, and what it would have answered, is not known; the tensors that it was given count",
        MEASURED,
    )


def _stood_in(names: list[str]) -> Note | None:
    """Packages that are not installed."""
    if not names:
        return None
    return Note(
        listed([name.removeprefix(STAND_IN) for name in names], "not installed here, and a stand-in took its place"),
        "it allocates what the package's source does; no recording confirms it",
        f"{HIDDEN}=none in the environment leaves the program without it, as where the package is not installed",
    )


def _paged(n_bytes: int) -> Note | None:
    """Managed memory, as a paged optimizer's state is."""
    if not n_bytes:
        return None
    return Note(
        f"{short(n_bytes)} more lie in CUDA's managed memory, as the state of a paged optimizer",
        "PyTorch's allocator does not count them; the driver keeps them on the card while there is room, and moves "
        "them to the host's memory where there is none",
        "leave room for them if each step is to be as fast as without pages",
        is_of_figures=False,
    )


def _of_triton(names: list[str]) -> Note | None:
    if not names:
        return None
    kernels = [name.removeprefix(TRITON).removesuffix(SCRATCH) for name in names]
    many = len(names) > 1
    return Note(
        f"scratch memory of Triton's {'kernels' if many else 'kernel'} {few(kernels)} is not known",
        "the program set an allocator for it (triton.set_allocator), and only Triton's compiler knows how much "
        f"{'each asks' if many else 'it asks'} for; the tensors that {'they write' if many else 'it writes'} count",
        MEASURED,
    )
