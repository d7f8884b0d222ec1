"""What `make audit` says: a package of which nothing could be learnt is not called clean."""

import json

from tools.audit import Answer, of_npm_audit, of_pip_audit, report

CLEAN = {"name": "certifi", "version": "1", "vulns": []}
VULNERABLE = {"name": "bleach", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3", "4"]}]}
UNTOLD = {"name": "comm", "skip_reason": "Dependency not found on PyPI and could not be audited: comm (0.2.3)"}


def of_pip(*packages) -> Answer:
    return of_pip_audit("constraints.txt", json.dumps({"dependencies": packages, "fixes": []}))


def test_all_asked_and_none_vulnerable_is_0(capsys):
    assert report([of_pip(CLEAN), of_npm_audit("book", json.dumps({"vulnerabilities": {}}), ["katex"])]) == 0
    assert capsys.readouterr().out == (
        "constraints.txt: 1 asked, 0 known vulnerabilities, 0 not answered for\n"
        "book: 1 asked, 0 known vulnerabilities, 0 not answered for\n"
        "No known vulnerability.\n"
    )


def test_a_vulnerable_one_is_1_whatever_else_there_is(capsys):
    assert report([of_pip(CLEAN, UNTOLD, VULNERABLE)]) == 1
    assert "bleach 2: PYSEC-1, mended in 3, 4" in capsys.readouterr().out
    told = json.dumps({"vulnerabilities": {"katex": {"severity": "high", "range": "<1"}}})
    assert report([of_npm_audit("book", told, ["katex"])]) == 1
    assert "katex: high, <1" in capsys.readouterr().out


def test_what_could_not_be_asked_is_2_and_not_called_clean(capsys):
    for answer in (of_pip(CLEAN, UNTOLD), of_npm_audit("book", json.dumps({"error": {}}), ["comm"]),
                   of_npm_audit("book", "", ["comm"])):  # fmt: skip
        assert report([answer]) == 2
        said = capsys.readouterr().out
        assert "1 not answered for\n  no answer for comm\n" in said
        assert "NOT AUDITED in full" in said
        assert "No known" not in said
