"""The kernel's half of the explorer: controls, traits, the answering of requests, errors as sentences, plain tables."""

import gc
import json
import re
import threading
import time
import weakref

import pytest
import torch
import traitlets
from ipywidgets import IntSlider, interact, link

from every_byte.formula.formula import Formula, Term
from every_byte.palette import TERMS
from every_byte.widget import Account, Control, Explorer, Limit
from every_byte.widget.scripts import one_module
from utils.formulas.mlp import mlp_saved

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def formula_of(settings):
    return mlp_saved(activation=settings["activation"], dropout=settings["dropout"])


def measure_exactly(settings):
    sizes = {letter: settings[letter] for letter in "bsd"}
    return Account(formula_of(settings).by_term(**sizes, e=settings["dtype"].itemsize), device="a100-80gb")


def make(measure=measure_exactly, **changed):
    controls = {
        "b": Control.range("b", "batch", 1, 64, value=2, log=True, unit="sequences"),
        "s": Control.range("s", "sequence", 128, 8192, value=4096, log=True),
        "d": Control.range("d", "width", 64, 4096, value=1024, step=64),
        "activation": Control.choice("activation", "activation", ["relu", "gelu"], value="gelu"),
        "dropout": Control.choice("dropout", "dropout", {"off": 0.0, "0.1": 0.1}),
        "dtype": Control.choice(
            "dtype", "element type", DTYPES, value=torch.bfloat16, letter="e", letters={"float32": 4, "bfloat16": 2}
        ),
    }
    controls = list((controls | changed).values())
    return Explorer(title="What an MLP keeps", controls=controls, formula=formula_of, measure=measure)


def on_page(explorer, **changed):
    return explorer.get_state("value")["value"] | changed


def ask(explorer, request, **changed):
    """What the page does when a setting changes: a custom message."""
    content = {"request": request, "settings": on_page(explorer, **changed)}
    explorer._handle_custom_msg(content, [])
    return content["settings"]


# ---- settings


def test_each_control_is_a_trait_and_value_holds_them_all():
    explorer = make()
    assert explorer.value == {
        "b": 2, "s": 4096, "d": 1024, "activation": "gelu", "dropout": 0.0, "dtype": torch.bfloat16
    }  # fmt: skip
    explorer.b = 8
    assert explorer.value["b"] == 8
    explorer.value = explorer.value | {"d": 64, "dtype": torch.float32}
    assert (explorer.d, explorer.dtype) == (64, torch.float32)


def test_the_page_sees_names_and_sends_names():
    explorer = make()
    state = explorer.get_state()
    assert state["value"]["dtype"] == "bfloat16"
    json.dumps({key: state[key] for key in ("spec", "value", "answer")})
    explorer.set_state({"value": on_page(explorer, dtype="float32", dropout="0.1", b=3)})
    assert (explorer.dtype, explorer.dropout, explorer.b) == (torch.float32, 0.1, 3)


@pytest.mark.parametrize(
    ("symbol", "value", "message"),
    [
        ("b", 900, "b (batch) must be a whole number from 1 to 64: got b=900; nearest: 64."),
        ("b", 1.5, "b (batch) must be a whole number from 1 to 64: got b=1.5; try 2."),
        ("d", 100, "d (width) must be a whole number from 64 to 4096 in steps of 64: got d=100; nearest: 128."),
        ("activation", "swish", "activation (activation) must be one of 'relu', 'gelu': got activation='swish'."),
        ("dropout", False, "dropout (dropout) must be one of 0.0, 0.1: got dropout=False."),
    ],
)
def test_a_setting_that_may_not_be_is_refused_and_nothing_changes(symbol, value, message):
    explorer = make()
    before = explorer.value
    with pytest.raises(traitlets.TraitError, match=re.escape(message)):
        setattr(explorer, symbol, value)
    with pytest.raises(traitlets.TraitError, match=re.escape(message)):
        explorer.value = explorer.value | {symbol: value}
    assert explorer.value == before
    assert getattr(explorer, symbol) == before[symbol]


def test_value_must_hold_every_setting_and_no_other():
    explorer = make()
    with pytest.raises(traitlets.TraitError, match=r"value has no setting 'q': its settings are b, s, d, activation"):
        explorer.value = explorer.value | {"q": 1}
    with pytest.raises(traitlets.TraitError, match=r"must hold every setting: s, d, .* missing; .* explorer\.b\."):
        explorer.value = {"b": 4}


def test_symbols_are_unique_and_leave_the_widgets_own_names_alone():
    with pytest.raises(ValueError, match="'b' is already used by another control"):
        make(again=Control.range("b", "batch", 1, 64, value=2))
    with pytest.raises(ValueError, match="'layout' is already used by every widget"):
        make(layout=Control.toggle("layout", "layout"))


def test_link_works_both_ways_and_interact_takes_an_explorer():
    explorer = make()
    slider = IntSlider(min=1, max=64)
    link((explorer, "b"), (slider, "value"))
    slider.value = 5
    assert explorer.value["b"] == 5
    explorer.b = 7
    assert slider.value == 7
    seen = []
    interact(lambda settings: seen.append(settings["b"]), settings=explorer)
    explorer.b = 9
    assert seen == [7, 9]


# ---- spec


def test_spec_says_which_formula_each_combination_of_choices_has():
    spec = make().spec
    chosen = [
        (activation, dropout) for activation in ("relu", "gelu") for dropout in (0.0, 0.1)
    ]  # the last one fastest
    for (activation, dropout), place in zip(chosen, spec["which"], strict=True):
        terms = [spec["terms"][place] for place in spec["formulas"][place]]
        assert terms == mlp_saved(activation=activation, dropout=dropout).for_a_page()
    assert len(spec["terms"]) == len({json.dumps(term) for term in spec["terms"]})  # shared among the formulas


def test_a_formula_of_several_settings_comes_to_the_page_once():
    explorer = make()
    same = Explorer(
        title="x", controls=list(explorer.controls.values()), formula=lambda _: mlp_saved(activation="relu"),
        measure=measure_exactly,
    )  # fmt: skip
    assert (len(same.spec["formulas"]), same.spec["which"]) == (1, [0, 0, 0, 0])


def test_a_term_has_one_colour_in_every_formula_and_it_is_the_books():
    colours = make().spec["colours"]
    assert set(colours) == {"input", "activation input", "down input", "dropout mask"}
    assert {name: colour["name"] for name, colour in colours.items()} == {name: TERMS[name] for name in colours}


# ---- accounts


def test_a_formula_of_each_setting_comes_with_its_answer_and_not_with_the_page():
    def of_each(settings):
        return {"forward": Formula("", (Term("activations", f"{settings['b']}*d", 2, why="kept"),))}

    controls = [Control.range("b", "batch", 1, 4, value=2), Control.range("d", "width", 1, 9, value=3)]
    explorer = Explorer(
        title="",
        controls=controls,
        formula=of_each,
        measure=lambda settings: Account({"forward": {"activations": 2 * settings["b"] * settings["d"]}}),
        limits={"forward": Limit("8 - d", "of more nothing is known.")},
        formula_of_each=True,
    )
    assert (explorer.spec["stages"], explorer.spec["terms"], explorer.spec["asked"]) == (["forward"], [], True)
    assert "activations" in explorer.spec["colours"]
    answer = explorer.answer_at({"b": 4, "d": 5})
    term = {"stage": "forward", "name": "activations", "why": "kept", "text": "4·d·2", "letters": [], "size": 40}
    assert answer["formula"] == [term]
    assert explorer.predict({"b": 4, "d": 5}) == {"forward": {"activations": 40}}
    assert explorer.answer_at({"b": 4, "d": 9})["formula"] == []
    assert "asked" not in make().spec


def test_an_answer_carries_its_request_and_the_settings_that_it_is_for():
    explorer = make()
    settings = ask(explorer, 1, b=4)
    assert explorer.answer["request"] == 1
    assert explorer.answer["settings"] == settings
    assert explorer.answer["terms"] == explorer.predict(explorer.value | {"b": 4})
    assert explorer.answer["badge"] == "simulated on a100-80gb"
    assert explorer.value["b"] == 2  # a request alone sets nothing


def test_the_newest_request_wins():
    """Two wait while a first account is taken: the older of them is never measured, and the first not shown."""
    started, go_on, measured = threading.Event(), threading.Event(), []

    def measure(settings):
        measured.append(settings["b"])
        started.set()
        go_on.wait(300)
        return measure_exactly(settings)

    explorer = make(measure)
    answers = []
    explorer.observe(lambda change: answers.append(change["new"]["settings"]["b"]), "answer")
    threads = [threading.Thread(target=ask, args=(explorer, 1), kwargs={"b": 1})]
    threads[0].start()
    assert started.wait(300)
    for request in (2, 3):
        threads.append(threading.Thread(target=ask, args=(explorer, request), kwargs={"b": request}))
    for thread in threads[1:]:
        thread.start()
    deadline = time.monotonic() + 300  # then it hangs
    while explorer._newest_request < 3 and time.monotonic() < deadline:
        time.sleep(0.01)
    go_on.set()
    for thread in threads:
        thread.join(300)
    assert measured == [1, 3]
    assert answers == [3]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (torch.OutOfMemoryError("GPU is full: 3 bytes short.\nsecond line"), "GPU is full: 3 bytes short."),
        (ValueError("n_heads must divide d_model"), "n_heads must divide d_model"),
        (KeyError(), "KeyError without a message."),
    ],
)
def test_whatever_measure_raises_becomes_a_sentence_and_the_next_setting_works(error, text):
    def measure(settings):
        if settings["b"] == 64:
            raise error
        return measure_exactly(settings)

    explorer = make(measure)
    ask(explorer, 1, b=64)
    assert (explorer.answer["error"], explorer.answer["terms"]) == (text, None)
    ask(explorer, 2, b=2)
    assert explorer.answer["error"] == ""
    assert explorer.answer["terms"] == explorer.predict(explorer.value)


def test_settings_of_a_page_that_may_not_be_become_a_sentence_too():
    explorer = make()
    ask(explorer, 1, b=900)
    assert explorer.answer["error"].startswith("b (batch) must be a whole number from 1 to 64")
    ask(explorer, 2, dtype="int3")
    assert explorer.answer["error"] == "dtype (element type) must be one of float32, bfloat16: got 'int3'."


def test_a_measure_that_returns_no_account_is_told_so():
    explorer = make(lambda settings: {"input": 1})
    ask(explorer, 1)
    assert explorer.answer["error"] == "measure must return an Account: got dict."


def test_a_failed_measure_keeps_no_tensor_alive():
    kept = []

    def measure(settings):
        tensor = torch.empty(8)
        kept.append(weakref.ref(tensor))
        try:
            raise ValueError("inner")
        except ValueError as inner:
            error = RuntimeError("outer")
            errors.append(error)
            raise error from inner

    errors = []  # as a debugger or a log would, it holds the exception
    explorer = make(measure)
    ask(explorer, 1)
    gc.collect()
    assert explorer.answer["error"] == "outer"
    assert kept[0]() is None


# ---- plain forms


def test_plain_forms_hold_no_address_and_do_not_change():
    explorer = make()
    bundle, _ = explorer._repr_mimebundle_()
    assert bundle["text/plain"] == repr(explorer) == repr(make())
    assert repr(explorer) == (
        "Explorer('What an MLP keeps', b=2, s=4096, d=1024, activation='gelu', dropout='off', dtype='bfloat16')"
    )
    assert bundle["text/html"] == make()._repr_mimebundle_()[0]["text/html"]
    assert "150,994,944 bytes (144 MiB)" in bundle["text/html"]
    assert not re.search(r"0x[0-9a-f]{6}", bundle["text/plain"] + bundle["text/html"])


def test_the_table_is_always_of_the_present_setting():
    explorer = make()
    explorer.table()
    explorer.activation = "relu"
    assert "83,886,080 bytes (80 MiB)" in repr(explorer.table())
    assert "activation = relu" in repr(explorer.table())
    assert repr(explorer.table()).endswith("\nsimulated on a100-80gb")


def test_the_table_shows_a_term_of_one_side_and_escapes_a_sentence():
    explorer = make(lambda settings: Account({"input": 16_777_216, "surprise": 5}))
    assert re.search(r"surprise +– +5 bytes +–", repr(explorer.table()))
    explorer = make(lambda settings: 1 / 0 if settings["b"] else None)
    explorer.measure = lambda settings: (_ for _ in ()).throw(ValueError("<b>no</b>"))
    assert "&lt;b&gt;no&lt;/b&gt;" in explorer.table()._repr_html_()


def test_showing_an_explorer_takes_its_account_so_that_the_page_need_not_ask():
    explorer = make()
    explorer._repr_mimebundle_()
    assert explorer.answer["settings"] == on_page(explorer)
    assert explorer.answer["request"] == 0


# ---- script


def test_the_scripts_are_one_module_without_imports_or_addresses():
    script = one_module()
    assert not re.search(r"^\s*import\b|\bimport\(", script, re.MULTILINE)
    assert "http" not in script.replace("http://www.w3.org/2000/svg", "")
    assert script.count("export default") == 1
    names = re.findall(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", script, re.MULTILINE)
    assert len(names) == len(set(names))  # they share one scope
