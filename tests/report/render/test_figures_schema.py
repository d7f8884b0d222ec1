"""The figures of real runs are as the JSON schema says, which has every name that they have, and every category."""

import copy
import json
from pathlib import Path

import jsonschema
import pytest
from forked_runs import Runs
from reported import of_a_gpt, of_an_mlp, of_nothing, out_of_memory
from wrong_programs import program

from every_byte.palette import CATEGORIES
from every_byte.report.render import figures

SCHEMA = json.loads(Path(figures.__file__).with_name("figures.schema.json").read_text(encoding="utf-8"))
CHECK = jsonschema.Draft202012Validator(SCHEMA)
REPORTS = {
    "mlp": of_an_mlp, "gpt": of_a_gpt, "nothing": of_nothing,
    "refused": out_of_memory, "refused later": lambda: out_of_memory(2),
}  # fmt: skip
PROGRAMS = {
    "leak": ("for i in range(4):\n    step(8)\n    kept.append(batch())", ()),
    "slow leak": ("for i in range(4):\n    step(8)\n    kept.append(torch.zeros(8, device='cuda'))", ()),
    "ranks": ("step(8)\nstep(8)", ("--ranks", "4", "--rank", "1")),
    "evaluation": ("for i in range(4): kept.append(model(batch()))", ()),
    "attention": (
        "q = torch.randn(2, 4, 512, 64, device='cuda', dtype=torch.bfloat16, requires_grad=True)\n"
        "nn.functional.scaled_dot_product_attention(q, q, q).sum().backward()",
        ("--gpu", "t4-16gb"),
    ),
    "without lines": ("step(8)", ("--no-lines",)),
    "survived": (
        "try: torch.zeros(2**40, device='cuda')\nexcept torch.OutOfMemoryError: pass\nstep(8)\nstep(8)", ()
    ),
    "error": ("step(8)\nraise KeyError(1)", ()),
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    runs = Runs(tmp_path_factory.mktemp("programs"))
    yield runs
    runs.close()


@pytest.mark.parametrize("name", REPORTS)
def test_reports(name):
    CHECK.validate(json.loads(json.dumps(REPORTS[name]().to_json())))


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_command_writes(run, name):
    text, options = PROGRAMS[name]
    found = run(program(text), "--steps", "0", *options)
    assert found.figures is not None, found.err
    CHECK.validate(found.figures)


def test_the_schema_is_one_and_names_its_version_and_all_categories():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["properties"]["schema"]["const"] == figures.SCHEMA
    assert SCHEMA["$defs"]["category"]["enum"] == list(CATEGORIES)


@pytest.mark.parametrize("name", sorted(SCHEMA["properties"]))
def test_a_name_that_goes_or_changes_its_kind_is_noticed(name):
    found = json.loads(json.dumps(of_an_mlp().to_json()))
    gone, other = copy.deepcopy(found), copy.deepcopy(found)
    del gone[name]
    other[name] = {"another": "kind"}
    assert not CHECK.is_valid(gone)
    assert not CHECK.is_valid(other)
    assert not CHECK.is_valid(found | {"new": 1})
