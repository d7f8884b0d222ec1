"""Every lesson that the book owes its sources stands under a heading of some chapter.

The sources, by letter: A, "Activation Memory: A Deep Dive using PyTorch" (Goon 2024); B, "Memory Footprint of a
Neural Net During Backpropagation"; C, notes on gradient checkpointing, after Korthikanti et al. 2022; D, "Transformer
Memory Arithmetic: Understanding all the Bytes in nanoGPT"; E, "Current and New Activation Checkpointing Techniques in
PyTorch".
"""

import re

import nbformat
import pytest
from places import CHAPTERS

LESSONS = {"A": 10, "B": 8, "C": 7, "D": 10, "E": 6}

START, HOLDS = "00_start_here", "00b_who_holds_it"
BACKWARD, MLP = "01_what_backward_needs", "02_mlp_memory"
OUTPUTS, NANOGPT = "03_activations_from_outputs", "04_every_byte_of_nanogpt"
CHECKPOINTING, MANY = "05_checkpointing", "06_many_gpus"
TAUGHT = {
    "A1": (BACKWARD, "Why tensors are cached"),
    "A2": (MLP, "The layer, the letters and the GPU"),
    "A3": (MLP, "What backward asks for"),
    "A4": (OUTPUTS, "An equation in which x does not appear"),
    "A5": (OUTPUTS, "What PyTorch's own table says"),
    "A6": (HOLDS, "The two contexts"),
    "A7": (HOLDS, "The two contexts"),
    "A8": (MLP, "What PyTorch really keeps"),
    "A9": (OUTPUTS, "The whole block, to the last 16 bytes"),
    "A10": (NANOGPT, "The missing 262,184,964 bytes"),
    "B1": (BACKWARD, "The chain rule, term by term"),
    "B2": (BACKWARD, "When an input need not be kept"),
    "B3": (BACKWARD, "Backward, event by event"),
    "B4": (BACKWARD, "The five phases"),
    "B5": (BACKWARD, "Freezing two hundred layers"),
    "B6": (BACKWARD, "The peak, and a rule of thumb"),
    "B7": (CHECKPOINTING, "Claims, tested"),
    "B8": (CHECKPOINTING, "The curve, and where it peaks"),
    "C1": (CHECKPOINTING, "What one layer keeps, item by item"),
    "C2": (CHECKPOINTING, "Keeping only the input"),
    "C3": (MANY, "What tensor parallelism leaves whole"),
    "C4": (MANY, "Sequence parallelism"),
    "C5": (CHECKPOINTING, "Choosing regions"),
    "C6": (CHECKPOINTING, "Claims, tested"),
    "C7": (CHECKPOINTING, "A checkpoint from scratch"),
    "D1": (START, "Allocated, reserved and the context"),
    "D2": (NANOGPT, "When gradients persist"),
    "D3": (NANOGPT, "Counting the parameters"),
    "D4": (NANOGPT, "Between two steps"),
    "D5": (NANOGPT, "Activations under autocast, tensor by tensor"),
    "D6": (NANOGPT, "The formula that says 12 GiB"),
    "D7": (NANOGPT, "The peak"),
    "D8": (NANOGPT, "Reading a snapshot"),
    "D9": (HOLDS, "The cuBLAS workspace"),
    "D10": (MANY, "Who holds the states"),
    "E1": (CHECKPOINTING, "The curve, and where it peaks"),
    "E2": (CHECKPOINTING, "The speed–memory diagram"),
    "E3": (CHECKPOINTING, "Choosing regions"),
    "E4": (CHECKPOINTING, "What the compiler keeps"),
    "E5": (CHECKPOINTING, "A policy for each operation"),
    "E6": (CHECKPOINTING, "What the compiler keeps"),
}


def headings(chapter: str) -> set[str]:
    cells = nbformat.read(CHAPTERS / f"{chapter}.ipynb", as_version=4).cells
    prose = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
    return set(re.findall(r"^##+ +(?:\d[\d.]* +)?(.+)$", prose, re.MULTILINE))


def test_every_lesson_has_one_place():
    owed = [f"{letter}{number}" for letter, n in LESSONS.items() for number in range(1, n + 1)]
    assert sorted(TAUGHT) == sorted(owed)


@pytest.mark.parametrize("code", TAUGHT)
def test_its_heading_is_there(code):
    chapter, heading = TAUGHT[code]
    assert heading in headings(chapter)
