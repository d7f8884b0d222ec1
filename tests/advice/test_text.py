"""What advice says: a row for each run, the lines to write, what was not run, and one recommendation."""

import re

import pytest

from every_byte.advice.advice import (
    HEAD,
    Advice,
    exactness,
    html_of,
    more_flops,
    recommendation,
    rows,
    sizes,
    text_of,
    title,
)
from every_byte.advice.largest import Largest
from every_byte.advice.remedy import Changed, Left, Remedy
from every_byte.advice.runs import Bench, Ran
from every_byte.gpu.memory.specs import find_spec

MiB = 2**20
HOSTILE = "</pre><script>alert(1)</script>"


def ran(name: str = "", *, peak: int, flops: int = 1000, lines: str = "", note: str = "", keeps: bool = True,
        fits: bool = True, is_exact: bool = True) -> Ran:  # fmt: skip
    """A run, as if it had been; of remedies with these names, with a plus between them; bfloat16 is a precision."""
    remedies = tuple(
        Remedy(one, "precision" if one == "bfloat16" else one, lambda step: Changed(step, ""), note, keeps)
        for one in name.split(" + ") if one
    )  # fmt: skip
    return Ran(remedies, None, "", lines, peak, peak + 2 * MiB, 64 * MiB, fits, flops, is_exact)


def advice(plain: Ran, *runs: Ran, left: tuple[Left, ...] = (), of_sizes: tuple = ()) -> Advice:
    return Advice(Bench(find_spec("t4-16gb"), 64 * MiB, 2, ""), plain, runs, left, of_sizes)


PLAIN = ran(peak=80 * MiB, fits=False)
CHECKPOINTS = ran("checkpoints", peak=50 * MiB, flops=1250, lines="a = 1\n\nb = 2", note="forward runs twice")
HALF = ran("bfloat16", peak=40 * MiB, flops=1000, lines="model.bfloat16()", keeps=False)
BOTH = ran("checkpoints + bfloat16", peak=30 * MiB, flops=1250, lines="a = 1\nb = 2\nmodel.bfloat16()", keeps=False)


def test_a_title_says_that_it_is_simulated_and_in_what_room():
    assert title(advice(PLAIN)) == (
        "Simulated: 2 steps with each remedy, on t4-16gb; segments may take 67,108,864 bytes (64 MiB)."
    )


def test_rows_are_in_order_of_their_peaks_with_the_plain_one_among_them():
    found = rows(advice(PLAIN, CHECKPOINTS, HALF, ran("worse", peak=81 * MiB)))
    assert [row[0] for row in found] == ["bfloat16", "checkpoints", "plain", "worse"]
    assert {len(row) for row in found} == {len(HEAD)}
    assert dict(zip(HEAD, found[1])) == {
        "remedy": "checkpoints", "statements": "2", "numbers": "the same", "FLOPs": "+25.0%",
        "peak allocated, bytes": "52,428,800", "difference": "-31,457,280", "segments need": "54,525,952",
        "fits": "yes",
    }  # fmt: skip
    assert found[2] == ["plain", "", "", "1e+03", "83,886,080", "", "85,983,232", "no"]
    assert found[0][2] == "others"
    assert found[3][5] == "+1,048,576"


@pytest.mark.parametrize(
    ("flops", "of_plain", "said"),
    [(1250, 1000, "+25.0%"), (1000, 1000, "+0.0%"), (900, 1000, "-10.0%"), (5, 0, "none")],
)
def test_more_flops(flops, of_plain, said):
    assert more_flops(ran("x", peak=1, flops=flops), ran(peak=1, flops=of_plain)).startswith(said)


def test_the_plain_step_has_its_flops():
    assert more_flops(PLAIN, PLAIN) == "1e+03"
    assert more_flops(one := ran(peak=1, flops=123_456_789), one) == "1.23e+08"


# ---- the recommendation


def test_as_it_is():
    fitting = ran(peak=10 * MiB, flops=1000)
    assert recommendation(advice(fitting, CHECKPOINTS)) == "It fits in 64 MiB as it is."


def test_none_fits():
    lower = ran("checkpoints", peak=70 * MiB, fits=False)
    said = recommendation(advice(PLAIN, lower))
    assert said == "None of these fits in 64 MiB; the lowest peak, 70 MiB, has checkpoints."


def test_what_keeps_the_numbers_comes_first_and_flops_are_no_price_across_precisions():
    assert recommendation(advice(PLAIN, CHECKPOINTS, HALF, BOTH)) == (
        "The cheapest that fits in 64 MiB with the same numbers: checkpoints (+25.0% FLOPs, 2 statements, 50 MiB). "
        "With other numbers: bfloat16 (1 statement, 40 MiB)."
    )
    assert recommendation(advice(PLAIN, CHECKPOINTS)) == (
        "The cheapest that fits in 64 MiB with the same numbers: checkpoints (+25.0% FLOPs, 2 statements, 50 MiB)."
    )
    assert recommendation(advice(PLAIN, HALF)) == (
        "With the same numbers none of these fits in 64 MiB. With other numbers: bfloat16 (1 statement, 40 MiB)."
    )
    eight_bit = ran("8-bit", peak=60 * MiB, lines="a = 1", keeps=False)
    assert recommendation(advice(PLAIN, eight_bit)).endswith("8-bit (+0.0% FLOPs, 1 statement, 60 MiB).")


def test_where_the_plain_step_fits_nothing_that_changes_the_numbers_is_recommended():
    fitting = ran(peak=10 * MiB, flops=1000)
    cheaper = ran("bfloat16", peak=5 * MiB, flops=900, lines="model.bfloat16()", keeps=False)
    found = advice(fitting, cheaper, CHECKPOINTS)
    assert found.best is found.best_of_same_values is fitting
    said = "It fits in 64 MiB as it is."
    assert recommendation(found) == said
    assert text_of(found).split("\n\n")[1] == said
    assert html_of(found).startswith(f"<p>{said}</p>")
    assert "cheapest" not in text_of(found) + html_of(found)


# ---- what is not exact, and sizes


def test_figures_that_are_not_exact_are_counted():
    approximate = ran("x", peak=1, is_exact=False)
    assert exactness(advice(PLAIN, CHECKPOINTS)) == ""
    assert exactness(advice(PLAIN, approximate)).startswith("The figures of 1 run may not be to the byte: ")
    assert exactness(advice(approximate, approximate)).startswith("All figures may not be to the byte: ")


def test_sizes_have_a_line_each():
    found = (
        ("plain", Largest("b", 3, 4, 1, {3: True, 4: False})),
        ("checkpoints", Largest("s", 0, 8, 8, {8: False})),
    )
    assert sizes(advice(PLAIN, of_sizes=found)).split("\n") == [
        "plain: simulated: b=3 fits, b=4 does not (2 values run)",
        "checkpoints: simulated: not even s=8 fits (1 value run)",
    ]
    assert sizes(advice(PLAIN)) == ""


# ---- the whole


def test_the_text_has_its_blocks_in_order():
    left = (Left("the loss in chunks", "the model returns no logits"),)
    found = (("plain", Largest("b", 3, 4, 1, {3: True, 4: False})),)
    blocks = text_of(advice(PLAIN, CHECKPOINTS, HALF, BOTH, left=left, of_sizes=found)).split("\n\n")
    assert blocks[0].startswith("Simulated: ")
    assert blocks[1].split("\n")[0].split() == " ".join(HEAD).split()
    assert blocks[2] == "plain: simulated: b=3 fits, b=4 does not (2 values run)"
    assert blocks[3].startswith("The cheapest that fits in 64 MiB with the same numbers: checkpoints (")
    assert "\n\n".join(blocks[4:6]) == "checkpoints: forward runs twice\n    a = 1\n\n    b = 2"
    assert blocks[6] == "bfloat16\n    model.bfloat16()"  # of several together the lines are those of each
    assert blocks[7] == "Not run:\n- the loss in chunks: the model returns no logits"
    assert len(blocks) == 8


def test_a_notebook_shows_the_same_and_folds_the_lines():
    left = (Left("the loss in chunks", "the model returns no logits"),)
    page = html_of(advice(PLAIN, CHECKPOINTS, HALF, BOTH, left=left))
    assert page.count("<details>") == 2
    assert "<summary>checkpoints: forward runs twice</summary><pre>a = 1\n\nb = 2</pre>" in page
    assert "<li>the loss in chunks: the model returns no logits</li>" in page
    assert "<p>The cheapest that fits in 64 MiB with the same numbers: checkpoints (+25.0% FLOPs" in page
    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", page)
    assert [cell for row in rows(advice(PLAIN, CHECKPOINTS, HALF, BOTH)) for cell in row] == cells[-32:]
    assert "Not run" not in html_of(advice(PLAIN, CHECKPOINTS))


def test_what_a_reader_has_written_is_text():
    """Module names and code come from the reader's own model."""
    hostile = ran(HOSTILE, peak=MiB, lines=f"# {HOSTILE}", note=HOSTILE)
    page = html_of(advice(PLAIN, hostile, left=(Left(HOSTILE, HOSTILE),), of_sizes=((HOSTILE, HOSTILE),)))
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 6
