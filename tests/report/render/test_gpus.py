"""Which GPUs a report's text names: of thirty, those around the size that the run needs."""

import re
from dataclasses import replace

import pytest
from reported import mlp, of_an_mlp, reported

from every_byte.gpu.memory.specs import SPECS
from every_byte.report.fits import Fits, Verdict
from every_byte.report.render import gpus
from every_byte.units import GiB


def found(needed_bytes: int, own: str = "a100-80gb") -> Fits:
    """As if a run needed so much."""
    specs = [SPECS[own], *(spec for spec in SPECS.values() if spec.name != own and spec.compiled_for)]
    verdicts = (
        Verdict(
            spec.name, spec.device_name, spec.total_bytes, spec.context_bytes, spec.allocator_bytes,
            spec.capability == SPECS[own].capability, needed_bytes, needed_bytes, needed_bytes <= spec.allocator_bytes,
        )
        for spec in specs
    )  # fmt: skip
    return Fits(tuple(verdicts), "what it asked for")


def names(found: Fits, *, fit: bool) -> list[str]:
    return [one.gpu for one in gpus.named(found, fit=fit)[0]]


def test_of_thirty_cards_those_next_to_what_is_needed():
    fits = found(20 * GiB)
    assert names(fits, fit=True) == ["a100-80gb", "rtx3090-24gb", "rtx5090-32gb", "a100-40gb", "l40s-48gb"]
    assert names(fits, fit=False) == ["t4-16gb", "rtx4070ti-12gb", "rtx3080-10gb"]
    assert gpus.named(fits, fit=True)[1] + 5 + gpus.named(fits, fit=False)[1] + 3 == len(fits.verdicts)


@pytest.mark.parametrize("own", ["a100-80gb", "rtx3060-12gb", "h200-141gb", "b300-288gb"])
@pytest.mark.parametrize("gib", [0, 1, 9.5, 11, 15, 23, 31, 44, 79, 90, 130, 178, 260, 300])
def test_own_first_and_the_nearest_on_either_side(own, gib):
    fits = found(int(gib * GiB), own)
    for fit in (True, False):
        shown, n_more = gpus.named(fits, fit=fit)
        of_it = [one for one in fits.verdicts if one.fits == fit]
        assert len(shown) + n_more == len(of_it)
        assert (fits.own in shown) == (fits.own.fits == fit)
        assert not shown or fits.own not in shown or shown[0] is fits.own
        assert len(shown) <= 5
        nearest = (min if fit else max)(of_it, key=lambda one: one.room_bytes, default=None)
        sizes = {one.gpu.rsplit("-", 1)[1] for one in shown}
        assert nearest is None or nearest.gpu.rsplit("-", 1)[1] in sizes


def test_of_one_size_the_card_of_the_runs_own_architecture():
    assert "rtx4060ti-16gb" in names(found(13 * GiB, "rtx4090-24gb"), fit=True)
    assert "t4-16gb" in names(found(13 * GiB), fit=True)


def test_the_text_is_short_and_the_page_and_the_figures_have_all():
    report = of_an_mlp()
    line = next(line for line in re.split(r"\n(?=[A-Z*])", repr(report)) if line.startswith("Fits on a100-80gb ("))
    assert len(line) < 300
    assert re.search(r" and\s\d+\smore\.$", line.strip())
    n_all = sum(bool(spec.compiled_for) for spec in SPECS.values())
    assert len(report.to_json()["fits"]["gpus"]) == n_all
    shown = report.html()
    assert sum(f">{name}" in shown for name in SPECS) == n_all


def test_a_card_of_ones_own_has_a_size_of_its_own():
    report = reported(mlp, 3, gpu=replace(SPECS["t4-16gb"], name="half a T4", total_bytes=8 * GiB))
    assert names(report.fits, fit=True)[0] == "half a T4"
