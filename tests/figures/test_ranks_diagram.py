"""The diagrams of a block on ranks: what their boxes say is what the closed form of a rank gives."""

import re

import pytest
import torch
from diagrams import words
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

from every_byte.gpu.ranks import ranks
from every_byte.units import short
from utils.experiments import rank_steps
from utils.experiments.rank_steps import as_rank
from utils.figures.ranks_diagram import kept_of_models, placements, split_block, three_exchanges
from utils.formulas.tensor_parallel import rank_saved

LETTERS = dict(b=1, s=2048, d=12288, a=96, t=8, e=2)


FILLED = re.compile(r'class="eb-d-fill-[^"]+" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"')


@pytest.mark.parametrize(("panel", "placement"), [(0, Shard(0)), (1, Shard(1)), (2, Replicate())])
def test_a_rank_holds_what_a_dtensor_holds(panel, placement):
    drawn = FILLED.findall(placements().svg())
    assert len(drawn) == 3 * 4
    for rank, box in enumerate(drawn[4 * panel :][:4]):
        with ranks(4, rank) as mesh:
            weight = torch.arange(64).reshape(8, 8)
            own = distribute_tensor(weight, mesh, [placement], src_data_rank=None).to_local()
        first_row, first_column = divmod(own[0, 0].item(), 8)
        x, y, width, height = map(float, box)
        assert (width, height) == (84 * own.shape[1] / 8, 56 * own.shape[0] / 8)
        assert (x, y) == (66 + 93 * rank + 84 * first_column / 8, 54 + 96 * panel + 56 * first_row / 8)


def test_each_placement_is_explained():
    assert [text for text in words(placements()) if ":" in text] == [
        "Shard(0): each rank holds 2 of the 8 rows",
        "Shard(1): each rank holds 2 of the 8 columns",
        "Replicate(): each rank holds all of it",
    ]


def test_the_three_exchanges_end_as_they_should():
    found = words(three_exchanges())
    assert found.count("Σ") == 4
    assert [found.count(str(part)) for part in range(4)] == [5, 5, 5, 5]
    assert [f"Σ{part}" in found for part in range(4)] == [True] * 4
    assert [found.count(letter) for letter in "ABCD"] == [2, 2, 2, 2]


@pytest.mark.parametrize("changed", [{}, {"d": 1536, "a": 12}, {"b": 3, "t": 2}])
@pytest.mark.parametrize("sequence", [False, True])
def test_each_step_takes_what_the_closed_form_says(sequence, changed):
    letters = LETTERS | changed
    terms = rank_saved(attention="explicit", activation="gelu", sequence=sequence).by_term(**letters)
    said = [text.rpartition(": ")[2] for text in words(split_block(sequence=sequence, **letters)) if "iB" in text]
    names = ["norm1: input", "attention: input", "attention: q, k, v", "attention: output", "norm1: input"]
    names += ["norm2: input", "mlp: input", "mlp: activation input", "mlp: down input", "norm2: input"]
    assert said == [short(terms[name]) for name in names]


def test_what_is_whole_and_where_ranks_exchange():
    tensor, both = (split_block(sequence=sequence, **LETTERS) for sequence in (False, True))
    assert [sum(text.startswith("whole") for text in words(one)) for one in (tensor, both)] == [6, 2]
    assert [sum("reduce" in text or "gather" in text for text in words(one)) for one in (tensor, both)] == [2, 4]
    assert "6 of 10 steps take a whole tensor; between them, in order: all-reduce, all-reduce." in tensor.alt
    assert "2 of 10 steps" in both.alt
    assert words(both).count("1/8 of the positions: 6 MiB") == 4


def test_the_exchanges_are_those_of_a_run():
    for sequence in (False, True):
        step = as_rank(2, b=1, s=32, d=64, a=4, sequence=sequence)
        run = [name for phase, name, _ in step.exchanges if phase == "forward"]
        drawn = [text for text in words(split_block(sequence=sequence, **LETTERS)) if "reduce" in text or "gat" in text]
        assert drawn == run


def test_each_bar_is_as_long_as_what_is_kept():
    kept, room = rank_steps.kept_of_models(), 78 * 2**30
    diagram = kept_of_models(kept, ("80 GB", room))
    shown = [ways[way] for ways in kept.values() for way in ("tensor", "sequence", "selective")]
    widths = [float(width) for _, _, width, _ in FILLED.findall(diagram.svg())]
    assert widths == pytest.approx([270 * n_bytes / max(shown) for n_bytes in shown], rel=1e-4)
    assert [text for text in words(diagram) if re.fullmatch(r"[\d.]+", text)] == [f"{n / 2**30:.1f}" for n in shown]
    assert f'points="{138 + 270 * room / max(shown):g},22' in diagram.svg()
    assert "22B: tensor 59.2 GiB, sequence 39.6 GiB, selective 9.56 GiB" in diagram.alt
    larger = kept_of_models(kept, ("all", 2 * max(shown)))
    assert max(float(width) for _, _, width, _ in FILLED.findall(larger.svg())) == pytest.approx(135)


def test_a_model_without_one_of_the_ways_is_refused():
    with pytest.raises(KeyError, match="selective"):
        kept_of_models({"small": {"tensor": 2, "sequence": 1}}, ("80 GB", 1))
