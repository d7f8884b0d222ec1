"""Attention on the simulated GPU: the backend that CUDA takes, and every event of it, 0 bytes off."""

import json

import pytest
import torch
import torch.nn.functional as F
from places import RECORDED
from running import GPUS, cases, module_of, run_as_recorded
from torch.nn.attention import SDPBackend, sdpa_kernel

from every_byte.gpu.memory.specs import find_spec
from every_byte.gpu.operators.attention import flash as attention_flash
from every_byte.gpu.operators.attention.choice import order_of_preference
from every_byte.gpu.operators.attention.efficient import workspace_bytes
from utils import SimulatedGPU

SEED = 2026  # of record_attention_choices.py
CHOICES = {
    (version, card): answers
    for version, folder in {"2.11": "2.11.0", "2.13": "2.13.0", "2.14": "2.14.1", "2.15": "2.15.0"}.items()
    for card, answers in json.loads(
        (RECORDED.parent / folder / "attention_choices.json").read_text(encoding="utf-8")
    ).items()
}
NAMES = GPUS | {"l40s": "l40s-48gb", "b200": "b200-180gb"}
RECORDED = [(name, card) for name, case in cases("attention_cases").items() for card in case.cards]


@pytest.mark.long
@pytest.mark.sampled(5, slow=True)
@pytest.mark.filterwarnings("ignore:PyTorch .* runs here")
@pytest.mark.parametrize(("version", "card"), CHOICES)
def test_the_backend_is_the_one_that_cuda_takes(version, card):
    choices, answers = module_of("attention_cases").choices, CHOICES[version, card]
    with SimulatedGPU(NAMES[card], torch=version) as gpu:
        assert choices(gpu.device, SEED, len(answers)) == answers


@pytest.mark.filterwarnings("ignore:PyTorch .* runs here")
@pytest.mark.parametrize(("shape", "backends"), [
    ((1, 65535, 8, 64), {"2.13": "CUDNN_ATTENTION", "2.15": "CUDNN_ATTENTION"}),
    ((1, 65536, 8, 64), {"2.13": "FLASH_ATTENTION", "2.15": "EFFICIENT_ATTENTION"}),
    ((65536, 2, 8, 64), {"2.13": "FLASH_ATTENTION", "2.15": "EFFICIENT_ATTENTION"}),
])  # fmt: skip
def test_more_batches_or_heads_than_a_grid_has(shape, backends):
    """As `torch._fused_sdp_choice` of the CUDA builds answers on an H100."""
    for version, backend in backends.items():
        with SimulatedGPU("h100-80gb", torch=version) as gpu:
            assert torch._fused_sdp_choice(*qkv(gpu, *shape)) == int(getattr(SDPBackend, backend))


@pytest.mark.long
@pytest.mark.sampled(8)
@pytest.mark.parametrize(("name", "card"), RECORDED)
def test_events_are_those_of_cuda(name, card):
    run_as_recorded("attention_cases", name, card)


def qkv(gpu, *shape, dtype=torch.bfloat16, **options):
    return [torch.empty(*shape, device=gpu.device, dtype=dtype, **options) for _ in "qkv"]


def allocations(gpu, first):
    return [event.n_bytes for event in gpu.trace.events[first:] if event.action == "alloc"]


def test_flash_attention_by_hand():
    """b=2, h=4, s=256, d=64 in bfloat16: the output, 4 bytes a row, the random state, an unused number."""
    with SimulatedGPU("a100-80gb") as gpu:
        q, k, v = qkv(gpu, 2, 4, 256, 64, requires_grad=True)
        first = len(gpu.trace.events)
        F.scaled_dot_product_attention(q, k, v)
        assert allocations(gpu, first) == [2 * 4 * 256 * 64 * 2, 2 * 4 * 256 * 4, 16, 8]


def test_a_split_by_hand():
    """One query, 4,096 keys, d=64: 16 blocks of 256 keys and 216 places, so every block is a split of its own."""
    splits = 16
    assert attention_flash.split_buffers(1, 1, 1, 4096, 64, find_spec("a100-80gb")) == (splits * 4, splits * 64 * 4)


def test_a_workspace_by_hand():
    """s=128, d=64 in float32: two tiles of 64 by 64 numbers, each with 16 bytes before it, for each of 8 heads."""
    q = torch.empty(2, 128, 4, 64, device="meta")
    assert workspace_bytes(q, q, q, False, find_spec("t4-16gb")) == 8 * 2 * (64 * 64 * 4 + 16)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("name", ["a100-80gb", "h100-80gb", "t4-16gb"])
def test_inference_mode_takes_the_same(name, dropout):
    traces = []
    for mode in (torch.no_grad, torch.inference_mode):
        with SimulatedGPU(name) as gpu, mode():
            out = F.scaled_dot_product_attention(*qkv(gpu, 2, 4, 128, 64, dtype=torch.float16), dropout_p=dropout)
            traces.append((out.stride(), gpu.trace.sequence()))
    assert traces[0] == traces[1]


def operations_of_attention(gpu) -> set[str]:
    q, k, v = qkv(gpu, 2, 4, 128, 64)
    first = len(gpu.trace.events)
    F.scaled_dot_product_attention(q, k, v)
    return {event.operation for event in gpu.trace.events[first:] if event.action == "alloc"} - {"aten::empty"}


@pytest.mark.parametrize(("name", "backend"), [("a100-80gb", "flash"), ("h100-80gb", "cudnn"), ("l40s-48gb", "flash")])
def test_what_each_gpu_prefers(name, backend):
    with SimulatedGPU(name) as gpu:
        assert operations_of_attention(gpu) == {f"aten::_scaled_dot_product_{backend}_attention"}


def test_the_order_that_the_user_sets_counts():
    with SimulatedGPU("h100-80gb") as gpu:
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION], set_priority=True):
            assert operations_of_attention(gpu) == {"aten::_scaled_dot_product_efficient_attention"}
        with sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
            assert operations_of_attention(gpu) == {"aten::_scaled_dot_product_flash_attention"}
        assert order_of_preference(find_spec("h100-80gb"))[0] == SDPBackend.CUDNN_ATTENTION.value


def test_nothing_that_is_enabled_takes_it():
    with SimulatedGPU("t4-16gb") as gpu, sdpa_kernel([SDPBackend.FLASH_ATTENTION]):
        with pytest.raises(RuntimeError, match=r"No available kernel.*\(flash\).*on t4-16gb.*enable_math_sdp"):
            F.scaled_dot_product_attention(*qkv(gpu, 1, 1, 8, 8))


def test_a_mask_of_another_type_is_refused_where_cuda_refuses_it():
    with SimulatedGPU("a100-80gb") as gpu, sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION]):
        mask = torch.zeros(8, 8, device=gpu.device)
        with pytest.raises(RuntimeError, match="invalid dtype for bias.*float32.*bfloat16.*query.dtype"):
            F.scaled_dot_product_attention(*qkv(gpu, 1, 1, 8, 8), attn_mask=mask)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda q, k, v: (q.float(), k, v, None), "same dtype, but got torch.float32, torch.bfloat16"),
        (lambda q, k, v: (q[0, 0, 0], k, v, None), "at least 2 dimensional, but got 1, 4 and 4"),
        (
            lambda q, k, v: (q, k, v, torch.zeros(8, 8, device=q.device, dtype=torch.int32)),
            "attn_mask.dtype: torch.int32",
        ),
    ],
)
def test_wrong_arguments(change, message):
    with SimulatedGPU("a100-80gb") as gpu, pytest.raises(RuntimeError, match=message):
        F.scaled_dot_product_attention(*change(*qkv(gpu, 1, 1, 8, 8)))


def test_dropout_makes_the_random_state_twice():
    """The state is made before it is known whether dropout needs one, and made again where it does."""
    with SimulatedGPU("a100-80gb") as gpu:
        q, k, v = qkv(gpu, 1, 2, 64, 32)
        first = len(gpu.trace.events)
        F.scaled_dot_product_attention(q, k, v, dropout_p=0.1)
        assert allocations(gpu, first) == [1 * 2 * 64 * 32 * 2, 1 * 2 * 64 * 4, 16, 8, 16]


def test_attention_on_the_cpu_stays_there():
    q = torch.randn(1, 2, 8, 8)
    expected = F.scaled_dot_product_attention(q, q, q)
    with SimulatedGPU("a100-80gb"):
        assert torch.equal(F.scaled_dot_product_attention(q, q, q), expected)


# ------------------------------------------------------------------------------------ the order of preference

FIRST, CUDNN_FIRST, MATH_FIRST = [1, 2, 0, 3, 4], [3, 1, 2, 0, 4], [0, 1, 2, 3, 4]
A100, H100 = find_spec("a100-80gb"), find_spec("h100-80gb")


@pytest.fixture
def order():
    """PyTorch's own record of the order, restored afterwards."""
    before = torch._C._get_sdp_priority_order()
    yield torch._C._set_sdp_priority_order  # PyTorch's, which no open GPU has replaced
    torch._C._set_sdp_priority_order(before)


def orders():
    return order_of_preference(A100), order_of_preference(H100)


def test_without_a_wish_each_gpu_has_its_own_order(order):
    assert orders() == (FIRST, CUDNN_FIRST)
    with SimulatedGPU(A100):
        assert orders() == (FIRST, CUDNN_FIRST)


def test_what_pytorch_sets_for_the_machine_is_no_wish(order):
    """As the first real attention on a Hopper card does, behind the back of Python."""
    with SimulatedGPU(A100):
        order(CUDNN_FIRST)
        assert orders() == (FIRST, CUDNN_FIRST)
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.FLASH_ATTENTION], set_priority=True):
            assert orders()[0][:2] == orders()[1][:2] == [0, 1]
        assert orders() == (FIRST, CUDNN_FIRST)
    assert torch._C._get_sdp_priority_order() == CUDNN_FIRST, "the machine has its own again"


def test_what_pytorch_has_set_before_is_no_wish_on_such_a_machine(order, monkeypatch):
    order(CUDNN_FIRST)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    assert orders() == (CUDNN_FIRST, CUDNN_FIRST), "without such a card somebody has wished it"
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda card: [(8, 0), (9, 0)][card])
    assert orders() == (FIRST, CUDNN_FIRST)
    with SimulatedGPU(A100):
        assert orders() == (FIRST, CUDNN_FIRST)
    assert torch._C._get_sdp_priority_order() == CUDNN_FIRST


def test_a_wish_counts_whenever_it_was_made(order):
    order(MATH_FIRST)
    assert orders() == (MATH_FIRST, MATH_FIRST)
    with SimulatedGPU(A100):
        assert orders() == (MATH_FIRST, MATH_FIRST)
        torch._C._set_sdp_priority_order(CUDNN_FIRST)
        assert orders() == (CUDNN_FIRST, CUDNN_FIRST)
        torch._C._set_sdp_priority_order(FIRST)
        assert orders() == (FIRST, CUDNN_FIRST), "back to none"
