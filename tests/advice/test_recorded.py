"""Each item of the advice about three models has the peak that PyTorch's CUDA build has, to the byte."""

import json
from importlib.util import find_spec

import pytest
from advised import BUDGETS, MODELS
from places import REFERENCE

from every_byte.advice.remedy import Remedy
from every_byte.advice.runs import quiet
from every_byte.advice.search import bench_of, offers

FOLDER = REFERENCE / "2.13.0" / "advice"
GPU = "a100-80gb"
RECORDED = {model: json.loads((FOLDER / f"{model}.a100.json").read_text(encoding="utf-8")) for model in MODELS}
_ITEMS = [(model, item) for model in MODELS for item in RECORDED[model]["peak_bytes"]]
_NEEDS_TRANSFORMERS = pytest.mark.skipif(find_spec("transformers") is None, reason="transformers is not installed")
ITEMS = [
    pytest.param(*one, marks=[pytest.mark.nightly, _NEEDS_TRANSFORMERS] if one[0] == "llama" else []) for one in _ITEMS
]


def test_all_models_are_recorded_and_remedies_of_each_kind():
    for model in MODELS:
        items = RECORDED[model]["peak_bytes"]
        assert len(items) > 15
        assert any(" + " in item for item in items)
        assert {"plain", "AdamW, 8-bit", "step in backward", "2 micro-batches", "all in bfloat16"} <= items.keys()
        assert any("selective" in item for item in items)


@pytest.mark.long
@pytest.mark.sampled(6, slow=True)
@pytest.mark.parametrize(("model", "item"), ITEMS)
@pytest.mark.filterwarnings("ignore:aten..cudnn_batch_norm:UserWarning", "ignore:aten..convolution:UserWarning")
def test_an_item_peaks_as_recorded(model, item):
    with quiet():
        step = MODELS[model](GPU).step
        bench = bench_of(GPU, 2, "", BUDGETS[model])
        offered = {one.name: one for one in offers(step, bench) if isinstance(one, Remedy)}
        names = [] if item == "plain" else item.split(" + ")
        ran = bench.run(step, tuple(offered[name] for name in names), counts=False)
    assert ran.peak_bytes == RECORDED[model]["peak_bytes"][item]
