"""The cards that are known: the book's eight, and others that people have, each with who published its size.

A driver keeps some memory for itself, so that a card's size differs by up to a percent between drivers. The sizes are
what a program sees, `cudaMemGetInfo` and `torch.cuda.get_device_properties(0).total_memory`: to the byte where that was
published, else to the MiB. `nvidia-smi` names more. Multiprocessors and L2 are the same places', else NVIDIA's white
papers'.
"""

from every_byte.units import MiB

from .card import GPUSpec

_TORCH = "torch.cuda.get_device_properties(0).total_memory"
_QUERY = "deviceQuery of the CUDA samples, published with a driver for CUDA "
_PROPERTIES = "torch.cuda.get_device_properties(0), published, in MiB"
_LLAMA = "cudaMemGetInfo as llama.cpp logs it, published, in MiB"

IN_THE_BOOK = (
    GPUSpec(
        *("a100-80gb", "NVIDIA A100-SXM4-80GB", (8, 0), 85_097_971_712, 108),
        l2_bytes=40 * MiB, source=_TORCH,
    ),
    GPUSpec(
        *("a100-40gb", "NVIDIA A100-SXM4-40GB", (8, 0), 42_298_834_944, 108), l2_bytes=40 * MiB,
        source="https://github.com/bottlerocket-os/bottlerocket/pull/3873, deviceQuery",
    ),
    GPUSpec("h100-80gb", "NVIDIA H100 80GB HBM3", (9, 0), 85_017_624_576, 132, l2_bytes=50 * MiB, source=_TORCH),
    GPUSpec("h200-141gb", "NVIDIA H200", (9, 0), 150_109_880_320, 132, l2_bytes=60 * MiB, source=_TORCH),
    GPUSpec("b200-180gb", "NVIDIA B200", (10, 0), 191_514_607_616, 148, l2_bytes=132_644_864, source=_TORCH),
    GPUSpec("l40s-48gb", "NVIDIA L40S", (8, 9), 47_697_362_944, 142, 1536, l2_bytes=96 * MiB, source=_TORCH),
    GPUSpec(
        *("rtx3090-24gb", "NVIDIA GeForce RTX 3090", (8, 6), 25_296_044_032, 82, 1536),
        l2_bytes=6 * MiB, source=_TORCH,
    ),
    GPUSpec("t4-16gb", "Tesla T4", (7, 5), 15_655_829_504, 40, 1024, l2_bytes=4 * MiB, source=_TORCH),
)  # fmt: skip
"""Those that the chapters and their explorers choose from."""

OTHERS = (
    GPUSpec(
        *("b300-288gb", "NVIDIA B300 SXM6 AC", (10, 3), 274_115 * MiB, 148), l2_bytes=132_644_864,
        source="the 267.69 GiB of PyTorch's out-of-memory errors, published; nvidia-smi says 275,040 MiB",
    ),
    GPUSpec(
        *("gh200-96gb", "NVIDIA GH200 480GB", (9, 0), 102_005_473_280, 132), l2_bytes=60 * MiB,
        source=f"{_QUERY}12.2; https://github.com/mredenti/PowerCapping has its 97,280 MiB",
    ),
    GPUSpec(
        *("h100-nvl-94gb", "NVIDIA H100 NVL", (9, 0), 95_334 * MiB, 132), l2_bytes=60 * MiB,
        source="the 93.10 GiB of most of PyTorch's out-of-memory errors that are published; "
        "https://github.com/ali-vilab/VACE/issues/56 has 93.00",
    ),
    GPUSpec(
        *("h100-pcie-80gb", "NVIDIA H100 PCIe", (9, 0), 81_008 * MiB, 114), l2_bytes=50 * MiB, source=_PROPERTIES,
    ),
    GPUSpec(
        *("a100-pcie-80gb", "NVIDIA A100 80GB PCIe", (8, 0), 84_974_239_744, 108), l2_bytes=40 * MiB,
        source=f"{_QUERY}12.4; https://github.com/lianqi1008/Control-GIC/issues/6 has its 79.14 GiB",
    ),
    GPUSpec(
        *("v100-32gb", "Tesla V100-SXM2-32GB", (7, 0), 34_089_926_656, 80), l2_bytes=6 * MiB, source=f"{_QUERY}11.6",
    ),
    GPUSpec(
        *("v100-16gb", "Tesla V100-SXM2-16GB", (7, 0), 16_945_512_448, 80), l2_bytes=6 * MiB, source=f"{_QUERY}9.0",
    ),
    GPUSpec(
        *("rtxpro6000-96gb", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", (12, 0), 97_247 * MiB, 188, 1536),
        l2_bytes=128 * MiB, source=f"{_LLAMA}; https://github.com/antirez/ds4/issues/431 has its 94.97 GiB",
    ),
    GPUSpec(
        *("rtx6000ada-48gb", "NVIDIA RTX 6000 Ada Generation", (8, 9), 48_622 * MiB, 142, 1536), l2_bytes=96 * MiB,
        source=f"{_PROPERTIES}, without ECC; https://github.com/DINGYANB/MTVCrafter/issues/21 has 44.43 GiB with it",
    ),
    GPUSpec(
        *("a6000-48gb", "NVIDIA RTX A6000", (8, 6), 51_160_023_040, 84, 1536), l2_bytes=6 * MiB,
        source=f"{_QUERY}12.7, without ECC",
    ),
    GPUSpec("a40-48gb", "NVIDIA A40", (8, 6), 47_608_692_736, 84, 1536, l2_bytes=6 * MiB, source=f"{_QUERY}12.4"),
    GPUSpec("l4-24gb", "NVIDIA L4", (8, 9), 23_612_293_120, 58, 1536, l2_bytes=48 * MiB, source=f"{_QUERY}12.0"),
    GPUSpec("a10g-24gb", "NVIDIA A10G", (8, 6), 22_587 * MiB, 80, 1536, l2_bytes=6 * MiB, source=_PROPERTIES),
    GPUSpec(
        *("rtx5090-32gb", "NVIDIA GeForce RTX 5090", (12, 0), 33_680_457_728, 170, 1536), l2_bytes=96 * MiB,
        source="https://github.com/NVIDIA/nccl/issues/1637, deviceQuery",
    ),
    GPUSpec(
        *("rtx5080-16gb", "NVIDIA GeForce RTX 5080", (12, 0), 16_609_378_304, 84, 1536), l2_bytes=64 * MiB,
        source=f"{_TORCH}, published",
    ),
    GPUSpec(
        *("rtx5070ti-16gb", "NVIDIA GeForce RTX 5070 Ti", (12, 0), 15_842 * MiB, 70, 1536), l2_bytes=48 * MiB,
        source=_LLAMA,
    ),
    GPUSpec(
        *("rtx4090-24gb", "NVIDIA GeForce RTX 4090", (8, 9), 25_250_627_584, 128, 1536), l2_bytes=72 * MiB,
        source=f"{_QUERY}13.0",
    ),
    GPUSpec(
        *("rtx4080-16gb", "NVIDIA GeForce RTX 4080", (8, 9), 16_049 * MiB, 76, 1536), l2_bytes=64 * MiB,
        source=_PROPERTIES,
    ),
    GPUSpec(
        *("rtx4070ti-12gb", "NVIDIA GeForce RTX 4070 Ti", (8, 9), 12_011 * MiB, 60, 1536), l2_bytes=48 * MiB,
        source="the 11.73 GiB of an out-of-memory error, https://github.com/OpenLMLab/LOMO/issues/17; in MiB",
    ),
    GPUSpec(
        *("rtx4060ti-16gb", "NVIDIA GeForce RTX 4060 Ti", (8, 9), 16_722_821_120, 34, 1536), l2_bytes=32 * MiB,
        source=f"{_QUERY}13.1",
    ),
    GPUSpec(
        *("rtx3080-10gb", "NVIDIA GeForce RTX 3080", (8, 6), 10_472_390_656, 68, 1536), l2_bytes=5 * MiB,
        source=f"{_QUERY}12.0",
    ),
    GPUSpec(
        *("rtx3060-12gb", "NVIDIA GeForce RTX 3060", (8, 6), 11_901 * MiB, 28, 1536), l2_bytes=3 * MiB,
        source=f"{_QUERY}13.0, in MiB",
    ),
    GPUSpec(
        *("gb10-128gb", "NVIDIA GB10", (12, 1), 130_596_048_896, 48, 1536), l2_bytes=24 * MiB, shares_memory=True,
        source=f"{_TORCH}, published; https://github.com/MiaAI-Lab/GLM-5.3-Flash-EXL3-2x-DGX-Sparks/issues/47 has "
        "121.69 GiB, of which 102 are free when it has started",
    ),
)  # fmt: skip
"""Cards that no recording was made for: their architecture's is."""
