"""The libraries that a program imports: named with their versions, beside those of the recordings."""

import sys
from types import ModuleType

import pytest
import torch

from every_byte.gpu.evidence import recorded_libraries
from every_byte.report import libraries
from every_byte.report.libraries import Library, imported, sentence
from every_byte.report.report import Report
from utils import SimulatedGPU


@pytest.fixture
def only(monkeypatch):
    """Modules of these names and versions alone are imported."""

    def set_(**versions):
        for name in libraries.KNOWN:
            monkeypatch.delitem(sys.modules, name, raising=False)
        for name, version in versions.items():
            module = ModuleType(name)
            module.__version__ = version
            monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setattr(libraries, "version", _none)

    return set_


def _none(name):
    raise libraries.PackageNotFoundError(name)


def test_what_is_imported_in_order(only):
    of_bitsandbytes = recorded_libraries()["bitsandbytes"]
    only(bitsandbytes=of_bitsandbytes[0], trl="1.0", timm=None)
    assert imported() == (Library("trl", "1.0"), Library("bitsandbytes", of_bitsandbytes[0], of_bitsandbytes))


def test_the_package_says_its_version_first(only, monkeypatch):
    only(liger_kernel="")
    monkeypatch.setattr(libraries, "version", {"liger-kernel": "0.1"}.__getitem__)
    assert [str(each) for each in imported()] == [
        f"liger_kernel 0.1 (recorded: {recorded_libraries()['liger_kernel'][0]})"
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ([], ""),
        ([Library("trl", "1.0")], "It ran with trl 1.0."),
        (
            [Library("trl", "1.0"), Library("bitsandbytes", "2", ("2",))],
            "It ran with trl 1.0 and bitsandbytes 2; recordings are of this version of bitsandbytes.",
        ),
        ([Library("bitsandbytes", "3", ("1", "2"))], "It ran with bitsandbytes 3 (recorded: 1, 2)."),
    ],
)
def test_the_sentence(given, words):
    assert sentence(tuple(given)) == words


def test_a_report_names_them(only):
    only(peft="0.9")
    with SimulatedGPU("a100-80gb") as gpu:
        torch.empty(10, device=gpu.device)
        report = Report.of(gpu)
    assert "It ran with peft 0.9." in repr(report)
    assert report.to_json()["libraries"] == [{"name": "peft", "version": "0.9", "recorded": []}]
