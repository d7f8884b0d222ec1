"""What a person reads stays in plain words: no turn of phrase that tools/prose.py lists, and few colons."""

import pytest
from places import ROOT

from tools.prose import MOST_COLONS, PLAIN, colons, main, pages, sentences, texts, turns


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_has_none_of_these_turns(path):
    assert [(turn.place, turn.words, turn.sentence) for place, text in texts(path) for turn in turns(text, place)] == []


def test_colons_do_not_take_the_place_of_verbs():
    counted = {path: [colons(text) for _, text in texts(path)] for path in pages() if path.suffix == ".ipynb"}
    for path, found in counted.items():
        n_colons, n_sentences = map(sum, zip(*found, strict=True))
        assert n_colons <= MOST_COLONS * n_sentences, path.name


SENTENCES = [
    "What is behind the block is free.",
    "The copy is beside it.",
    "The rest is free.",
    "Two segments stand there.",
    "It lies in a segment.",
    "Nobody keeps it.",
    "Backward wants the input.",
    "Take this in place of that.",
    "Whoever takes one for another is wrong.",
    "Who freezes a layer saves nothing.",
    "This is how a training fails.",
    "**Trips**, and what to do.",
    "Of this nothing is said.",
    "A loop to mend.",
    "It is written as a whole or not at all.",
    "It can be had.",
    "It is there anyway.",
    "Tests run it by night.",
]


@pytest.mark.parametrize("sentence", SENTENCES)
def test_each_turn_is_found_in_a_sentence_that_has_it(sentence):
    assert [turn.sentence for turn in turns(f"It is so. {sentence} And more.")] == [sentence]


def test_every_pattern_is_seen_here():
    assert {turn.plain for sentence in SENTENCES for turn in turns(sentence)} == set(PLAIN.values())


def test_code_equations_and_names_are_not_prose():
    text = "# Behind it\n\nTake `behind`. It is $behind$.\n\n```python\nbehind = 1\n```\n\n| behind |\n|---|\n"
    assert list(turns(text)) == []
    assert sentences("One is `x`. Two?") == ["One is X .", "Two?"]


def test_colons_are_counted_by_sentence():
    assert colons("It is so: always. It stays. **What it costs:** Nothing.") == (1, 3)


def test_the_command_lists_what_it_finds(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("The copy is beside it.\n", encoding="utf-8")
    assert main([str(page)]) == 1
    assert "page.md: 'beside' -> " in capsys.readouterr().out
    page.write_text("The copy is next to it.\n", encoding="utf-8")
    assert main([str(page)]) == 0
