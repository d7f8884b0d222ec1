"""Formulas of named terms: evaluated, compared with rows of an account, written as mathematics and as tables."""

import subprocess
import sys

import pytest
import torch
from places import ROOT

from every_byte.formula.formula import Comparison, Formula, Selector, Term
from every_byte.ledger.saved_tensors import SavedTensor


def row(storage, module="m", node="NodeBackward0", slot="self", storage_bytes=8):
    return SavedTensor(module, node, slot, (2,), torch.float32, storage_bytes, storage)


class TestFormula:
    TWO = Formula(
        "two",
        (
            Term("first", "2*b*s", 1, (Selector("m", "NodeBackward0", "self"), Selector(node="Other*")), "one"),
            Term("second", "b*s/2", "e", (Selector("m.*", "*", "tensors[0]"),), "two <or more>"),
        ),
    )

    def test_bytes_are_whole_and_exact(self):
        assert self.TWO.by_term(b=2**60, s=4, e=3) == {"first": 2**63, "second": 3 * 2**61}
        assert self.TWO.bytes(b=2**60, s=4, e=3) == 2**63 + 3 * 2**61
        assert self.TWO.letters == ("b", "s", "e")
        assert self.TWO.bytes(b=0, s=4, e=3, unused=-1) == 0

    @pytest.mark.parametrize(
        ("letters", "message"),
        [
            ({"b": 1, "s": 2}, "e has no value: 'two' needs b, s, e; pass e= as well"),
            ({"b": 1.0, "s": 2, "e": 2}, "b must be a whole number, 0 or more: got b=1.0"),
            ({"b": 1, "s": -2, "e": 2}, "s must be a whole number, 0 or more: got s=-2"),
            ({"b": 1, "s": True, "e": 2}, "s must be a whole number, 0 or more: got s=True"),
            ({"b": 1, "s": 3, "e": 1}, r"must be a whole number, 0 or more: it is not for b=1, s=3, e=1"),
        ],
    )
    def test_bad_letters(self, letters, message):
        with pytest.raises(ValueError, match=message):
            self.TWO.bytes(**letters)

    def test_names_are_unique(self):
        with pytest.raises(ValueError, match="terms must have names of their own: got 'first' twice in 'twice'"):
            Formula("twice", (self.TWO.terms[0], self.TWO.terms[0]))

    def test_an_account_takes_each_storage_once_by_any_of_its_rows(self):
        rows = [row(1), row(2, "m.0", slot="tensors[0]"), row(1, "x", "OtherBackward0", "result"), row(3, "n", "Other")]
        assert self.TWO.account(rows) == {"first": 16, "second": 8}
        assert self.TWO.account([]) == {"first": 0, "second": 0}
        assert self.TWO.account([row(1), row(4, "n", storage_bytes=0)]) == {"first": 8, "second": 0}

    def test_an_account_names_what_it_cannot_place(self):
        with pytest.raises(ValueError, match=r"no term of 'two' selects 8 bytes of shape \(2,\), kept by n: Node"):
            self.TWO.account([row(1, "n")])
        with pytest.raises(ValueError, match=r"kept by the root module: CopySlices\.\?\."):
            self.TWO.account([row(1, "", "CopySlices", "")])
        with pytest.raises(ValueError, match="terms 'first' and 'second' of 'two' both select 8 bytes of shape"):
            self.TWO.account([row(1), row(1, "m.0", slot="tensors[0]")])

    def test_compare_takes_rows_or_their_account(self):
        rows = [row(1), row(2, "m.0", slot="tensors[0]")]
        compared = self.TWO.compare(rows, b=2, s=2, e=4)
        assert compared == self.TWO.compare(self.TWO.account(rows), b=2, s=2, e=4)
        assert compared.rows == (("first", 8, 8), ("second", 8, 8))
        assert compared.is_exact
        assert self.TWO.compare({"first": 9}, b=2, s=2, e=4).rows == (("first", 8, 9), ("second", 8, 0))
        with pytest.raises(ValueError, match="an account names the terms of 'two': got 'third'"):
            self.TWO.compare({"third": 9}, b=2, s=2, e=4)

    def test_mathematics(self):
        assert self.TWO.latex() == r"\frac{b \, s \, e}{2} + 2 \, b \, s"
        assert self.TWO.latex(e=4) == r"4 \, b \, s"
        assert [term["text"] for term in self.TWO.for_a_page()] == ["2·b·s", "(b·s/2)·e"]

    def test_tables(self):
        assert repr(self.TWO).splitlines() == [
            "two",
            "term    elements  bytes each  kept for",
            "first   2·b·s     1           one",
            "second  b·s/2     e           two <or more>",
        ]
        assert self.TWO._repr_html_().startswith("<table><caption>two</caption><thead><tr><th ")
        assert "two &lt;or more&gt;</td></tr></tbody></table>" in self.TWO._repr_html_()

    @pytest.mark.nightly
    def test_evaluating_loads_no_sympy(self):
        program = (
            "import sys; from utils.formulas.mlp import mlp_saved; f = mlp_saved(activation='gelu', dropout=True); "
            "f.bytes(b=1, s=2, d=3, e=4); repr(f); f._repr_html_(); print('sympy' in sys.modules); f.latex(); "
            "print('sympy' in sys.modules)"
        )
        run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
        assert run.stdout.split() == ["False", "True"]


# ---- predicted beside accounted

MET = Comparison("an MLP", (("input", 2048, 2048), ("mask", 10, 10)))
MISSED = Comparison("an <MLP>", (("input", 2048, 1024), ("mask", 10, 1034)))


def test_a_sum_that_agrees_is_not_enough():
    assert MISSED.predicted_bytes == MISSED.accounted_bytes == 2058
    assert not MISSED.is_exact
    assert MET.is_exact


def test_text():
    assert repr(MISSED).splitlines() == [
        "an <MLP>",
        "term                predicted               accounted             difference",
        "input     2,048 bytes (2 KiB)     1,024 bytes (1 KiB)  -1,024 bytes (-1 KiB)",
        "mask                 10 bytes  1,034 bytes (1.01 KiB)    1,024 bytes (1 KiB)",
        "total  2,058 bytes (2.01 KiB)  2,058 bytes (2.01 KiB)                0 bytes",
    ]


def test_html_escapes_and_repeats_itself():
    html = MISSED._repr_html_()
    assert html == MISSED._repr_html_()
    assert html.startswith("<table><caption>an &lt;MLP&gt;</caption><thead><tr><th ")
    assert html.count("<tr>") == 4
    assert '<th style="text-align:left">mask</th><td style="text-align:right">10 bytes</td>' in html
    assert html.endswith('<td style="text-align:right">0 bytes</td></tr></tbody></table>')
