"""Notes: one for each reason, what makes figures differ most first, and a way out that is of use to a user."""

import pytest

from every_byte.ledger.notes import Notes
from every_byte.ledger.trace import Trace
from every_byte.report.notes import notes_of

CUDNN = [
    "aten::convolution (cuDNN's workspace)",
    "aten::cudnn_batch_norm (cuDNN's workspace and reserve)",
    "aten::convolution_backward (cuDNN's workspace)",
]


def told(*names: str, read: tuple[str, ...] = ()) -> list[str]:
    trace = Trace(
        "simulated", "a100-80gb", notes=Notes(unmodelled=dict.fromkeys(names, 0), values_read=dict.fromkeys(read, 0))
    )
    return [str(note) for note in notes_of(trace)]


def test_those_of_cudnn_are_one():
    (note,) = told(*CUDNN)
    assert note.startswith(
        "cuDNN's workspaces are not modelled (convolution, cudnn_batch_norm, convolution_backward): "
    )
    room = "leave some room: on an H200, 224 convolutions took from nothing to 2.05 GiB each"
    assert f"nor the reserve that it keeps for backward; {room}; `--gpu live` measures that on a card." in note
    (note,) = told(CUDNN[0])
    assert note.startswith("cuDNN's workspaces are not modelled (convolution): what these return is counted; ")
    assert "reserve" not in note


def test_operators_are_one_and_say_what_a_user_can_do():
    one = (
        "aten::poisson is not modelled: what it returns is counted; what it takes meanwhile is not known, and may add "
    )
    assert told("aten::poisson") == [f"{one}to peaks within it; `--gpu live` measures that on a card."]
    (note,) = told("aten::poisson", "torch.nn.init.orthogonal_")
    assert note.startswith("aten::poisson and torch.nn.init.orthogonal_ are not modelled: what they return is counted")
    (note,) = told("aten::a", "aten::b", "aten::c")
    assert note.startswith("aten::a, aten::b and aten::c are not modelled: ")
    assert "every_byte.gpu.operators" not in note  # a contributor's tool


def test_triton_kernels_are_one():
    (note,) = told("Triton kernel add (its scratch memory)")
    assert note.startswith("scratch memory of Triton's kernel add is not known: the program set an allocator for it")
    (note,) = told("Triton kernel add (its scratch memory)", "Triton kernel mul (its scratch memory)")
    assert note.startswith("scratch memory of Triton's kernels add and mul is not known: ")
    assert "each asks for" in note


def test_a_library_of_kernels_is_named():
    (note,) = told("CUDA library libfast.so")
    assert note.startswith("libfast.so is a library of CUDA kernels, and did nothing here: what it allocates itself")


def test_managed_memory_is_told_and_changes_no_figure():
    (note,) = notes_of(Trace("simulated", "a100-80gb", notes=Notes(managed_bytes=3 << 30)))
    assert str(note).startswith("3 GiB more lie in CUDA's managed memory, as the state of a paged optimizer: ")
    assert not note.is_of_figures


def test_what_makes_figures_differ_most_comes_first():
    first = ["values that", "cuDNN's", "aten::poisson is", "scratch memory of", "torch.compile is"]
    notes = told(
        CUDNN[0], "aten::poisson", "Triton kernel add (its scratch memory)", "torch.compile", read=("train.py:3",)
    )
    assert [note[: len(start)] for note, start in zip(notes, reversed(first), strict=True)] == first[::-1]


@pytest.mark.parametrize(
    ("n", "said"),
    [
        (1, " at a.py:0: "),
        (4, " at a.py:0, a.py:1, a.py:2, a.py:3: "),
        (5, "a.py:3 and 1 line more: "),
        (9, "5 lines more: "),
    ],
)
def test_of_many_reads_some_are_named(n, said):
    (note,) = told(read=tuple(f"a.py:{i}" for i in range(n)))
    assert said in note


def test_nothing_is_told_of_what_is_known():
    assert told() == []


def test_what_was_saved_without_values_is_named():
    trace = Trace("simulated", "a100-80gb", "2.13")
    trace.notes.files_of_zeros |= dict.fromkeys(f"runs/{name}.pt" for name in "abcde")
    (note,) = notes_of(trace)
    assert str(note).startswith(
        "what was saved has zeros for what a card would have computed: a.pt, b.pt, c.pt and 2 more: nothing is computed"
    )
    trace.notes.files_of_zeros = {"runs/best.pt": None}
    (note,) = notes_of(trace)
    assert "computed: best.pt: nothing" in str(note)


def test_a_snapshot_that_was_there_and_the_one_beside_it_are_named():
    trace = Trace("simulated", "a100-80gb", "2.13")
    trace.notes.snapshots_beside = {"runs/a.pickle": "runs/a.simulated.pickle"}
    (note,) = notes_of(trace)
    assert str(note) == (
        "the program's snapshot did not replace an earlier one, and was written as a.simulated.pickle: it is of a "
        "simulated GPU, and a.pickle may be of a real one, and stays as it was."
    )
    assert not note.is_of_figures
    trace.notes.snapshots_beside |= {f"runs/{name}.pickle": f"runs/{name}.simulated.pickle" for name in "bcde"}
    (note,) = notes_of(trace)
    assert "written as a.simulated.pickle, b.simulated.pickle, c.simulated.pickle and 2 more: it" in str(note)
    assert "GPU, and a.pickle, b.pickle, c.pickle and 2 more may be of a real one, and stay as they were." in str(note)
