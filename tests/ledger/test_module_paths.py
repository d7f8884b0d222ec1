"""Module paths: which module runs, and which made a node, also after errors, in recomputation and on other threads."""

import gc
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.nn.modules import module as torch_module
from torch.utils.checkpoint import checkpoint

from every_byte.ledger.module_paths import ModulePaths, plain_path


class Probe(nn.Module):
    """Writes down where it is."""

    def __init__(self, paths, seen, then=None):
        super().__init__()
        self.paths, self.seen, self.then = paths, seen, then

    def forward(self, x):
        self.seen.append(self.paths.current)
        if self.then:
            self.then()
        return x.sin()


class Caller(nn.Module):
    """Calls modules that it holds in a list, where named_modules does not find them."""

    def __init__(self, hidden):
        super().__init__()
        self.hidden = [hidden]

    def forward(self, x):
        return self.hidden[0](x)


@pytest.fixture
def paths():
    return ModulePaths()


def hooks():
    return len(torch_module._global_forward_hooks), len(torch_module._global_forward_pre_hooks)


def test_paths_are_those_of_named_modules(paths):
    seen = []
    model = nn.Sequential(Probe(paths, seen), nn.ModuleDict({"mlp": nn.Sequential(Probe(paths, seen))})["mlp"])
    with paths:
        assert paths.current == ""
        model(torch.ones(1))
        assert paths.current == ""
    assert seen == ["0", "1.0"]
    assert seen == [name for name, part in model.named_modules() if isinstance(part, Probe)]


def test_the_root_itself_is_empty_and_each_root_names_its_own(paths):
    seen = []
    probe = Probe(paths, seen)
    with paths:
        nn.Sequential(nn.Sequential(probe))(torch.ones(1))
        nn.Sequential(probe)(torch.ones(1))
        probe(torch.ones(1))
    assert seen == ["0.0", "0", ""]


def test_a_module_under_two_names_has_the_first(paths):
    seen = []
    probe = Probe(paths, seen)
    with paths:
        nn.Sequential(probe, nn.Identity(), probe)(torch.ones(1))
    assert seen == ["0", "0"]


def test_a_module_without_a_name_is_called_by_its_class(paths):
    seen = []
    with paths:
        nn.Sequential(Caller(Probe(paths, seen)))(torch.ones(1))
        Caller(Probe(paths, seen))(torch.ones(1))
    assert seen == ["0.<Probe>", "<Probe>"]


def test_what_a_wrapper_wraps_is_the_root_itself(paths):
    class Compiled(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self._orig_mod = inner

        def forward(self, x):
            return self._orig_mod(x)

    seen = []
    with paths:
        Compiled(Probe(paths, seen))(torch.ones(1))
    assert seen == [""]


def test_nodes_belong_to_the_innermost_module_that_made_them(paths):
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Sigmoid(), nn.Tanh()))
    with paths:
        x = torch.ones(3, 2, requires_grad=True).exp()
        y = model(x)
        z = y.sin()
    assert (paths.of_node(z.grad_fn), z.grad_fn.name()) == ("", "SinBackward0")
    tanh = y.grad_fn
    sigmoid = tanh.next_functions[0][0]
    linear = sigmoid.next_functions[0][0]
    assert [paths.of_node(node) for node in (tanh, sigmoid, linear, x.grad_fn)] == ["1.1", "1.0", "0", ""]
    accumulator = next(n for n, _ in linear.next_functions if n and n.name().endswith("AccumulateGrad"))
    assert paths.of_node(accumulator) == ""
    before = torch.ones(1, requires_grad=True) * 2
    assert paths.of_node(before.grad_fn) == ""


def test_the_module_that_calls_others_owns_what_it_does_between(paths):
    class Between(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sigmoid()

        def forward(self, x):
            return self.inner(x.cos()).tan()

    with paths:
        y = nn.Sequential(Between())(torch.ones(1, requires_grad=True))
    tan = y.grad_fn
    sigmoid = tan.next_functions[0][0]
    assert [paths.of_node(n) for n in (tan, sigmoid, sigmoid.next_functions[0][0])] == ["0", "0.inner", "0"]


def test_nodes_made_before_it_was_opened_have_no_path(paths):
    early = nn.Sequential(nn.Sigmoid())(torch.ones(1, requires_grad=True))
    with paths:
        nn.Sequential(nn.Sigmoid())(torch.ones(1, requires_grad=True))
    assert paths.of_node(early.grad_fn) == ""


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_inside_leaves_no_path_behind(paths, error):
    def fail():
        raise error

    seen = []
    with paths:
        with pytest.raises(error):
            nn.Sequential(nn.Sequential(Probe(paths, [], fail)))(torch.ones(1))
        assert paths.current == (
            "" if issubclass(error, Exception) else "0.0"
        )  # an interrupt is noticed at the next call
        nn.Sequential(nn.Identity(), Probe(paths, seen))(torch.ones(1))
        assert paths.current == ""
    assert seen == ["1"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_a_module_whose_forward_was_interrupted_can_go(paths, error):
    def fail():
        raise error

    model = nn.Sequential(nn.Sequential(Probe(paths, [], fail)))
    seen = weakref.ref(model)
    with paths:
        with pytest.raises(error) as caught:
            model(torch.ones(1))
        del model, caught
        gc.collect()
        assert seen() is None


def test_it_leaves_no_hooks_behind(paths):
    before = hooks()

    def enter_and_fail():
        with paths:
            assert hooks() == (before[0] + 1, before[1] + 1)
            raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it is raised just above
        enter_and_fail()
    assert hooks() == before
    with paths:
        with pytest.raises(RuntimeError, match="this ModulePaths is open already"):
            paths.__enter__()
        assert hooks() == (before[0] + 1, before[1] + 1)
    assert hooks() == before


def test_two_can_be_open(paths):
    seen, seen_inside = [], []
    inner = ModulePaths()
    model = nn.Sequential(Probe(paths, seen), Probe(inner, seen_inside))
    with paths:
        with inner:
            model(torch.ones(1))
        model(torch.ones(1))
    assert seen == ["0", "0"]
    assert seen_inside == ["1", ""]


def test_a_module_that_was_never_entered_does_not_end_its_caller(paths):
    class Careful(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Sigmoid()

        def forward(self, x):
            with pytest.raises(KeyError):
                self.inner(x)
            seen.append(paths.current)
            return x

    def refuse(module, _args):
        if isinstance(module, nn.Sigmoid):
            raise KeyError

    seen = []
    handle = torch_module.register_module_forward_pre_hook(refuse)  # runs before the hook of `paths`
    try:
        with paths:
            nn.Sequential(Careful())(torch.ones(1))
    finally:
        handle.remove()
    assert seen == ["0"]


def test_an_accumulator_has_no_path_while_a_module_runs_either(paths):
    accumulator = (torch.ones(1, requires_grad=True) * 2).grad_fn.next_functions[0][0]
    found = []
    with paths:
        nn.Sequential(Probe(paths, [], lambda: found.append(paths.of_node(accumulator))))(torch.ones(1))
    assert found == [""]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_what_a_checkpoint_runs_again_keeps_its_name(paths, use_reentrant):
    class Checkpointed(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=use_reentrant)

    seen = []
    one = Checkpointed(Probe(paths, seen))
    two = Checkpointed(nn.Sequential(Probe(paths, seen)))
    with paths:
        y = nn.Sequential(one, two)(torch.ones(1, requires_grad=True))
        nn.Sequential(nn.Identity())(y)  # another root, which knows none of them
        y.backward()
    assert seen == ["0.inner", "1.inner.0", "1.inner.0", "0.inner"]


def test_each_thread_has_its_own_path(paths):
    seen = []

    def run_another():
        other = nn.Sequential(nn.Sequential(Probe(paths, seen)))
        thread = threading.Thread(target=other, args=(torch.ones(1),))
        thread.start()
        thread.join()
        seen.append(paths.current)

    with paths:
        nn.Sequential(nn.Identity(), Probe(paths, seen, run_another))(torch.ones(1))
    assert seen == ["1", "0.0", "1"]


def test_it_remembers_a_bounded_number_of_changes(paths, monkeypatch):
    monkeypatch.setattr(ModulePaths, "REMEMBERED", 10)
    model = nn.Sequential(nn.Sigmoid(), nn.Tanh())
    with paths:
        outputs = [model(torch.ones(1, requires_grad=True)) for _ in range(50)]
        assert len(paths._thread.starts) == len(paths._thread.paths) <= 20
    found = [paths.of_node(y.grad_fn) for y in outputs]
    assert set(found) == {"", "1"}
    assert found == sorted(found)
    assert found[-3:] == ["1"] * 3


def test_what_runs_again_is_told_from_what_asks_for_a_gradient(paths):
    found = []
    probe = Probe(paths, [], lambda: found.append((paths.depth, paths.runs_again)))
    x = torch.ones(1, requires_grad=True)
    with paths:
        y = checkpoint(nn.Sequential(probe), x, use_reentrant=False)
        y.backward()
        assert paths.depth == 0
    assert found == [(2, False), (2, True)]


def test_what_wraps_a_module_is_no_part_of_its_path(paths):
    seen: list[str] = []
    inner = nn.Sequential(nn.Identity(), Probe(paths, seen, lambda: None))

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self._orig_mod = nn.Sequential(inner)

        def forward(self, x):
            return self._orig_mod(x)

    with paths:
        Wrapped()(torch.ones(1))
    assert seen == ["0.1"]
    assert plain_path("blocks.0._checkpoint_wrapped_module.mlp") == "blocks.0.mlp"
    assert plain_path("my_orig_mod.mlp") == "my_orig_mod.mlp"
