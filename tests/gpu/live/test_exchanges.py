"""What FSDP2 gathers on a live GPU, and what it gives back: as on a simulated one, and nothing of anybody else's."""

import re

import pytest
import torch
import torch.distributed as dist

from every_byte.gpu.live.exchanges import EXCHANGES
from every_byte.gpu.live.gpu import LIVE, LiveGPU
from every_byte.gpu.patches.backward import watch
from utils.experiments.gpt_step import GPTStep
from utils.experiments.mesh_step import MeshStep
from utils.explorers.gallery import explorer

_FSDP = "torch.distributed.fsdp._fully_shard._fsdp_collectives"


class Listener:
    """In the place of a recording: hears what is noted of tensors."""

    def __init__(self):
        self.memory = self.observer = self
        self.heard: list[tuple[int, str]] = []
        self.forgotten: list[int] = []

    def is_watched(self):
        return True

    def note(self, tensor, category):
        self.heard.append((tensor.numel(), category))

    def forget(self, storage):
        self.forgotten.append(storage._cdata)


@pytest.fixture
def listener():
    listener = Listener()
    watch.append(listener)
    EXCHANGES.open()
    yield listener
    EXCHANGES.close()
    watch.remove(listener)


def of_fsdp(source, **names):
    """Run code as if it stood in FSDP2's own file."""
    exec(source, {"__name__": _FSDP, "torch": torch} | names)


def test_fsdp_s_own_calls_are_noted_and_no_others(listener):
    whole, parts = torch.arange(6.0), [torch.empty(2), torch.empty(4)]
    of_fsdp("torch.split_with_sizes_copy(whole, [2, 4], out=parts)", whole=whole, parts=parts)
    assert listener.heard == [(2, "gathered parameters"), (4, "gathered parameters")]
    assert torch.equal(parts[1], whole[2:])
    listener.heard.clear()
    torch.split_with_sizes_copy(whole, [2, 4], out=parts)
    assert listener.heard == []
    of_fsdp("out.append(torch._chunk_cat([whole], 0, 2))", whole=whole, out=(out := []))
    assert listener.heard == [(6, "gradients")]
    assert out[0].shape == (2, 3)


def test_a_storage_that_is_resized_is_forgotten(listener):
    storage = torch.empty(4).untyped_storage()
    storage.resize_(0)
    storage.resize_(16)
    assert listener.forgotten == [storage._cdata] * 2
    assert storage.nbytes() == 16


def test_it_all_is_put_back():
    names = [(torch, "split_with_sizes_copy"), (torch, "_chunk_cat"), (dist, "all_reduce")]
    names += [(torch.UntypedStorage, "resize_"), (dist, "all_gather_into_tensor"), (dist, "reduce_scatter_tensor")]
    before = [getattr(*name) for name in names]
    EXCHANGES.open()
    assert all(getattr(*name) is not one for name, one in zip(names, before, strict=True))
    EXCHANGES.close()
    assert [getattr(*name) for name in names] == before


SMALL = {"model": "gpt2", "b": 1, "s": 256, "n": 8}
MESHES = {
    "FSDP2": dict(t=1, stage="3", recompute="full", attention="flash", sequence="off"),
    "FSDP2, kept": dict(t=1, stage="3, weights kept", recompute="none", sequence="off"),
    "tensor parallel": dict(t=4, stage="none", recompute="none"),
    "both": dict(t=4, stage="3", recompute="selective"),
}


def is_old() -> bool:
    """A card without flash attention and bfloat16."""
    return torch.cuda.get_device_capability() < (8, 0)


@pytest.mark.gpu
@pytest.mark.parametrize("name", MESHES)
def test_a_rank_s_account_is_its_simulation_s(name):
    step = SMALL | MESHES[name] | ({"attention": "explicit"} if is_old() else {})
    measured = MeshStep(**step, gpu=LIVE).run()
    simulated = MeshStep(**step, gpu=LiveGPU().spec).run()
    assert (measured.trace.origin, simulated.trace.origin) == ("measured", "simulated")
    assert measured.account() == simulated.account()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["mlp", "block", "phases", "gpt", "checkpoint"])
def test_what_was_left_on_the_card_is_in_no_figure_of_an_explorer(name):
    view, left = explorer(name), torch.empty(5_000_000, device="cuda")
    settings = {symbol: control.default for symbol, control in view.controls.items() if not control.judges}
    settings |= {"gpu": LIVE, "beside": False}
    small = {"b": 2, "s": 128} if name in ("gpt", "checkpoint") else {}
    if name == "block" and is_old():
        small = {"dtype": torch.float32}
    beside_it = view.measure(settings | small)
    del left
    alone = view.measure(settings | small)
    assert alone.terms == beside_it.terms
    assert LEFT in beside_it.remark
    said = [
        re.sub(RESERVED, "reserved", remark.replace(LEFT, "").strip()) for remark in (beside_it.remark, alone.remark)
    ]
    assert said[0] == said[1]
    if alone.timeline is not None:
        one, other = (found.timeline.at(found.timeline.peak) | {"slack": 0} for found in (beside_it, alone))
        assert one == other, "slack depends on which blocks are free"


RESERVED = r"reserved [\d,]+ bytes \([\d.]+ [KMG]iB\)"
LEFT = "20,971,520 bytes (20 MiB) on this card are other tensors': no figure but reserved bytes counts them."


@pytest.mark.gpu
def test_what_was_left_on_the_card_is_not_the_program_s():
    left = torch.empty(5_000_000, device="cuda")
    step = dict(b=1, s=64)
    measured = GPTStep(**step, gpu=LIVE).run()
    simulated = GPTStep(**step, gpu=LiveGPU().spec).run()
    assert measured.trace.n_found >= 1
    assert measured.account() == simulated.account()
    del left
