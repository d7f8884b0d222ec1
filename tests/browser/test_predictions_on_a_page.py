"""Predictions on the site's pages: fields compare and remember, results wait, answers are those of the notebooks."""

import nbformat
import pytest
from prediction_rules import answer_in, asked, questions_of, shown_by
from site_pages import CHAPTERS, FILES, chapter_page, served, visit

pytestmark = pytest.mark.usefixtures("site")

WIDE = {"width": 1280, "height": 900}
STORE = "([name, value]) => localStorage.setItem(name, value)"
ANSWERS = """() => {
  const outputs = [...document.querySelectorAll("div.cell > .cell_output")];
  const comments = document.createTreeWalker(document.querySelector(".bd-article"), NodeFilter.SHOW_COMMENT);
  const found = [];
  while (comments.nextNode()) {
    const comment = comments.currentNode, behind = Node.DOCUMENT_POSITION_FOLLOWING;
    const output = outputs.find((one) => comment.compareDocumentPosition(one) & behind);
    for (const label of everyBytePredictions.labelsOf(comment.data) ?? []) {
      found.push([label, everyBytePredictions.answerIn(everyBytePredictions.textOf(output), label)]);
    }
  }
  return found;
}"""


def test_a_predicted_result_waits_for_the_guess_which_is_compared_and_kept():
    with served() as address, visit(address, viewport=WIDE) as seen:
        page = seen.open(chapter_page(CHAPTERS[0]))
        outputs = page.locator("div.cell > .cell_output")
        n_shown, n_covered = outputs.locator("visible=true").count(), page.locator("[data-asked]").count()
        assert n_shown > 10
        assert n_covered > 10
        assert page.locator("[data-asked]:visible").count() == 0
        assert page.locator(".eb-tally:visible").count() == 0
        field = page.locator(".eb-predict").first.locator("input")
        field.fill("12 GiB")
        field.press("Enter")
        assert outputs.locator("visible=true").count() == n_shown + 1
        assert page.locator(".eb-verdict").first.inner_text() == "it is 15.14 GiB: off by 3.14, 21%"
        assert page.locator(".eb-tally").inner_text().startswith("You predicted 1 of ")
        page = seen.open(chapter_page(CHAPTERS[0]))
        assert page.locator(".eb-predict input").first.input_value() == "12 GiB"
        page.get_by_role("button", name="Show the result").first.click()
        assert page.locator(".eb-verdict").first.inner_text() == "it is 15.14 GiB: off by 3.14, 21%"


def test_results_wait_all_show_all_wait_and_again_as_a_reader_says():
    with visit(FILES, viewport=WIDE) as seen:
        page = seen.open(chapter_page(CHAPTERS[0]))
        outputs, asked = page.locator("div.cell > .cell_output"), page.locator("[data-asked]")
        n_waiting = {"Show results": asked.count(), "Hide results": 0, "Hide only predicted": outputs.count()}
        assert 0 < asked.count() < outputs.count()
        for name in [*n_waiting, *n_waiting]:
            button = page.get_by_role("button", name=name)
            assert page.locator(".show-result").count() == n_waiting[name]
            assert outputs.locator("visible=true").count() == outputs.count() - n_waiting[name]
            button.click()
        assert page.locator("[data-asked]:visible").count() == 0


def test_the_button_says_what_is_so_and_what_comes():
    with visit(FILES, viewport=WIDE) as seen:
        button = seen.open(chapter_page(CHAPTERS[0])).locator(".hide-results")
        said = "Predicted results wait. Next: all results show; then: all results are hidden."
        assert button.get_attribute("title") == said
        button.click()
        assert button.get_attribute("title").startswith("All results show. Next: all results are hidden; then: pred")


def test_the_choice_is_the_same_in_each_chapter_and_can_be_had_back():
    with served() as address, visit(address, viewport=WIDE) as seen:
        page = seen.open(chapter_page(CHAPTERS[0]))
        page.get_by_role("button", name="Show results").click()
        page.get_by_role("button", name="Hide results").click()
        page.get_by_role("button", name="Show the result").first.click()
        assert page.locator("div.cell > .cell_output:visible").count() == 1
        page = seen.open(chapter_page(CHAPTERS[1]))
        assert page.locator("div.cell > .cell_output:visible").count() == 0
        page.get_by_role("button", name="Hide only predicted").click()
        page = seen.open(chapter_page(CHAPTERS[2]))
        assert page.locator("[data-asked]:visible").count() == 0
        assert page.locator("div.cell > .cell_output:visible").count() > 0


def test_what_was_predicted_before_is_counted_when_all_results_are_shown():
    with visit(FILES, viewport=WIDE) as seen:
        page = seen.open(chapter_page(CHAPTERS[0]))
        page.locator(".eb-predict input").first.fill("512 bytes")
        assert page.locator(".eb-tally:visible").count() == 0
        page.get_by_role("button", name="Show results").click()
        assert page.locator(".eb-tally").inner_text().startswith("You predicted 1 of ")
        page.locator(".eb-predict input").first.fill("")
        assert page.locator(".eb-tally:visible").count() == 0


def test_fields_are_there_where_what_was_stored_is_broken():
    with served() as address, visit(address, viewport=WIDE) as seen:
        name = chapter_page(CHAPTERS[0])
        for broken in ("{", "null", "3"):
            seen.open(name).evaluate(STORE, [f"every-byte.predicted.{CHAPTERS[0].stem}", broken])
            assert seen.open(name).locator(".eb-predict").count() > 10


@pytest.mark.parametrize("notebook", CHAPTERS, ids=lambda path: path.stem)
def test_a_page_has_the_answers_that_the_rules_find_in_the_notebook(notebook):
    """The rules read a result's plain text, and the page what it shows."""
    cells = questions_of(nbformat.read(notebook, as_version=4))
    asked_for = [
        (one, result)
        for _, questions, result in cells
        for question in questions
        for one in map(asked, filter(str.strip, question.split("|")))
    ]
    numbers = [answer_in(shown_by(result), one)[0] for one, result in asked_for]
    with visit(FILES, viewport=WIDE) as seen:
        found = seen.open(chapter_page(notebook)).evaluate(ANSWERS)
    assert [one["label"] for one, _ in found] == [one.label for one, _ in asked_for]
    assert [answer for _, answer in found] == [float(number.replace(",", "").replace("−", "-")) for number in numbers]


def test_hidden_results_are_printed_and_stay_hidden_on_the_screen():
    with visit(FILES, viewport=WIDE) as seen:
        page = seen.open(chapter_page(CHAPTERS[0]))
        outputs, shown = page.locator("div.cell > .cell_output"), "nodes => nodes.map((one) => one.checkVisibility())"
        page.get_by_role("button", name="Show results").click()
        all_shown = outputs.evaluate_all(shown)
        page.get_by_role("button", name="Hide results").click()
        page.get_by_role("button", name="Show the result").first.click()
        one_shown = outputs.evaluate_all(shown)
        assert one_shown.count(True) == 1 < all_shown.count(True)
        page.emulate_media(media="print")
        assert outputs.evaluate_all(shown) == all_shown
        assert page.locator(".show-result:visible").count() == 0
        page.pdf()  # with the events that a page gets before and after
        page.emulate_media(media="screen")
        assert outputs.evaluate_all(shown) == one_shown
