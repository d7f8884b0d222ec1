"""The rules of each version of PyTorch: which are followed, what is said of them, and what differs between them."""

import warnings

import pytest
import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from every_byte.account import account, numbers
from every_byte.gpu.memory import versions
from every_byte.gpu.memory.specs import by_version, find_spec, spec_here
from every_byte.gpu.memory.versions import BOOK, VERSIONS, follow, rules_here, rules_of, verified, what_to_know
from utils import SimulatedGPU, open_gpu

LT_BYTES, BLAS_BYTES = 1 << 20, 8_519_680


@pytest.fixture
def running(monkeypatch):
    """As if another PyTorch ran, that has said nothing yet."""
    monkeypatch.setattr(versions, "_said", set())
    return lambda version: monkeypatch.setattr(torch, "__version__", version)


@pytest.mark.parametrize("version", ["2.15", "2.15.0", "2.15.1+cu132"])
def test_a_version_by_its_first_two_numbers(version):
    assert rules_of(version) is VERSIONS["2.15"]
    assert by_version("t4-16gb", version).torch_version == "2.15"


def test_the_books_is_the_default_and_is_what_runs_here():
    assert SimulatedGPU("a100-80gb").spec.torch_version == find_spec("a100-80gb").torch_version == BOOK
    assert (
        rules_here().torch_version == spec_here("a100-80gb").torch_version == ".".join(torch.__version__.split(".")[:2])
    )


@pytest.mark.parametrize("version", ["1.13", "2.99", "two", ""])
def test_a_version_without_rules_is_refused_by_name(version):
    with pytest.raises(ValueError, match=rf"torch must be a version .*2\.9, .*2\.15: got '{version}'"):
        rules_of(version)


@pytest.mark.parametrize(
    ("running_version", "followed"),
    [("2.16.0.dev20261120+cpu", "2.15"), ("3.0.1", "2.15"), ("2.6.0", "2.9"), ("2.12.1", "2.12"), ("2.15.0", "2.15")],
)
def test_an_unknown_version_has_the_rules_of_the_one_before_it(running, running_version, followed):
    running(running_version)
    rules = rules_here()
    assert rules.torch_version == followed
    assert rules.is_verified == (running_version == "2.15.0" and "2.15" in verified())


def test_what_is_said_is_said_once(running):
    running("2.16.0")
    with pytest.warns(UserWarning, match=r"PyTorch 2\.16\.0 runs here, and a simulated GPU follows the rules of"):
        with SimulatedGPU("a100-80gb"):
            pass
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with SimulatedGPU("h100-80gb"):
            pass


def test_it_is_one_line(running):
    running("2.16.0")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with SimulatedGPU("a100-80gb"):
            pass
    (said,) = caught
    assert len(warnings.formatwarning(said.message, said.category, said.filename, said.lineno).splitlines()) == 1


def test_a_version_is_followed_where_one_asks_for_it():
    follow("2.15.0")
    try:
        assert spec_here("t4-16gb").torch_version == "2.15"
        assert rules_here().torch_version == BOOK
    finally:
        follow()
    assert spec_here("t4-16gb").torch_version == BOOK
    with pytest.raises(ValueError, match="torch must be a version"):
        follow("2.99")


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:PyTorch .* runs here, and a simulated GPU follows the rules:UserWarning")
def test_an_account_and_a_notebooks_gpu_by_another_version():
    found = account(
        torch.nn.Linear(64, 64), numbers("b", 64), loss=lambda out, _: out.sum(), b=32, gpu="h100-80gb", torch="2.15"
    )
    assert found.at(b=64).report.spec.torch_version == "2.15"
    assert found.advice("a100-40gb", sizes=False).bench.spec.torch_version == "2.15"
    gpu = open_gpu("t4-16gb", torch="2.15")
    gpu.close()
    assert gpu.spec.torch_version == "2.15"


def test_a_version_is_a_text_and_no_version_of_the_machines_own_gpu():
    with pytest.raises(ValueError, match=r"got 2\.1, a number; try '2\.15'"):
        SimulatedGPU("a100-80gb", torch=2.10)
    with pytest.raises(ValueError, match="got '2.15' with 'live', which runs the one that is installed"):
        open_gpu("live", torch="2.15")


def test_nothing_is_said_where_the_version_that_runs_is_simulated():
    assert what_to_know(rules_of(BOOK)) == ""


def test_an_account_of_an_unknown_version_is_not_exact(running):
    running("2.16.0")
    with pytest.warns(UserWarning, match="runs here"):
        found = account(nn.Linear(8, 8), numbers("b", 8), loss=lambda out, _: out.sum(), b=2)
    assert not found.report.is_exact
    assert found.report.torch_version == "2.15"
    assert "ran under 2.16.0" in repr(found)


def taken_by(work, version: str) -> tuple[list[int], SimulatedGPU]:
    """The sizes that are requested, in order, and the GPU."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that another version runs
        with SimulatedGPU("a100-80gb", torch=version) as gpu:
            work(gpu)
        return [event[1] for event in gpu.trace.sequence() if event[0] == "alloc"], gpu


def test_a_workspace_is_kept_or_is_each_products_own():
    def two_products(gpu):
        x = torch.empty(64, 64, device=gpu.device)
        x @ x @ x

    for version, times, kept_bytes in (("2.13", 1, BLAS_BYTES), ("2.15", 2, 0)):
        sizes, gpu = taken_by(two_products, version)
        assert (sizes.count(BLAS_BYTES), gpu.memory_allocated()) == (times, kept_bytes)


def test_a_linear_with_a_bias_works_in_cublaslts_from_2_15_on():
    def linear(gpu):
        nn.Linear(64, 32, device=gpu.device)(torch.empty(8, 64, device=gpu.device))

    assert LT_BYTES not in taken_by(linear, "2.13")[0]
    sizes, _ = taken_by(linear, "2.15")
    assert LT_BYTES in sizes
    assert BLAS_BYTES not in sizes


def test_the_environment_brings_the_old_way_back():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with SimulatedGPU("a100-80gb", settings={"TORCH_CUBLAS_WORKSPACE_CACHE": "1"}, torch="2.15") as gpu:
            x = torch.empty(64, 64, device=gpu.device)
            x @ x
            assert gpu.memory_allocated() == 64 * 64 * 4 + BLAS_BYTES


@pytest.mark.parametrize(("version", "settings", "kept_bytes"), [
    ("2.11", {}, BLAS_BYTES + LT_BYTES),
    ("2.11", {"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "1"}, BLAS_BYTES),
    ("2.11", {"CUBLASLT_WORKSPACE_SIZE": "2048"}, BLAS_BYTES + 2 * LT_BYTES),
    ("2.13", {}, BLAS_BYTES),
    ("2.13", {"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "0"}, LT_BYTES),
    ("2.14", {"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "0"}, LT_BYTES),
    ("2.14", {"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "1"}, BLAS_BYTES),
    ("2.15", {"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "0"}, 0),
    ("2.15", {"TORCH_CUBLASLT_UNIFIED_WORKSPACE": "0", "TORCH_CUBLAS_WORKSPACE_CACHE": "1"}, LT_BYTES),
    ("2.15", {}, 0),
    ("2.15", {"TORCH_CUBLAS_WORKSPACE_CACHE": "1"}, BLAS_BYTES),
])  # fmt: skip
def test_what_is_kept_behind_a_linear_with_a_bias(version, settings, kept_bytes):
    """As each CUDA build keeps it on an A100, and gives it back."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with SimulatedGPU("a100-80gb", cuda=True, settings=settings, torch=version) as gpu:
            layer, x = nn.Linear(1024, 1024, device="cuda"), torch.zeros(256, 1024, device="cuda")
            before = gpu.memory_allocated()
            y = layer(x)
            assert gpu.memory_allocated() - before - y.nbytes == kept_bytes
            torch._C._cuda_clearCublasWorkspaces()
            assert gpu.memory_allocated() - before - y.nbytes == 0


def test_efficient_attention_has_its_seeds_on_the_gpu_and_fewer_heads_of_key_and_value():
    def attention(gpu, heads=4, dropout=0.0):
        q, k, v = (torch.empty(2, n, 32, 64, device=gpu.device, dtype=torch.float16) for n in (4, heads, heads))
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION):
            nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, enable_gqa=heads < 4)

    assert taken_by(attention, "2.13")[0].count(8) == 0
    assert taken_by(attention, "2.15")[0].count(8) == 2
    assert taken_by(lambda gpu: attention(gpu, dropout=0.1), "2.15")[0].count(8) == 0
    taken_by(lambda gpu: attention(gpu, heads=2), "2.15")
    with pytest.raises(RuntimeError, match="No available kernel"):
        taken_by(lambda gpu: attention(gpu, heads=2), "2.13")


def test_norms_of_many_tensors_have_a_number_for_each_chunk():
    def norms(gpu):
        long, short = (torch.empty(n, device=gpu.device) for n in (200_000, 10))
        torch._foreach_norm([long, short], 2)

    assert 2 * 4 * 4 in taken_by(norms, "2.13")[0]  # both as many as the long one: four chunks of 65,536
    sizes, _ = taken_by(norms, "2.15")
    assert sizes[2:4] == [3 * 8, 5 * 4]  # where each begins; four chunks and one


@pytest.mark.parametrize(("bias", "beta", "dtype", "by_lt"), [
    ("row", 1, torch.float32, True), ("row", 0.5, torch.float32, False), ("row", 0.5, torch.float16, False),
    ("matrix", 1, torch.float32, False), ("matrix", 0.5, torch.float16, True), ("matrix", 0, torch.float16, False),
    ("turned", 1, torch.float16, False), ("column", 1, torch.float16, False),
])  # fmt: skip
def test_which_sums_go_to_cublaslt_from_2_15_on(bias, beta, dtype, by_lt):
    """As the CUDA build of 2.15 does each of them, of 32 rows, 64 terms and 48 columns."""

    def added(gpu):
        def make(*shape):
            return torch.empty(*shape, device=gpu.device, dtype=dtype)

        biases = {"row": make(48), "matrix": make(32, 48), "turned": make(48, 32).t(), "column": make(32, 1)}
        torch.addmm(biases[bias], make(32, 64), make(64, 48), beta=beta)

    sizes, _ = taken_by(added, "2.15")
    assert (LT_BYTES in sizes, BLAS_BYTES in sizes) == (by_lt, not by_lt)


def test_group_norm_stays_channels_last_from_2_15_on():
    """Three pictures of 12 channels in 4 groups, 3 by 3, in float32: by the CUDA builds."""
    x_bytes, of_channels, of_groups = 3 * 12 * 9 * 4, 3 * 12 * 4, 3 * 4 * 4

    def normed(gpu):
        x = torch.empty(3, 12, 3, 3, device=gpu.device).contiguous(memory_format=torch.channels_last)
        torch.native_group_norm(x, None, None, 3, 12, 9, 4, 1e-5)

    given = [x_bytes, x_bytes]
    assert taken_by(normed, "2.13")[0] == [*given, x_bytes, x_bytes, of_groups, of_groups]
    assert taken_by(normed, "2.15")[0] == [*given, x_bytes, of_groups, of_groups, of_channels, of_channels]


@pytest.mark.parametrize("shapes", [[(4, 256, 64)] * 3, [(1, 4, 256, 64), (1, 1, 256, 64), (1, 1, 256, 64)]])
def test_attention_of_three_dimensions_and_of_one_head_for_all(shapes):
    """Plain mathematics in 2.13, whose scores are in memory; flash attention in 2.15."""
    scores_bytes, made = 4 * 256 * 256 * 4, []

    def attention(gpu):
        q, k, v = (torch.empty(*shape, device=gpu.device, dtype=torch.bfloat16) for shape in shapes)
        made.append(nn.functional.scaled_dot_product_attention(q, k, v).shape)

    assert scores_bytes in taken_by(attention, "2.13")[0]
    assert scores_bytes not in taken_by(attention, "2.15")[0]
    assert made == [shapes[0]] * 2


def test_drawing_and_repeating():
    def draw(gpu):
        torch.multinomial(torch.ones(1000, device=gpu.device), 5, replacement=True)

    assert taken_by(draw, "2.13")[0].count(4000) == 4  # probabilities, two of the kind, running sums
    assert taken_by(draw, "2.15")[0].count(4000) == 3

    def repeat(gpu):
        torch.repeat_interleave(torch.ones(1000, dtype=torch.int64).to(gpu.device))

    assert 1000 in taken_by(repeat, "2.13")[0]  # of each repeat, whether it is negative
    assert 1000 not in taken_by(repeat, "2.15")[0]


def test_the_extremes_of_what_is_drawn_were_found_apart():
    """2.11: the largest, whether it is finite, the least, whether it is none below 0, and both; then the sum."""

    def draw(gpu):
        torch.multinomial(torch.ones(1000, device=gpu.device), 1)

    assert taken_by(draw, "2.11")[0][:7] == [4000, 8, 4, 1, 4, 1, 1]
    assert taken_by(draw, "2.13")[0][:7] == [4000, 8, 4, 4, 1, 1, 1]


def test_indices_were_sorted_by_all_of_their_bits():
    """100,000 tokens of 100 rows, by 7 bits in one pass, or by 64 in eight, of which each but one has a copy."""

    def backward(gpu):
        rows = nn.Embedding(100, 16, device=gpu.device)
        y = rows(torch.zeros(100_000, dtype=torch.int64, device=gpu.device))
        y.backward(torch.zeros_like(y))

    copies_bytes = 2 * 800_000
    assert max(n for n in taken_by(backward, "2.13")[0] if n not in (6_400_000, 800_000)) < copies_bytes
    assert any(copies_bytes < n < copies_bytes + 200_000 for n in taken_by(backward, "2.11")[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("shape", [(5000,), (30, 50)])
def test_a_running_sum_into_a_result_takes_what_one_without_takes(dtype, shape):
    def summed(gpu, *, out):
        x = torch.ones(shape, device=gpu.device, dtype=dtype)
        torch.cumsum(x, -1, **({"out": torch.empty_like(x)} if out else {}))

    one, other = (sorted(taken_by(lambda gpu, out=out: summed(gpu, out=out), "2.13")[0]) for out in (True, False))
    assert one == other


def test_an_empty_group_takes_no_workspace():
    """Three groups of which the second is empty, as the offsets say, which came from the host."""

    def multiply(gpu):
        x, weight = (torch.zeros(*s, device=gpu.device, dtype=torch.float16) for s in ((32, 64), (3, 64, 64)))
        torch._grouped_mm(x, weight, offs=torch.tensor([16, 16, 32], dtype=torch.int32).to(gpu.device))

    assert taken_by(multiply, "2.15")[0].count(BLAS_BYTES) == 2


def test_what_is_added_at_indices_is_sorted_by_their_bits_and_rows_of_an_embedding_by_all_in_2_11():
    """The scratch of each sort and of the selection of different indices, as the CUDA builds ask for it on an A100."""
    n, n_rows = 100_000, 1000

    def added(gpu):
        at = torch.empty(n, dtype=torch.int64, device=gpu.device)
        torch.empty(n_rows, 4, device=gpu.device).index_put_((at,), torch.empty(n, 4, device=gpu.device), True)

    def embedded(gpu):
        rows = nn.Embedding(n_rows, 16, device=gpu.device)
        rows(torch.empty(n, dtype=torch.int64, device=gpu.device)).sum().backward()

    sorted_by_two_bytes, by_eight = 1_632_255, 1_644_543
    for version in ("2.11", "2.13"):
        assert sorted_by_two_bytes in taken_by(added, version)[0]
    old, new = (taken_by(embedded, version)[0] for version in ("2.11", "2.13"))
    assert by_eight in old
    assert by_eight not in new
    assert sorted_by_two_bytes in new
    assert (2047 in old, 2303 in old, 2047 in new, 2303 in new) == (True, False, False, True)


def test_heads_of_any_width_are_fused_in_evaluation_from_2_13_on():
    def evaluated(gpu, d):
        layer = nn.MultiheadAttention(d, 8, batch_first=True, device=gpu.device, dtype=torch.bfloat16).eval()
        x = torch.empty(4, 512, d, device=gpu.device, dtype=torch.bfloat16)
        with torch.no_grad():
            layer(x, x, x, need_weights=False)

    scores = 4 * 8 * 512 * 512 * 2
    for version, widths in {"2.11": (36,), "2.13": ()}.items():
        for width in (32, 36, 40):
            assert (scores in taken_by(lambda gpu, d=8 * width: evaluated(gpu, d), version)[0]) == (width in widths)


def test_the_gradient_of_a_group_norm_lies_as_a_contiguous_input_in_2_14_and_as_its_copy_else():
    def of(version, shape, stride):
        found = []

        def norm(gpu):
            x = torch.empty_strided(shape, stride, device=gpu.device)
            out, mean, rstd = torch.ops.aten.native_group_norm(x, None, None, *shape[:2], 9, 2, 1e-5)
            given = torch.empty_like(x), x, mean, rstd, None, *shape[:2], 9, 2, [True, False, False]
            found.append(torch.ops.aten.native_group_norm_backward(*given)[0].stride())

        taken_by(norm, version)
        return found[0]

    last = (36, 1, 12, 4)
    assert [of(version, (3, 4, 3, 3), last) for version in ("2.14", "2.15")] == [(36, 9, 3, 1), last]


def test_the_least_and_the_largest_number_are_found_apart_in_2_11():
    def counted(gpu):
        torch.arange(1000, dtype=torch.int32, device=gpu.device).bincount()

    peaks = [taken_by(counted, v)[1].memory_stats()["requested_bytes.all.peak"] for v in ("2.11", "2.13")]
    assert peaks == [4000 + 8000, 4000 + 4 + 4 + 8000]


def test_rejections_are_counted_from_2_13_on():
    for version, is_counted in {"2.11": False, "2.13": True, "2.15": True}.items():
        _, gpu = taken_by(lambda gpu: None, version)
        assert ("num_oom_rejections" in gpu.memory_stats()) == is_counted
