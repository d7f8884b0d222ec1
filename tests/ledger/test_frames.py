"""What the call stack of an allocation says: the operator as PyTorch registers it, autograd's node, the thread."""

import pytest

from every_byte.ledger.frames import Maker, maker_of, operators_and_node

ALLOCATOR = "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::malloc(void**, signed char)"
AUTOGRAD = "torch::autograd::VariableType::(anonymous namespace)::some(c10::DispatchKeySet)"
ENGINE = "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)"
STACKS = {
    "an operator below autograd": (
        ["op empty_memory_format call", "op _to_copy redispatch", AUTOGRAD, "op _to_copy call", "op to_dtype call"],
        Maker("aten::_to_copy"),
    ),
    "a mode of the program's own, which calls the operator again": (
        [
            "op empty_memory_format call",
            "boxed wrapper_CUDA__native_layer_norm",
            "c10::Dispatcher::callBoxed(c10::OperatorHandle const&, std::vector<c10::IValue>*) const",
            "(anonymous namespace)::pythonFallback(c10::OperatorHandle const&, c10::DispatchKeySet)",
            "op layer_norm call",
        ],
        Maker("aten::native_layer_norm"),
    ),
    "a kernel with its overload behind its name": (
        ["boxed wrapper_CUDA_add_Tensor", "(anonymous namespace)::pythonFallback(c10::OperatorHandle const&)"],
        Maker("aten::add.Tensor"),
    ),
    "an overload": (["op add_Tensor redispatch", "op add_Tensor call"], Maker("aten::add.Tensor")),
    "a node of backward": (
        [
            "op empty_like call",
            "op nll_loss_backward redispatch",
            "torch::autograd::generated::NllLossBackward0::apply(std::vector<at::Tensor>&&)",
            ENGINE,
            "start_thread",
        ],
        Maker("aten::nll_loss_backward", "NllLossBackward0"),
    ),
    "autograd itself, within another backward's node": (
        ["op sum_dim_IntList call", ENGINE, "torch::autograd::PyNode::apply(std::vector<at::Tensor>&&)", ENGINE],
        Maker("aten::sum.dim_IntList"),
    ),
    "what autocast casts": (
        ["op _to_copy call", "at::autocast::cached_cast(c10::ScalarType, at::Tensor const&)", "op mm call"],
        Maker("aten::_to_copy", is_cast=True),
    ),
    "a workspace": (
        ["at::cuda::getCurrentCUDABlasHandle(bool)", "op mm redispatch"],
        Maker("aten::mm", name="cuBLAS workspace"),
    ),
    "cuBLASLt's": (
        ["at::cuda::getCUDABlasLtWorkspace()", "op addmm call"],
        Maker("aten::addmm", "", "cuBLAS workspace"),
    ),
    "another thread": (["op ones call", "_bootstrap"], Maker("aten::ones", is_elsewhere=True)),
    "no operator": (["my_extension(int)"], Maker()),
}


@pytest.mark.parametrize("name", STACKS)
def test_of_several_the_outermost_that_is_not_composed(name):
    names, expected = STACKS[name]
    found = [ALLOCATOR, *(_frame(name) for name in names)]
    assert maker_of({"name": name} for name in found) == expected


def test_all_operators_innermost_first():
    frames = [{"name": _frame(name)} for name in ("op empty call", "op mm redispatch", "op mm call")]
    assert operators_and_node(frames) == (["empty", "mm"], "")


def _frame(name: str) -> str:
    """ "op mm call" as C++ names it, and "boxed wrapper_CUDA_mm"."""
    kind, _, rest = name.partition(" ")
    if kind == "boxed":
        pointer = f"c10::CompileTimeFunctionPointer<at::Tensor (at::Tensor const&), &at::(anonymous namespace)::{rest}>"
        functor = f"c10::impl::detail::WrapFunctionIntoFunctor_<{pointer}, at::Tensor, c10::guts::typelist<> >"
        return f"c10::impl::make_boxed_from_unboxed_functor<{functor}, false>::call(c10::OperatorKernel*)"
    return f"at::_ops::{rest.replace(' ', '::')}(at::Tensor const&)" if kind == "op" else name
