"""What the two contexts count: the allocator's readings of a block, and the storages that autograd keeps."""

import gc
from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
from torch.nn.modules import module as torch_module
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils.checkpoint import checkpoint

from utils import MLP, AllocatedMemContext, SavedTensorContext, SimulatedGPU


class FakeGPU:
    """Counts one peak for its whole life, as an allocator does, and notes what is asked of it."""

    def __init__(self):
        self.stats = dict.fromkeys(["allocated", "current", "freed", "peak"], 0)
        self.calls = []

    def load_libraries(self):
        self.calls.append("load_libraries")
        self.malloc(1000)

    def malloc(self, size):
        self.stats["allocated"] += size
        self.stats["current"] += size
        self.stats["peak"] = max(self.stats["peak"], self.stats["current"])

    def free(self, size):
        self.stats["freed"] += size
        self.stats["current"] -= size

    def memory_stats(self):
        self.calls.append("memory_stats")
        return {f"allocated_bytes.all.{name}": size for name, size in self.stats.items()} | {"num_ooms": 0}


def readings(allocated, current, freed, peak):
    return {"allocated": allocated, "current": current, "freed": freed, "peak": peak}


class TestAllocatedMemContext:
    def test_three_tensors(self):
        with SimulatedGPU("a100-80gb") as gpu:
            with AllocatedMemContext() as mem:
                t1 = torch.ones(256, device=gpu.device)
                t2 = torch.ones(256, device=gpu.device)
                del t2
                t3 = torch.ones(256, device=gpu.device)
                del t3
            assert mem.delta == {"allocated": 3072, "current": 1024, "freed": 2048, "peak": 2048}
            assert mem.after["current"] == gpu.memory_allocated() == mem.before["current"] + t1.nbytes

    def test_libraries_are_loaded_before_the_first_reading(self):
        gpu = FakeGPU()
        with AllocatedMemContext(gpu) as mem:
            gpu.malloc(7)
        assert gpu.calls == ["load_libraries", "memory_stats", "memory_stats"]
        assert mem.before == readings(1000, 1000, 0, 1000)
        assert mem.delta == readings(7, 7, 0, 7)

    def test_a_workspace_is_not_part_of_the_block(self):
        with SimulatedGPU("a100-80gb") as gpu:
            x = torch.ones(2, 2, device=gpu.device)
            with AllocatedMemContext() as mem:
                x = x @ x
            assert mem.delta == readings(512, 0, 512, 512)

    def test_what_was_made_before_and_is_freed_inside_counts_as_freed(self):
        with SimulatedGPU("a100-80gb") as gpu:
            early = torch.ones(1024, device=gpu.device)
            with AllocatedMemContext() as mem:
                del early
            assert mem.delta == readings(0, -4096, 4096, 0)

    def test_nesting_and_loops(self):
        with SimulatedGPU("a100-80gb") as gpu:
            deltas = []
            with AllocatedMemContext() as outer:
                kept = torch.ones(256, device=gpu.device)
                for _ in range(3):
                    with AllocatedMemContext() as inner:
                        torch.ones(512, device=gpu.device)
                    deltas.append(inner.delta)
            assert deltas == [readings(2048, 0, 2048, 2048)] + 2 * [readings(2048, 0, 2048, 0)]
            assert outer.delta == readings(1024 + 3 * 2048, kept.nbytes, 3 * 2048, 1024 + 2048)

    def test_a_reset_gives_the_peak_of_the_block(self):
        with SimulatedGPU("a100-80gb") as gpu:
            torch.ones(2**20, device=gpu.device)
            gpu.reset_peak_memory_stats()
            with AllocatedMemContext() as mem:
                torch.ones(256, device=gpu.device)
            assert mem.delta["peak"] == 1024

    def test_the_innermost_gpu_is_read_unless_one_is_named(self):
        with SimulatedGPU("a100-80gb") as outer, SimulatedGPU("h100-80gb") as inner:
            with AllocatedMemContext() as of_inner, AllocatedMemContext(outer) as of_outer:
                torch.ones(256, device=inner.device)
            assert (of_inner.delta["current"], of_outer.delta["current"]) == (0, 0)
            assert (of_inner.delta["freed"], of_outer.delta["freed"]) == (1024, 0)

    def test_an_error_inside_is_passed_on_after_the_last_reading(self):
        gpu, mem = FakeGPU(), None

        def fail():
            gpu.malloc(7)
            raise KeyError("mine")

        mem = AllocatedMemContext(gpu)
        with pytest.raises(KeyError, match="mine"), mem:
            fail()
        assert mem.delta["current"] == 7
        with mem:  # and it can be used again
            pass
        assert mem.delta["current"] == 0

    def test_readings_are_copies(self):
        with AllocatedMemContext(FakeGPU()) as mem:
            mem.before["current"] = -1
        mem.after.clear()
        assert mem.delta == readings(0, 0, 0, 0)

    def test_too_early_and_twice_and_without_a_gpu(self):
        mem = AllocatedMemContext(FakeGPU())
        with pytest.raises(RuntimeError, match="`before` is known once the `with` block has begun"):
            _ = mem.before
        with mem:
            with pytest.raises(RuntimeError, match="`after` is known once the `with` block has ended: read it after"):
                _ = mem.after
            with pytest.raises(RuntimeError, match="`delta` is known once the `with` block has ended"):
                _ = mem.delta
            with pytest.raises(RuntimeError, match="this AllocatedMemContext is open already"):
                mem.__enter__()
        if not torch.cuda.is_available():
            with pytest.raises(RuntimeError, match="no GPU is open"):
                AllocatedMemContext().__enter__()


def hooks():
    installed = torch._C._autograd._top_saved_tensors_default_hooks(False)
    return installed, len(torch_module._global_forward_hooks), len(torch_module._global_forward_pre_hooks)


def leaf(*shape, device, **more):
    return torch.ones(*shape, device=device, requires_grad=True, **more)


class TestWhatIsCounted:
    def test_each_storage_counts_once(self, device):
        w, x = leaf(4, 6, device=device), leaf(3, 4, device=device)
        with SavedTensorContext() as saved:
            y = (x @ w) @ w.T  # w twice, once transposed
            q, k = y.split(2, dim=1)
            z = (q * k).relu()  # two pieces of one storage; the result
        assert saved.saved_tensor_mem == (w.numel() + x.numel() + 3 * 6 + y.numel() + z.numel()) * 4
        assert len(saved.saved_tensor_dict) > 5

    def test_a_small_view_keeps_its_whole_storage(self, device):
        x = leaf(1000, device=device)
        with SavedTensorContext() as saved:
            y = x[:3].sin()
        assert saved.saved_tensor_mem == 4000
        assert [row.shape for row in saved.rows(y)] == [(3,)]

    def test_in_place_operations(self, device):
        x = leaf(5, device=device)
        with SavedTensorContext() as saved:
            y = (x * 1).relu_().sigmoid_()  # both keep the one result; mul by a number keeps nothing
        assert saved.saved_tensor_mem == 20
        del y

    def test_ignored_storages_are_left_out_with_all_their_views(self, device):
        linear, x = nn.Linear(4, 6, device=device), leaf(3, 4, device=device)
        with SavedTensorContext() as all_of_it, SavedTensorContext(p for p in linear.parameters()) as saved:
            y = linear(x).sin()
        assert all_of_it.saved_tensor_mem - saved.saved_tensor_mem == linear.weight.nbytes
        assert {row.node for row in saved.rows(y)} == {"AddmmBackward0", "SinBackward0"}
        assert len(saved.rows(y)) == len(all_of_it.rows(y)) - 1

    def test_ignored_tensors_may_be_views_that_nobody_holds(self, device):
        x = leaf(5, device=device)
        for ignored in (x.detach(), [x[2:]], (t.data for t in [x])):
            with SavedTensorContext(ignored) as saved:
                y = x.sin()
            assert saved.saved_tensor_mem == 0
        del y

    def test_what_is_ignored_must_be_tensors(self):
        with pytest.raises(TypeError, match="ignored_tensors must hold tensors: got tuple; try model.parameters"):
            SavedTensorContext(MLP(4, "relu").named_parameters())

    def test_the_input_counts_though_it_is_not_new(self):
        with SimulatedGPU("a100-80gb") as gpu:
            x = leaf(1024, device=gpu.device)
            with AllocatedMemContext() as mem, SavedTensorContext() as saved:
                y = x.sin().sin().sum()
            assert saved.saved_tensor_mem == x.nbytes + 4096
            assert mem.delta["current"] == 4096 + 512  # sin(x), and the block of y
            del y

    def test_autocast_copies_are_storages_of_their_own(self):
        linear, x = nn.Linear(4, 6), torch.ones(3, 4, requires_grad=True)
        with SavedTensorContext([*linear.parameters(), x]) as saved, torch.autocast("cpu", torch.bfloat16):
            y = linear(x)
        assert saved.saved_tensor_mem == 2 * (4 * 6 + 3 * 4)
        del y

    def test_custom_functions_and_what_they_hide(self, device):
        class Double(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x.exp(), None)
                ctx.hidden = x.cos()
                return x * 2

            @staticmethod
            def backward(ctx, gradient):
                return gradient * 2

        with SavedTensorContext() as saved:
            y = Double.apply(leaf(5, device=device))
        assert saved.saved_tensor_mem == 20
        assert [(row.node, row.slot, row.shape) for row in saved.rows(y)] == [("DoubleBackward", "tensors[0]", (5,))]

    def test_sparse_and_wrapped_tensors(self):
        x = torch.ones(3, 2, requires_grad=True)
        sparse = torch.eye(3).to_sparse()
        with SavedTensorContext([x]) as saved:
            y = torch.sparse.mm(sparse, x)
        assert saved.saved_tensor_mem == 3 * 2 * 8 + 3 * 4  # row and column of three entries, and their values
        both = TwoTensor(torch.ones(5), torch.ones(5)).requires_grad_()
        with SavedTensorContext() as saved:
            y = both.sin()
        assert saved.saved_tensor_mem == 40
        del y

    def test_a_checkpointed_region_is_not_seen_nor_run_again(self):
        runs = []

        def region(x):
            runs.append(1)
            return x.sin().sin()

        x = torch.ones(5, requires_grad=True)
        with SavedTensorContext() as saved:
            y = checkpoint(region, x * 1, use_reentrant=False).exp()
        assert saved.saved_tensor_mem == 40  # the region's input, which the checkpoint keeps, and the result of exp
        assert [row.node for row in saved.rows(y)] == ["ExpBackward0"]
        assert len(runs) == 1
        y.sum().backward()
        assert len(runs) == 2


class TestLifetime:
    def test_it_falls_to_nothing_when_backward_frees_the_graph(self, device):
        x, linear = leaf(3, 4, device=device), nn.Linear(4, 4, device=device)
        with SavedTensorContext() as saved:
            y = linear(x).sin()
        assert saved.saved_tensor_mem == x.nbytes + linear.weight.nbytes + y.nbytes
        y.sum().backward(retain_graph=True)
        assert saved.saved_tensor_mem == x.nbytes + linear.weight.nbytes + y.nbytes
        y.sum().backward()
        assert saved.saved_tensor_mem == 0  # though x and the weight live on
        assert len(saved.saved_tensor_dict) == 0

    def test_it_falls_to_nothing_when_the_graph_is_deleted(self, device):
        x = leaf(5, device=device)
        with SavedTensorContext() as saved:
            y = x.sin()
        assert saved.saved_tensor_mem == 20
        del y
        assert saved.saved_tensor_mem == 0

    def test_it_keeps_nothing_alive_itself(self, device):
        x = leaf(1000, device=device)
        with SavedTensorContext([x]) as saved:
            y = x.exp()
            y = y.detach()
        assert saved.saved_tensor_mem == 0
        ignored = torch.ones(1000, device=device)
        storage = torch.multiprocessing.reductions.StorageWeakRef(ignored.untyped_storage())
        saved = SavedTensorContext([ignored])
        assert not storage.expired()
        del ignored
        assert storage.expired()

    def test_an_address_used_again_is_not_taken_for_an_ignored_storage(self, device):
        for _ in range(20):
            ignored = torch.ones(5, device=device)
            saved = SavedTensorContext([ignored])
            del ignored
            x = leaf(5, device=device)  # often where `ignored` was
            with saved:
                y = x.sin()
            assert saved.saved_tensor_mem == 20
            del x, y

    def test_gradients_are_those_without_it(self):
        def gradients(context):
            torch.manual_seed(0)
            mlp, x = MLP(4, "silu_"), torch.randn(3, 4, requires_grad=True)
            with context:
                loss = mlp(x).sin().square().sum()
            (first,) = torch.autograd.grad(loss, x, create_graph=True)
            return [first, *torch.autograd.grad(first.sum(), [x, mlp.up.weight])]

        for one, other in zip(gradients(nullcontext()), gradients(SavedTensorContext()), strict=True):
            assert torch.equal(one, other)

    def test_graphs_leave_no_cycles(self):
        gc.collect()
        gc.disable()
        try:
            x = torch.ones(5, requires_grad=True)
            with SavedTensorContext() as saved:
                y = MLP(5, "relu")(x).exp()
            del y
            assert saved.saved_tensor_mem == 0
        finally:
            gc.enable()


class TestNesting:
    def test_both_see_the_inner_block(self, device):
        x = leaf(5, device=device)
        with SavedTensorContext() as outer:
            y = x.exp()
            with SavedTensorContext() as inner:
                z = x.exp()
            u = x.exp()
        assert (outer.saved_tensor_mem, inner.saved_tensor_mem) == (60, 20)
        assert len(inner.rows(z)) == len(outer.rows(z)) == 1
        assert inner.rows(y) == []
        (y + z + u).sum().backward()
        assert (outer.saved_tensor_mem, inner.saved_tensor_mem) == (0, 0)

    def test_used_twice_and_in_a_loop(self, device):
        x, kept = leaf(5, device=device), []
        saved = SavedTensorContext()
        for count in (1, 2, 3):
            with saved:
                kept.append(x.exp())
            assert saved.saved_tensor_mem == 20 * count
        assert [row.shape for row in saved.rows(kept)] == 3 * [(5,)]
        del kept[1]
        assert saved.saved_tensor_mem == 40

    def test_inside_other_hooks_these_go_on_working(self):
        x, calls = torch.ones(5, requires_grad=True), []
        with save_on_cpu(), SavedTensorContext() as saved:
            y = x.exp()
        assert saved.saved_tensor_mem == 0  # they kept something else
        y.sum().backward()
        assert torch.equal(x.grad, y.detach())
        with saved_tensors_hooks(lambda t: calls.append("pack") or t, lambda t: calls.append("unpack") or t), saved:
            z = x.exp()
        assert saved.saved_tensor_mem == 20
        z.sum().backward()
        assert calls == ["pack", "unpack"]
        assert saved.saved_tensor_mem == 0

    def test_inside_a_checkpointed_region_recomputation_goes_on_working(self):
        def region(x):
            with SavedTensorContext():
                return x.sin().exp()

        x = torch.full((5,), 0.5, requires_grad=True)
        checkpoint(region, x, use_reentrant=False).sum().backward()
        assert torch.allclose(x.grad, x.sin().exp() * x.cos())

    def test_other_hooks_inside_take_over(self):
        x = torch.ones(5, requires_grad=True)
        with SavedTensorContext() as saved:
            with save_on_cpu():
                y = x.exp()
            z = x.exp()
        assert saved.saved_tensor_mem == 20
        assert [row.storage_bytes for row in saved.rows([y, z])] == [20]

    def test_an_error_inside_leaves_nothing_installed(self):
        before, saved = hooks(), SavedTensorContext()

        def fail():
            assert hooks() != before
            raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"), saved:
            fail()
        assert hooks() == before
        with saved:
            with pytest.raises(RuntimeError, match="this SavedTensorContext is open already"):
                saved.__enter__()
        assert hooks() == before

    def test_an_error_on_entry_leaves_nothing_installed(self):
        before, saved = hooks(), SavedTensorContext()
        with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
            with pytest.raises(RuntimeError, match="not here"):
                saved.__enter__()
        assert hooks() == before
        with saved:
            pass
