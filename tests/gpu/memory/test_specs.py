"""The cards that are known: how one is found, what is said of it, and that a program runs on each."""

import re
import warnings

import pytest
import torch
from reported import reported

from every_byte.gpu.memory import versions
from every_byte.gpu.memory.specs import EXPLORED, SPECS, GPUSpec, find_spec
from every_byte.units import MiB
from utils import SimulatedGPU

PEOPLE_HAVE = (
    *("t4-16gb", "v100-16gb", "v100-32gb", "a10g-24gb", "a40-48gb", "a100-40gb", "a100-80gb", "a100-pcie-80gb"),
    *("rtx3060-12gb", "rtx3080-10gb", "rtx3090-24gb", "a6000-48gb", "l4-24gb", "rtx4060ti-16gb", "rtx4070ti-12gb"),
    *("rtx4080-16gb", "rtx4090-24gb", "l40s-48gb", "rtx6000ada-48gb", "h100-80gb", "h100-pcie-80gb"),
    *("h100-nvl-94gb", "h200-141gb", "gh200-96gb", "b200-180gb", "b300-288gb", "rtx5070ti-16gb", "rtx5080-16gb"),
    *("rtx5090-32gb", "rtxpro6000-96gb", "gb10-128gb"),
)
NO_BUILD = ("v100-16gb", "v100-32gb")


def a_little(gpu):
    torch.ones(8, device=gpu.device)
    return []


@pytest.fixture
def nothing_said(monkeypatch):
    monkeypatch.setattr(versions, "_said", set())


def test_the_cards_that_people_have():
    assert sorted(SPECS) == sorted(PEOPLE_HAVE)
    assert list(SPECS)[: len(EXPLORED)] == list(EXPLORED)
    assert len({spec.device_name for spec in SPECS.values()}) == len(SPECS)


@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.name)
def test_each_says_who_published_its_size(spec):
    assert re.search(r"https://|published|torch\.cuda\.get_device_properties", spec.source)
    assert spec.l2_bytes % (32 * 1024) == 0 < spec.l2_bytes
    nominal = int(re.search(r"(\d+)gb$", spec.name)[1]) * 10**9
    assert 0.94 * nominal < spec.total_bytes < 1.08 * nominal  # sold as GB that are GiB, or less what ECC takes


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("4090", "rtx4090-24gb"), ("RTX 4090", "rtx4090-24gb"), ("rtx4090", "rtx4090-24gb"),
        ("NVIDIA GeForce RTX 4090", "rtx4090-24gb"), ("RTX 4090 24GB", "rtx4090-24gb"), ("4090-24g", "rtx4090-24gb"),
        ("T4", "t4-16gb"), ("Tesla T4", "t4-16gb"), ("NVIDIA T4", "t4-16gb"), ("a100-40", "a100-40gb"),
        ("A100 80GB", "a100-80gb"), ("A100-SXM4-40GB", "a100-40gb"), ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("a100 pcie", "a100-pcie-80gb"), ("V100 32GB", "v100-32gb"), ("H100 SXM", "h100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-80gb"), ("H100 NVL", "h100-nvl-94gb"), ("H200", "h200-141gb"),
        ("GH200", "gh200-96gb"), ("b300", "b300-288gb"), ("rtx 5070 ti", "rtx5070ti-16gb"), ("5090", "rtx5090-32gb"),
        ("RTX PRO 6000", "rtxpro6000-96gb"), ("RTX 6000 Ada", "rtx6000ada-48gb"), ("6000 Ada", "rtx6000ada-48gb"),
        ("RTX A6000", "a6000-48gb"), ("DGX Spark", "gb10-128gb"), ("GB10", "gb10-128gb"), ("4060 Ti", "rtx4060ti-16gb"),
    ],
)  # fmt: skip
def test_a_card_is_found_by_what_people_call_it(said, name):
    assert find_spec(said) is SPECS[name]


@pytest.mark.parametrize("spec", SPECS.values(), ids=lambda spec: spec.name)
def test_each_is_found_as_pytorch_names_it(spec):
    assert find_spec(spec.name) is find_spec(spec.device_name) is find_spec(spec.device_name.upper()) is spec


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ("a100", "a100-80gb, a100-40gb and a100-pcie-80gb"),
        ("H100", "h100-80gb, h100-nvl-94gb and h100-pcie-80gb"),
        ("Tesla V100", "v100-32gb and v100-16gb"),
    ],
)
def test_of_several_cards_each_is_named(said, names):
    first = names.split(",")[0].split(" ")[0]
    message = f"name must say which of several GPUs is meant: got '{said}', known: {names}; try '{first}'."
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        find_spec(said)


@pytest.mark.parametrize("said", ["4070", "rtx", "geforce", "", "ti", "24gb"])
def test_a_part_of_a_name_finds_none(said):
    with pytest.raises(ValueError, match="name must be a known GPU: got"):
        find_spec(said)


@pytest.mark.parametrize("name", SPECS)
def test_a_program_runs_on_each(name):
    """Products, sorts and selections: what looks in a table by the architecture."""

    def program(gpu):
        x = torch.randn(64, 64, device=gpu.device, requires_grad=True)
        (x @ x).sort().values.sum().backward()
        torch.randn(100_000, device=gpu.device).sort()
        torch.arange(100_000, device=gpu.device).nonzero_static(size=7)
        return []

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* from PyPI does not run on")
        report = reported(program, gpu=name)
    assert report.spec is SPECS[name]
    assert report.fits.own.fits


@pytest.mark.parametrize("name", SPECS)
def test_only_volta_is_without_kernels(name):
    assert (SPECS[name].compiled_for is None) == bool(SPECS[name].has_no_kernels) == (name in NO_BUILD)


@pytest.mark.parametrize(
    ("capability", "compiled"),
    [
        ((7, 0), None), ((7, 5), (7, 5)), ((8, 0), (8, 0)), ((8, 6), (8, 6)), ((8, 9), (8, 6)), ((9, 0), (9, 0)),
        ((10, 0), (10, 0)), ((10, 3), (10, 0)), ((11, 0), None), ((12, 0), (12, 0)), ((12, 1), (12, 0)),
    ],
)  # fmt: skip
def test_whose_kernels_run(capability, compiled):
    assert GPUSpec("x", "x", capability, 10**10, 8).compiled_for == compiled


def test_a_card_that_no_build_runs_on_says_so(nothing_said):
    with pytest.warns(UserWarning, match="PyTorch 2.13 from PyPI does not run on Tesla V100-SXM2-16GB: .*cu126"):
        report = reported(a_little, gpu="v100-16gb")
    said = " ".join(repr(report).split())
    assert "PyTorch 2.13's rules, which no build on PyPI runs on this card" in said
    assert not report.is_exact
    (note,) = report.notes
    assert "builds for CUDA 12.6 (cu126) have them" in str(note)
    assert str(note) in said


def test_it_says_so_once(nothing_said):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            with SimulatedGPU("v100-32gb"):
                pass
        with SimulatedGPU("t4-16gb"):
            pass
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("b300-288gb", "rules with the kernels for compute capability 10.0, the nearest to its 10.3"),
        ("gb10-128gb", "rules with the kernels for compute capability 12.0, the nearest to its 12.1"),
        ("l40s-48gb", "PyTorch 2.13's rules"),
        ("rtx4090-24gb", "PyTorch 2.13's rules"),
    ],
)
def test_the_report_names_the_nearest_architecture(name, said):
    report = reported(a_little, gpu=name)
    assert said in " ".join(repr(report).split())
    assert ("nearest" in repr(report)) == ("nearest" in said)


def test_its_properties():
    with SimulatedGPU("DGX Spark") as gpu:
        properties = gpu.get_device_properties()
    assert (properties.name, properties.is_integrated, properties.L2_cache_size) == ("NVIDIA GB10", 1, 24 * MiB)
    with SimulatedGPU("5090") as gpu:
        properties = gpu.get_device_properties()
    assert (properties.total_memory, properties.multi_processor_count) == (33_680_457_728, 170)
    assert (properties.major, properties.minor, properties.max_threads_per_multi_processor) == (12, 0, 1536)
    assert properties.L2_cache_size == 96 * MiB
