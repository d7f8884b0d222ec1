"""The policy of a page: what is in it may run, what comes to it may not; a style stays what it was."""

import base64
import hashlib
import re

import pytest

from tools.site_policy import SHEET, give_policies, policy, with_policy

HEAD = '<!DOCTYPE html>\n<html><head>\n<meta charset="utf-8" />\n'
PAGE = f"""{HEAD}<script data-cfasync="false">
  one < two && "ü";
</script><script src="_static/a.js"></script><script type="application/json">{{"a": 1}}</script>
<noscript><style>.a {{ color: red }}</style></noscript></head>
<body><p class="b" style="color: blue" id="c">&lt;p style="x"&gt; &amp; <code>onclick="x"</code></p>
<svg style='width: 1&quot;px'><rect style="color: blue"/></svg><td style="text-align:left">1</td><i style>e</i></body>
"""


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def policy_of(page: str) -> dict[str, list[str]]:
    (content,) = re.findall(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)">', page)
    return {name: sources for name, *sources in (one.split() for one in content.split("; "))}


def test_a_page_allows_its_own_scripts_and_styles_by_their_digest():
    said = policy_of(with_policy(PAGE, {}, "_static/attributes.css"))
    assert said == {
        "default-src": ["'self'"],
        "script-src": ["'self'", digest('\n  one < two && "ü";\n')],
        "style-src": ["'self'", digest(".a { color: red }")],
        "img-src": ["'self'", "data:"],
        "object-src": ["'none'"],
        "base-uri": ["'none'"],
        "form-action": ["'self'"],
    }


def test_the_policy_stands_before_all_that_it_is_about():
    page = with_policy(PAGE, {}, "_static/attributes.css")
    assert page.startswith(f'{HEAD}<meta http-equiv="Content-Security-Policy"')
    assert page.index("Content-Security-Policy") < page.index("<link") < page.index("<script")


def test_a_style_is_a_class_and_all_else_stays():
    styles = {}
    page = with_policy(PAGE, styles, "_static/attributes.css")
    blue, wide, left = (f"s-{hashlib.sha256(s.encode()).hexdigest()[:8]}" for s in styles.values())
    assert styles == {blue: "color: blue", wide: 'width: 1"px', left: "text-align:left"}
    body = page[page.index("<body>") :]
    assert body == (
        f'<body><p class="b {blue}" id="c">&lt;p style="x"&gt; &amp; <code>onclick="x"</code></p>\n'
        f'<svg class="{wide}"><rect class="{blue}"/></svg><td class="{left}">1</td><i>e</i></body>\n'
    )


@pytest.mark.parametrize("wrong", ['<b onclick="x()">', "<img src=x OnError=x>", '<a href=" JavaScript:x()">'])
def test_a_script_in_an_attribute_stops_the_build(wrong):
    with pytest.raises(ValueError, match="a page must have no script in an attribute: got <.*; add a listener instead"):
        with_policy(f"{HEAD}{wrong}", {}, "")


def test_a_page_without_charset_stops_the_build():
    with pytest.raises(ValueError, match="a page must say its charset before its policy: got '<html>'"):
        with_policy("<html>", {}, "")


def test_a_style_that_ends_its_rule_stops_the_build():
    with pytest.raises(ValueError, match="a style must be declarations alone: got 'a: b} p {c: d'"):
        with_policy(f'{HEAD}<p style="a: b}} p {{c: d">', {}, "")


def test_two_styles_of_one_digest_stop_the_build():
    with pytest.raises(ValueError, match="two styles have the digest s-"):
        with_policy(PAGE, dict.fromkeys((f"s-{hashlib.sha256(b'color: blue').hexdigest()[:8]}",), "other"), "")


def test_each_page_of_a_folder_has_one_and_a_report_keeps_its_own(tmp_path):
    report = f"{HEAD}<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'\"><p style='a: b'></p>"
    for name, text in (("index.html", PAGE), ("chapters/one.html", PAGE), ("report.html", report), (SHEET, "old")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / SHEET.parent / "macros.html").write_text("no page", encoding="utf-8")
    assert give_policies(tmp_path) == 3
    assert '<link rel="stylesheet" href="_static/attributes.css">' in (tmp_path / "index.html").read_text("utf-8")
    assert '<link rel="stylesheet" href="../_static/attributes.css">' in (tmp_path / "chapters/one.html").read_text(
        "utf-8"
    )
    assert (tmp_path / "report.html").read_text("utf-8") == report
    assert (tmp_path / SHEET.parent / "macros.html").read_text("utf-8") == "no page"
    rules = (tmp_path / SHEET).read_text("utf-8").splitlines()
    assert len(rules) == 3
    assert all(re.fullmatch(r"\.s-[0-9a-f]{8}(:not\(#_\)){3} \{[^{}]+\}", rule) for rule in rules)


def test_nothing_unsafe_is_in_a_policy():
    assert "unsafe" not in policy(["1"], ["2"])
