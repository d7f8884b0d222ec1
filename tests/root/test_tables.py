"""Tables of predicted and accounted bytes: what they say, in text and in HTML."""

from every_byte.tables import Comparison

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
