"""Stages in the kernel's half of the explorer: formulas and accounts by stage, what may not be, the plain table."""

import json
import re

import pytest
from five_stages import STAGES, bytes_by_hand, formula, make, measure

from every_byte.formula.formula import Formula, Term
from every_byte.palette import TERMS
from every_byte.widget import Account, Control
from utils.formulas.mlp import mlp_saved

ACCOUNT_MESSAGE = (
    "measure must return an Account of the formula's stages: got {}, but the formula has {}; pass Account({})"
)


def answer_of(explorer, **changed):
    """What the page gets for a request."""
    explorer._handle_custom_msg({"request": 1, "settings": explorer.get_state("value")["value"] | changed}, [])
    return explorer.answer


# ---- formulas


def test_the_page_gets_the_stages_and_each_term_with_its_own():
    spec = make().spec
    json.dumps(spec)
    assert spec["stages"] == list(STAGES)
    assert spec["which"] == [0, 1, 2]  # SGD, SGD with momentum, Adam
    terms = [spec["terms"][place] for place in spec["formulas"][2]]
    assert [(term["stage"], term["name"]) for term in terms][:4] == [
        ("model to device", "weights"), ("forward", "weights"), ("forward", "kept inputs"), ("backward", "weights"),
    ]  # fmt: skip
    assert terms[2] == {"stage": "forward", **formula({"optimizer": "Adam"})["forward"].for_a_page()[1]}


def test_a_plain_formula_is_one_stage_without_a_name():
    explorer = make(lambda settings: formula(settings)["forward"], lambda settings: Account({}))
    assert explorer.spec["stages"] == [""]
    assert "stage" not in explorer.spec["terms"][0]
    assert explorer.predict(explorer.value) == bytes_by_hand(explorer.value)["forward"]


def test_predictions_are_by_stage_and_agree_with_plain_integers():
    explorer = make()
    for optimizer in ("SGD", "SGD, momentum", "Adam"):
        for layers, frozen, batch, width, each in [(12, 4, 4096, 1024, 4), (3, 3, 7, 5, 2), (1, 0, 1, 1, 4)]:
            settings = dict(L=layers, f=frozen, b=batch, d=width, e=each, optimizer=optimizer)
            predicted = explorer.predict(settings)
            assert list(predicted) == list(STAGES)
            assert predicted == bytes_by_hand(settings)


def test_a_term_has_one_colour_in_all_stages():
    named = [Formula("a", (Term("input", "1", 1), Term("x", "1", 1))), Formula("b", (Term("x", "2", 1),))]
    explorer = make(lambda settings: {"a": named[0], "b": named[1]}, measure)
    assert list(explorer.spec["colours"]) == ["input", "x"]
    assert explorer.spec["colours"]["input"]["name"] == TERMS["input"]


def test_a_stage_may_be_empty():
    empty = Formula("nothing yet", ())
    explorer = make(
        lambda settings: {"before": empty} | formula(settings), lambda s: Account({"before": {}} | bytes_by_hand(s))
    )
    assert explorer.predict(explorer.value)["before"] == {}
    assert re.search(r"\nbefore +0 bytes +0 bytes +0 bytes\nmodel to device", repr(explorer.table()))


WAY_OUT = "a stage that has nothing in this setting is Formula(title, ())."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda stages: {name: stages[name] for name in STAGES if name != "zero_grad"},
            "got the stages model to device, forward, backward, optimizer step for optimizer=Adam, but the stages "
            f"model to device, forward, backward, optimizer step, zero_grad before; {WAY_OUT}",
        ),
        (lambda stages: dict(reversed(stages.items())), "got the stages zero_grad, optimizer step, "),
        (lambda stages: stages["forward"], "got no stages for optimizer=Adam, but the stages model to device, "),
    ],
)
def test_all_settings_have_the_same_stages_in_the_same_order(change, message):
    def changing(settings):
        return change(formula(settings)) if settings["optimizer"] == "Adam" else formula(settings)

    start = "formula must give the same stages for every setting, in the same order: "
    with pytest.raises(ValueError, match=re.escape(start + message)):
        make(changing)


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({}, "formula must return a Formula, or stages as {name: Formula}: got {}."),
        (None, "formula must return a Formula, or stages as {name: Formula}: got None."),
        ({"forward": [1]}, "a stage needs a name and a Formula: got {'forward': list}."),
        ({"": mlp_saved(activation="relu")}, "a stage needs a name and a Formula: got {'': Formula}."),
        ({7: mlp_saved(activation="relu")}, "a stage needs a name and a Formula: got {7: Formula}."),
    ],
)
def test_what_is_no_formula_is_refused(found, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make(lambda settings: found)


def test_a_letter_without_a_control_is_refused_at_once():
    with pytest.raises(
        ValueError, match=r"needs a control: got 'q' in 'x', but the controls give L, f, b, d, e; add Control"
    ):
        make(lambda settings: Formula("x", (Term("x", "q", 1),)))


# ---- accounts


def test_an_account_in_stages_comes_to_the_page_as_it_is():
    answer = answer_of(make(), L=3, f=0)
    assert answer["terms"] == make().predict(make().value | {"L": 3, "f": 0})
    assert (answer["error"], answer["badge"]) == ("", "simulated on a100-80gb")


STAGED = {"forward": {"weights": 1}}
ALL = "the stages model to device, forward, backward, optimizer step, zero_grad"


@pytest.mark.parametrize(
    ("terms", "found"),
    [
        ({"weights": 1}, "no stages"),
        ({}, "no stages"),
        (STAGED, "the stages forward"),
        (dict.fromkeys(STAGES, {}) | {"sleep": {}}, f"{ALL}, sleep"),
    ],
)
def test_an_account_of_other_stages_becomes_a_sentence(terms, found):
    explorer = make(measure=lambda settings: Account(terms))
    answer = answer_of(explorer)
    assert answer["terms"] is None
    assert answer["error"].startswith(ACCOUNT_MESSAGE.format(found, ALL, "{stage: {term: bytes}}"))
    assert answer["error"] in repr(explorer.table())


def test_an_account_in_stages_of_a_plain_formula_becomes_a_sentence_too():
    explorer = make(lambda settings: formula(settings)["forward"], lambda settings: Account(STAGED))
    message = ACCOUNT_MESSAGE.format("the stages forward", "no stages", "{term: bytes}")
    assert answer_of(explorer)["error"].startswith(message)


def test_the_stages_of_an_account_may_come_in_any_order():
    explorer = make(measure=lambda settings: Account(dict(reversed(bytes_by_hand(settings).items()))))
    assert answer_of(explorer)["error"] == ""


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"forward": {"weights": 1.5}}, "terms must hold bytes as int: got terms['forward']['weights']=1.5"),
        ({"forward": {"weights": True}}, "got terms['forward']['weights']=True; round nothing, count storages."),
        (
            {"forward": {}, "backward": 3},
            "terms must be all in stages or none: got terms['backward']=3 next to stages.",
        ),
    ],
)
def test_an_account_in_stages_holds_whole_bytes(terms, message):
    with pytest.raises(TypeError, match=re.escape(message)):
        Account(terms)


# ---- sizes that are none


def test_more_frozen_layers_than_layers_give_sentences_and_dashes_and_the_next_setting_works():
    explorer = make()
    explorer.L, explorer.f = 2, 3
    misfit = "(L - f)*blocks(e*b*d) must be a whole number, 0 or more: it is not for b=4096, d=1024, L=2, e=4, f=3."
    with pytest.raises(ValueError, match=re.escape(misfit)):
        explorer.predict(explorer.value)
    table = repr(explorer.table())
    assert table.endswith(
        f"frozen must be at most the number of layers: got f=3, L=2. No prediction of this setting: {misfit}"
    )
    assert re.search(r"\nforward +– +– +–\n", table)
    assert re.search(r"kept inputs +\(L − f\)·⌈e·b·d⌉₅₁₂ +– +– +–\n", table)
    assert re.search(r"weights +L·⌈e·d²⌉₅₁₂ +8,388,608 bytes \(8 MiB\) +–", table)
    explorer.f = 0
    assert repr(explorer.table()).endswith("\nsimulated on a100-80gb")


def test_a_slider_may_start_at_zero():
    control = Control.range("f", "frozen layers", 0, 12, value=0)
    assert (control.check(0), control.letters(0), control.spec()["minimum"]) == (0, {"f": 0}, 0)
    with pytest.raises(ValueError, match="from 0 to 12: got f=-1; nearest: 0"):
        control.check(-1)


# ---- plain forms


def test_the_table_shows_each_stage_with_its_total_and_its_terms():
    explorer = make(measure=surprising)
    lines = [re.split(r"\s{2,}", line.strip()) for line in repr(explorer.table()).splitlines()]
    assert lines[1] == ["stage, term", "formula", "predicted", "simulated", "difference"]
    assert [line[0] for line in lines[2:-1]] == [
        "model to device", "weights", "forward", "weights", "kept inputs", "surprise", "backward", "weights",
        "gradients", "optimizer step", "weights", "gradients", "optimizer state", "zero_grad", "weights",
        "optimizer state",
    ]  # fmt: skip
    forward = bytes_by_hand(explorer.value)["forward"]
    assert lines[4][1:] == [f"{sum(forward.values()):,d} bytes (176 MiB)", "184,549,383 bytes (176 MiB)", "7 bytes"]
    assert lines[7] == ["surprise", "–", "7 bytes", "–"]


def surprising(settings):
    stages = bytes_by_hand(settings)
    return Account(stages | {"forward": stages["forward"] | {"surprise": 7}})


def test_a_page_without_a_kernel_shows_the_stages_too():
    html = make()._repr_mimebundle_()[0]["text/html"]
    assert [html.count(f'<th style="text-align:left">{name}</th>') for name in STAGES] == [1] * 5
    assert "134,217,728 bytes (128 MiB)" in html
    assert repr(make()) == (
        "Explorer('One training step, stage by stage', L=12, f=4, b=4096, d=1024, optimizer='Adam', e='float32')"
    )
