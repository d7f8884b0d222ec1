"""The GPU of every explorer: what can be chosen, where figures depend on it, what is measured, and simulated beside."""

import json
import re
import weakref
from dataclasses import replace

import pytest
import torch
import traitlets
from stand_in import BADGE, NAME, OPTION, SPEC, install

from every_byte.formula.formula import Formula, Term
from every_byte.gpu.device import spec_of
from every_byte.gpu.live import machine
from every_byte.gpu.live.gpu import LIVE
from every_byte.gpu.memory.specs import EXPLORED, SPECS, find_spec
from every_byte.widget import Account, Control, Explorer
from every_byte.widget.gpus import NO_KERNEL, available_gpus, beside_its_simulation, for_a_page, gpu_controls
from utils.experiments.checkpointed_step import CheckpointedStep
from utils.experiments.gpt_remedy_step import GPTRemedyStep
from utils.experiments.gpt_step import GPTStep
from utils.experiments.llama_step import LlamaStep
from utils.experiments.mesh_step import MeshStep
from utils.explorers.gallery import GALLERY, explorer

pytestmark = pytest.mark.sampled(5, slow=True)

WITHOUT = "fragmentation"
"""The explorer of a card with 1 GiB, which is no real one."""
WITH_GPU = [name for name in GALLERY if name != WITHOUT]
OTHERS = [(name, gpu) for name in WITH_GPU for gpu in ("h100-80gb", "rtx3090-24gb", "t4-16gb")]
ELSEWHERE = "this machine's GPU"


@pytest.fixture
def opened():
    """A stand-in for this machine's GPU."""
    opened, undo = install()
    yield opened
    undo()


def without_gpu(monkeypatch) -> str:
    """This machine has none; the reason."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return machine.this_machine().reason


def settings_of(found: Explorer, name: str, **chosen) -> dict:
    start = {symbol: control.default for symbol, control in found.controls.items()}
    return start | dict(GALLERY[name].small) | chosen


# ---- what can be chosen


@pytest.mark.parametrize("name", WITH_GPU)
def test_without_a_gpu_its_option_is_there_and_says_why_it_cannot_be(name, monkeypatch):
    reason = without_gpu(monkeypatch)
    found = GALLERY[name].make()
    spec = found.controls["gpu"].spec()
    assert spec["options"][-1] == ELSEWHERE
    assert (spec["disabled"], spec["live"]) == ({ELSEWHERE: reason}, {})
    assert "beside" not in found.controls
    assert found.value["gpu"] == "a100-80gb"
    with pytest.raises(traitlets.TraitError, match=re.escape(f'may not be "{ELSEWHERE}" here: {reason}')):
        found.gpu = LIVE
    with pytest.raises(ValueError, match=re.escape(reason)):
        explorer(name, gpu=ELSEWHERE)


@pytest.mark.parametrize("name", WITH_GPU)
def test_a_page_is_the_same_on_whatever_machine(name, monkeypatch):
    without_gpu(monkeypatch)
    with for_a_page():
        here = GALLERY[name].make().spec
    _, undo = install()
    try:
        with for_a_page():
            there = GALLERY[name].make().spec
    finally:
        undo()
    assert json.dumps(here) == json.dumps(there)
    [gpu] = [control for control in here["controls"] if control["symbol"] == "gpu"]
    assert gpu["disabled"] == {ELSEWHERE: NO_KERNEL}


@pytest.mark.parametrize("name", WITH_GPU)
def test_with_a_gpu_it_is_the_last_option_by_its_name(name, opened):
    found = GALLERY[name].make()
    gpu = found.controls["gpu"].spec()
    *simulated, own = gpu["options"]
    assert own == OPTION
    assert set(simulated) <= set(EXPLORED)
    assert (gpu["disabled"], gpu["live"]) == ({}, {OPTION: NAME})
    beside = found.controls["beside"].spec()
    assert (beside["when"], beside["hides"], beside["selects"]) == ({"gpu": [OPTION]}, True, False)
    assert "beside" not in repr(found)  # as long as another GPU is chosen
    found.gpu = LIVE
    assert f"gpu={OPTION!r}, beside='off'" in repr(found)


def test_a_card_that_cannot_do_it_is_disabled_with_the_reason():
    _, undo = install(replace(find_spec("t4-16gb"), name="Tesla T4"))
    try:
        found = GALLERY["ranks"].make()
        assert found.controls["gpu"].spec()["disabled"] == {
            "Tesla T4 (this machine)": "Tesla T4 cannot do this: it takes a GPU of compute capability 8.0."
        }
        assert GALLERY["gpt"].make().controls["gpu"].spec()["disabled"] == {}
    finally:
        undo()


def test_where_nothing_can_be_set_beside_it_a_sentence_says_so():
    said = "This is an AMD GPU under ROCm."
    _, undo = install(cannot_be_simulated=said)
    try:
        found = GALLERY["mlp"].make()
        assert "beside" not in found.controls
        assert said in found.answer_at(settings_of(found, "mlp", gpu=LIVE))["remark"]
    finally:
        undo()


def test_options_of_a_choice_that_are_no_options():
    with pytest.raises(ValueError, match="disabled and live must name options of 'x': got 'c'; a, b"):
        Control.choice("x", "x", ["a", "b"], disabled={"c": "no"})
    with pytest.raises(ValueError, match="x .x. may not be 'b' here: It is broken"):
        Control.choice("x", "x", ["a", "b"], value="b", disabled={"b": "It is broken."})
    choice = Control.choice("x", "x", ["a", "b"], disabled={"b": "It is broken."})
    assert (choice.enabled, choice.options) == (["a"], ["a"])


# ---- where figures depend on it


@pytest.mark.long
@pytest.mark.parametrize(("name", "gpu"), OTHERS)
def test_on_other_gpus_too_it_is_as_predicted(name, gpu):
    found = GALLERY[name].make()
    if gpu not in found.controls["gpu"].values:
        assert name in ("ranks", "fit")
        return
    chosen = {"dtype": torch.float32} if name == "block" and gpu == "t4-16gb" else {}
    settings = settings_of(found, name, gpu=gpu, **chosen)
    answer = found.answer_at(settings)
    assert answer["error"] == ""
    assert answer["terms"] == found.predict(settings)


def test_a_kernel_that_a_gpu_lacks_is_a_sentence():
    found = GALLERY["block"].make()
    answer = found.answer_at(settings_of(found, "block", gpu="t4-16gb", attention="flash"))
    assert answer["error"].startswith(
        "No available kernel. Of the attention backends enabled (flash), none takes, on t4"
    )


@pytest.mark.parametrize("step", [GPTStep, CheckpointedStep, MeshStep, LlamaStep, GPTRemedyStep])
def test_a_step_takes_a_gpu_by_name_as_a_spec_or_live(step, opened):
    by_name, by_spec, live = (step(gpu=gpu) for gpu in ("h100-80gb", find_spec("h100-80gb"), LIVE))
    assert by_name.letters == by_spec.letters == live.letters
    assert by_name.held == by_spec.held == live.held
    assert live.letters["W"] == SPEC.cublas_workspace_bytes


# ---- measured, and simulated beside it


@pytest.mark.long
@pytest.mark.parametrize("name", WITH_GPU)
def test_measured_simulated_and_predicted_agree(name, opened):
    found = GALLERY[name].make()
    settings = settings_of(found, name, gpu=LIVE, beside=True)
    answer = found.answer_at(settings)
    assert answer["terms"] == answer["beside"]["terms"] == found.predict(settings)
    assert (answer["badge"], answer["origin"]) == (BADGE, "measured")
    assert answer["beside"]["badge"] == f"simulated on {NAME}, PyTorch 2.13 rules"
    assert answer["fit"] is None
    assert f"Opened {opened.times} times." in answer["remark"]  # as the machine's conditions say
    assert set(opened.left) == {0}
    assert found.answer_at(settings | {"beside": False})["beside"] is None


@pytest.mark.long
@pytest.mark.parametrize("name", ["gpt", "checkpoint", "ranks", "fit"])
def test_a_step_that_ran_says_what_it_took(name, opened):
    found = GALLERY[name].make()
    said = found.answer_at(settings_of(found, name, gpu=LIVE))["remark"]
    reserved = re.search(r"It ran: PyTorch reserved ([\d,]+) bytes \(.*?\) at most, of 85,017,624,576 bytes", said)
    simulated = found.answer_at(settings_of(found, name, gpu="h100-80gb"))
    assert int(reserved[1].replace(",", "")) >= max(simulated["timeline"]["reserved"])
    assert ("rank 0; PyTorch's fake process group replaces the other ranks" in said) == (name == "ranks")


def test_what_differs_is_shown_in_the_plain_table():
    _, undo = install(measures_as=replace(SPEC, capability=(8, 0)))
    try:
        found = GALLERY["phases"].make()
        found.value = settings_of(found, "phases", gpu=LIVE, beside=True)
        table = repr(found.table())
        html = found.table()._repr_html_()
    finally:
        undo()
    lines = [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]
    assert lines[1] == ["stage, term", "formula", "predicted", "simulated", "measured", "difference"]
    workspace = next(line for line in lines if line[0] == "cuBLAS workspace")
    assert workspace[1:] == [
        "2·W", "67,108,864 bytes (64 MiB)", "67,108,864 bytes (64 MiB)", "17,039,360 bytes (16.2 MiB)",
        "-50,069,504 bytes (-47.8 MiB)",
    ]  # fmt: skip
    assert f"{BADGE}; next to it: simulated on {NAME}, PyTorch 2.13 rules." in table
    assert html.count("<th") > 5
    assert ">measured<" in html


def test_out_of_memory_is_a_sentence_three_times_and_nothing_stays(opened):
    found = GALLERY["mlp"].make()
    too_much = settings_of(found, "mlp", gpu=LIVE, beside=True) | {"b": 256, "s": 16384, "d": 16384}
    for _ in range(3):
        answer = found.answer_at(too_much)
        assert answer["error"].startswith("CUDA out of memory")
        assert (answer["terms"], answer["beside"]) == (None, None)
        assert opened.left[-1] == 0
        fits = found.answer_at(settings_of(found, "mlp", gpu=LIVE))
        assert fits["terms"] == found.predict(settings_of(found, "mlp", gpu=LIVE))


def measuring(account) -> Explorer:
    formula = Formula("", (Term("t", "3", 1),))
    return Explorer(
        title="", controls=gpu_controls(), formula=lambda _: formula, measure=beside_its_simulation(account)
    )


def test_a_failed_measurement_lets_go_before_the_card_is_cleared(opened):
    kept = []

    def account(settings):
        tensor = torch.empty(8)
        kept.append(weakref.ref(tensor))
        raise torch.OutOfMemoryError("CUDA out of memory.")

    found = measuring(account)
    assert found.answer_at({"gpu": LIVE, "beside": False})["error"] == "CUDA out of memory."
    assert kept[0]() is None
    assert opened.times == 1  # to clear it


@pytest.mark.parametrize("why", ["None of them takes bfloat16.", ""])
def test_where_pytorch_does_not_say_why_its_simulation_does(opened, why):
    def account(settings):
        if settings["gpu"] == LIVE:
            raise RuntimeError("No available kernel.")
        if why:
            raise RuntimeError(why)
        return Account({"t": 3}, "simulated")

    assert (
        measuring(account).answer_at({"gpu": LIVE, "beside": False})["error"] == f"No available kernel. {why}".strip()
    )


def test_a_simulation_that_fails_hides_no_measurement(opened):
    def account(settings):
        if settings["gpu"] != LIVE:
            raise ValueError("no simulation of it")
        assert list(settings) == ["gpu"]
        return Account({"t": 3}, "measured")

    answer = measuring(account).answer_at({"gpu": LIVE, "beside": True})
    assert (answer["terms"], answer["beside"]) == ({"t": 3}, None)
    assert answer["remark"].endswith("There is no simulation of it: no simulation of it")


def test_an_account_beside_has_the_formula_s_stages_too(opened):
    beside = Account({"a stage": {"t": 3}})
    found = measuring(lambda settings: Account({"t": 3}, "measured", beside=beside))
    found.measure = lambda settings: Account({"t": 3}, "measured", beside=beside)
    assert found.answer_at({"gpu": LIVE, "beside": True})["error"].startswith("measure must return an Account of")


def test_measured_again_is_another_request(opened):
    found = GALLERY["mlp"].make()
    found.value = settings_of(found, "mlp", gpu=LIVE)
    settings = found.get_state("value")["value"]
    found._handle_custom_msg({"request": 1, "settings": settings}, [])
    assert (found.answer["settings"], opened.times) == (settings, 1)
    found._handle_custom_msg({"again": True}, [])
    assert (found.answer["settings"], found.answer["request"], opened.times) == (None, 1, 1)
    found._handle_custom_msg({"request": 2, "settings": settings}, [])
    assert (found.answer["settings"], opened.times) == (settings, 2)


def test_specs_by_name_and_of_this_machine(opened):
    assert spec_of("t4-16gb") is SPECS["t4-16gb"]
    assert spec_of(SPEC) is SPEC
    assert available_gpus() == EXPLORED | {OPTION: SPEC}
    assert list(available_gpus((9, 0))) == ["h100-80gb", "h200-141gb", "b200-180gb", OPTION]
