"""The page's judge says of each number what the exercises' own judge says, and stands on the pages of chapters."""

import json
import random

import pytest
from places import ROOT
from site_pages import FILES, visit

from every_byte.units import exact
from every_byte.widget.scripts import PAGE
from tools.page_judges import STORED, reply
from utils.exercises.judge import _how_far

JUDGES = json.loads(STORED.read_text(encoding="utf-8"))
LOAD = """async (source) => {
  const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
  window.judging = await import(address);
}"""


def source() -> str:
    """The module with what it imports before it."""
    own = (ROOT / "book" / "scripts" / "exercises.js").read_text(encoding="utf-8")
    head = 'import { exact, short } from "./numbers.js";\n'
    assert head in own
    return (PAGE / "numbers.js").read_text(encoding="utf-8") + own.replace(head, "")


@pytest.fixture(scope="module")
def judging(page):
    page.evaluate(LOAD, source())
    return page


def test_bytes_and_distances_are_said_as_in_python(judging):
    draw = random.Random(0)
    pairs = [
        (draw.randrange(1, 10 ** draw.randrange(2, 13)), draw.randrange(1, 10 ** draw.randrange(2, 13)))
        for _ in range(400)
    ]
    truths = [draw.randrange(10**3, 10**10) for _ in range(400)]
    pairs += [(round(truth * draw.uniform(0.005, 3)), truth) for truth in truths]
    pairs += [(0, 5), (1, 5), (-1, 5), (5, 500), (500, 5), (995, 1000), (1005, 1000), (900, 1000), (1100, 1000)]
    said = judging.evaluate("pairs => pairs.map(([a, t]) => [judging.bytes(a), judging.howFar(a, t)])", pairs)
    assert said == [[exact(answer), _how_far(answer, truth)] for answer, truth in pairs]


@pytest.mark.parametrize("number", JUDGES)
def test_every_mistake_that_a_judge_knows_has_its_reply(judging, number):
    judge = JUDGES[number]
    truths = [field["truth"] for field in judge["fields"]]
    verdict = "([judge, answers]) => judging.verdict(judge, answers)"
    assert judging.evaluate(verdict, [judge, truths]) == judge["right"]
    for place, field in enumerate(judge["fields"]):
        for answer in (*map(int, field["mistakes"]), 0, field["truth"] + 1):
            answers = [*truths[:place], answer, *truths[place + 1 :]]
            assert judging.evaluate(verdict, [judge, answers]) == reply(field, answer)
        missing = [*truths[:place], None, *truths[place + 1 :]]
        assert judging.evaluate(verdict, [judge, missing]).startswith("No answer yet: type a number")
        assert judging.evaluate(verdict, [judge, [*truths[:place], 0.5, *truths[place + 1 :]]]).endswith(
            "whole number."
        )


@pytest.mark.usefixtures("site")
def test_a_reader_types_a_number_and_is_told():
    judge = JUDGES["1.2"]
    with visit(FILES, viewport={"width": 1280, "height": 900}) as seen:
        page = seen.open(f"chapters/{judge['chapter']}.html")
        box = page.locator(".exercise-judge").nth(1)
        first, second = box.locator("input").all()
        said = box.locator("output")
        first.fill(f"{judge['fields'][0]['truth']:,d}")
        first.press("Enter")
        assert said.inner_text() == "No answer yet: type a number for after_backward."
        second.fill("1.5 MiB")
        box.get_by_role("button", name="Judge it").click()
        assert said.inner_text() == reply(judge["fields"][1], 3 * 2**19)
        second.fill(str(judge["fields"][1]["truth"]))
        second.press("Enter")
        assert said.inner_text() == judge["right"]
        assert page.locator(".exercise-elsewhere").count() > 2
