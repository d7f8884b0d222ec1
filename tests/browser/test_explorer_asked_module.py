"""An explorer whose formula comes with the answer, in a bare page: what it predicts, with and without one."""

import pytest
from bare_page import draw, redraw, settle, state

from every_byte.formula.formula import Formula, Term
from every_byte.widget import Account, Control, Explorer, Limit

FIGURES = """() => [...document.querySelectorAll("tr[data-stage]")].map(
  ({ dataset: { stage, term, predicted, accounted } }) => [stage, term ?? "", predicted ?? null, accounted ?? null],
)"""


def asked(limits=None):
    """Of two stages, which hold b numbers of 2 or 4 bytes, and twice as many."""

    def formula(settings):
        n = settings["b"] * settings["each"]  # a letter of no control: the kernel alone knows
        return {
            name: Formula("", (Term("activations", f"{times}*{n}", 1, why="kept"),))
            for name, times in (("forward", 1), ("backward", 2))
        }

    def measure(settings):
        n = settings["b"] * settings["each"]
        return Account({"forward": {"activations": n}, "backward": {"activations": 2 * n}})

    return Explorer(
        title="Asked",
        controls=[
            Control.range("b", "batch", 1, 8, value=4),
            Control.choice("each", "each", {"two": 2, "four": 4}),
        ],
        formula=formula,
        measure=measure,
        limits=limits,
        formula_of_each=True,
    )


def test_it_predicts_what_the_answer_brings(page):
    view = draw(page, state(asked(), each=4))
    settle(page)
    assert page.evaluate(FIGURES) == [
        ["forward", "", "16", "16"],
        ["forward", "activations", "16", "16"],
        ["backward", "", "32", "32"],
        ["backward", "activations", "32", "32"],
    ]
    assert view.status.startswith("Predicted and simulated agree in every term of every stage.")


def test_until_the_answer_is_there_nothing_is_predicted(page):
    spec, value, answer = state(asked())
    draw(page, [spec, value, answer])
    redraw(page, [spec, value | {"b": 8}, answer])
    settle(page)
    assert page.evaluate(FIGURES) == [["forward", "", None, None], ["backward", "", None, None]]
    assert page.locator(".eb").get_attribute("data-alarm") == "false"


@pytest.mark.parametrize("b", [4, 8])
def test_a_stage_beyond_its_limit_has_an_account_alone(page, b):
    limits = {"backward": Limit("4 - b", "of more than 4 nothing is known.")}
    view = draw(page, state(asked(limits), b=b))
    settle(page)
    found = {stage: (predicted, accounted) for stage, term, predicted, accounted in page.evaluate(FIGURES) if not term}
    assert found["forward"] == (str(2 * b), str(2 * b))
    assert found["backward"] == (str(4 * b) if b == 4 else None, str(4 * b))
    assert ("No prediction of backward: of more than 4 nothing is known." in view.status) == (b == 8)
