"""`python -m every_byte.gpu.operators` says of an operator what the registry, PyTorch and the book's page know."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from places import ROOT

from every_byte.gpu.operators import __main__ as command
from every_byte.gpu.operators import registry
from every_byte.gpu.operators.autocast import Policy

PAGE = (ROOT / "book" / "verified_operations.md").read_text(encoding="utf-8")
VERIFIED = dict(re.findall(r"^\| `(\S+)` \| (\S+) \|$", PAGE, re.MULTILINE))
NAMESPACES = {"aten", "torch_nn", *registry.LATE}
OF_LIBRARIES = {"bitsandbytes", "torch.compile", "triton.jit"}
"""What libraries register, which tests/gpu/cuda/test_libraries.py holds, and what is called without PyTorch."""

aten = torch.ops.aten


@pytest.fixture(scope="module", autouse=True)
def late_families():
    """Those of torch.distributed register themselves, as the command has them do."""
    command.overloads_of("mm")


def printed(capsys, name: str) -> str:
    assert command.main([name]) == 0
    return capsys.readouterr().out


def paragraph(text: str, label: str) -> str:
    """What stands behind a label, in the paragraph of one overload."""
    found = re.search(rf"^  {label} +(.*(?:\n(?: {{12}}.*)?)*)", text, re.MULTILINE)
    return found[1] if found else ""


def line_of(text: str) -> str:
    """The line of a source file that "path:number" names."""
    path, number = re.search(r"(\S+\.py):(\d+), ", text).groups()
    return (ROOT / path).read_text().splitlines()[int(number) - 1]


def test_an_operator_that_cuda_s_host_code_composes(capsys):
    text = printed(capsys, "aten.huber_loss.default")
    assert text.startswith("aten.huber_loss.default\n")
    composed = paragraph(text, "composed")
    assert composed.startswith("below autograd")
    assert "every_byte/gpu/operators/losses.py:" in composed
    assert line_of(composed) == "@decomposed(aten.huber_loss.default)"
    assert "Source: huber_loss in aten/src/ATen/native/Loss.cpp." in composed
    assert paragraph(text, "returns").strip() == "what its parts return"
    assert paragraph(text, "takes").strip() == "what its parts take"
    assert paragraph(text, "autocast").strip() == Policy.FLOAT32.value
    assert paragraph(text, "recorded").strip() == f"{VERIFIED['aten::huber_loss']} (book/verified_operations.md)"


def test_an_operator_with_a_kernel_and_a_rule(capsys):
    text = printed(capsys, "aten.mm.default")
    assert line_of(paragraph(text, "returns")) == "@returns(aten.mm.default)"
    allocates = paragraph(text, "takes")
    assert line_of(allocates).startswith("@allocates(")
    assert "Source: prepare_matrix_for_cublas in aten/src/ATen/native/cuda/Blas.cpp" in allocates
    assert paragraph(text, "autocast").strip() == Policy.LOWER_PRECISION.value
    assert paragraph(text, "recorded").strip() == f"{VERIFIED['aten::mm']} (book/verified_operations.md)"
    assert not paragraph(text, "composed")
    assert not paragraph(text, "values")


@pytest.mark.parametrize(
    ("name", "label", "expected"),
    [
        ("aten.relu.default", "takes", "its outputs alone"),
        ("aten.view.default", "takes", "its outputs alone"),
        ("aten.view.default", "returns", "what PyTorch says on meta tensors"),
        ("aten.poisson.default", "takes", "not modelled: its outputs are counted, with a warning"),
        ("aten.cumprod.default", "autocast", "arguments stay; the result is float32"),
        ("aten.poisson.default", "recorded", "in no case"),
        ("aten.norm.Scalar", "autocast", "arguments stay; the overload that takes a type"),
        ("aten.add.Tensor", "autocast", "nothing is cast"),
        ("aten.linear.default", "composed", "above autograd, as on CUDA, in front of PyTorch's rule"),
        ("aten.matmul.default", "composed", "above autograd, by PyTorch's own rule"),
        ("aten.mish_backward.default", "returns", "one kernel, as on CUDA, where PyTorch would compose it"),
        ("aten._is_all_true.default", "composed", "below autograd, of what CUDA's host code calls\n"),
        ("aten.nonzero.default", "values", "every_byte/gpu/dispatch/values.py:"),
        ("aten.scatter.src", "backward", "aten.scatter_.src where a gradient formula calls it"),
        (
            "aten.index_put.default",
            "backward",
            "aten._index_put_impl_.default where a gradient formula calls it: Ind",
        ),
        ("aten._chunk_cat.out", "takes", "every_byte/gpu/operators/sharded_copies.py:"),
        ("c10d.allreduce_.default", "takes", "every_byte/gpu/operators/exchanges.py:"),
        ("_c10d_functional._wrap_tensor_autograd.default", "returns", "a kernel of this package\n"),
    ],
)
def test_what_stands_behind_a_label(capsys, name, label, expected):
    assert paragraph(printed(capsys, name), label).startswith(expected)


def test_all_overloads_are_told_of_unless_one_is_named(capsys):
    heads = re.findall(r"^(?! )\S+$", printed(capsys, "aten.add"), re.MULTILINE)
    assert {"aten.add.Tensor", "aten.add.Scalar", "aten.add.out"} <= set(heads)
    assert re.findall(r"^(?! )\S+$", printed(capsys, "aten.add.Scalar"), re.MULTILINE) == ["aten.add.Scalar"]


def test_a_name_may_be_spelled_as_pytorch_does_anywhere(capsys):
    names = "mm", "aten.mm", "aten::mm", "torch.ops.aten.mm"
    assert len({printed(capsys, name) for name in names}) == 1
    assert printed(capsys, "aten::sum.dim_IntList") == printed(capsys, "sum.dim_IntList")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "aten.hubber_loss",
            r"operator must be one that PyTorch has: got aten.hubber_loss; near are aten.huber_loss.*",
        ),
        ("xxxxxxxxxxxxxx", r"operator must be one that PyTorch has: got aten.xxxxxxxxxxxxxx; try aten.mm"),
        ("mm.foo", r"aten.mm has the overloads default, .*out: got foo"),
    ],
)
def test_an_unknown_name_is_a_sentence_and_status_2(capsys, name, sentence):
    assert command.main([name]) == 2
    out, error = capsys.readouterr()
    assert not out
    assert re.fullmatch(sentence + r"\.\n", error)


@pytest.mark.nightly
def test_as_a_program():
    call = [sys.executable, "-m", "every_byte.gpu.operators"]
    found = subprocess.run([*call, "aten.huber_loss"], capture_output=True, text=True, cwd=ROOT)
    assert found.returncode == 0, found.stderr
    assert found.stdout.startswith("aten.huber_loss.default\n  composed  below autograd")
    assert subprocess.run([*call, "aten.hubber_loss"], capture_output=True, cwd=ROOT).returncode == 2


TABLES = {
    "returns": registry.RETURNS,
    "takes": registry.ALLOCATES,
    "composed": registry.COMPOSITES,
    "composed below autograd": registry.DECOMPOSED,
}


@pytest.mark.long
@pytest.mark.parametrize("table", TABLES)
def test_each_function_of_the_registry_is_told_of_where_it_stands(table):
    for operator, function in TABLES[table].items():
        text = paragraph(command.described(operator), table.split()[0])
        function = getattr(function, "func", function)
        if hasattr(function, "__code__"):
            assert Path(function.__code__.co_filename).relative_to(ROOT).as_posix() in text, operator
            assert function.__qualname__.partition(".")[0] in text
        else:
            assert f"as PyTorch's {function.__name__} does" in text


@pytest.mark.long
def test_no_operation_that_a_recording_verifies_is_not_modelled():
    of_pytorch = {name: recording for name, recording in VERIFIED.items() if name.partition("::")[0] in NAMESPACES}
    assert len(of_pytorch) > 200
    assert {name.partition("::")[0] for name in VERIFIED.keys() - of_pytorch.keys()} == OF_LIBRARIES
    for name, recording in of_pytorch.items():
        packet, _, variant = name.replace("::", ".").partition(".")[2].partition(".")
        namespace = getattr(torch.ops, name.partition("::")[0])
        text = command.described(getattr(getattr(namespace, packet), variant or "default"))
        assert not paragraph(text, "takes").startswith("not modelled"), name
        assert paragraph(text, "recorded").startswith(f"{recording} ("), name


def test_a_copy_without_the_book_says_so(capsys, monkeypatch):
    monkeypatch.setattr(command, "PAGE", ROOT / "book" / "not_there.md")
    assert paragraph(printed(capsys, "mm.default"), "recorded").startswith("this copy of the package has no recordings")


def test_an_operator_has_one_function_of_each_kind():
    with pytest.raises(AssertionError, match="aten.mm.default is known already"):
        registry.allocates(aten.mm.default)(lambda call: None)
