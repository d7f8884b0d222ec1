"""What pages share is in few files, which have what the pages use, in the order in which it stood."""

import re
import shutil

import pytest

from tools.site import install_parts
from tools.site_bundles import _in_one_order, _one_viewport, bundle

PAGE = """<!DOCTYPE html>
<html data-content_root="{root}"><head>
<meta name="viewport" content="width=device-width, initial-scale=1.0" />
<meta name="viewport" content="width=device-width, initial-scale=1" />
<link rel="stylesheet" href="{root}_static/theme/a.css?v=1" />
<link rel="stylesheet" type="text/css" href="{root}_static/b.css" />
<link rel="stylesheet" href="{root}_static/later.css" />
<script src="{root}_static/first.js?v=2"></script>
<script>inline();</script>
<script defer="defer" src="{root}_static/second.js"></script>{own}
</head><body><p class="used" id="here">text</p></body></html>
"""
FILES = {
    "theme/a.css": '@charset "UTF-8";@import "../base.css";.used{background:url("../pictures/x.svg")}.unused{top:1px}',
    "base.css": ".used{color:blue}",
    "b.css": ".used{color:green}.made-later{top:1px}.eb-bar{left:1px}",
    "first.js": '"use strict"; const first = 1;',
    "second.js": 'const second = () => "made-later";',
    "own.js": "const own = 1;",
}


@pytest.fixture
def pages(tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("needs npm, for what makes the bundles")
    for name, text in FILES.items():
        (tmp_path / "_static" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "_static" / name).write_text(text, encoding="utf-8")
    (tmp_path / "chapters").mkdir()
    own = '\n<script defer src="_static/own.js"></script>'
    (tmp_path / "index.html").write_text(PAGE.format(root="./", own=own), encoding="utf-8")
    (tmp_path / "chapters" / "one.html").write_text(PAGE.format(root="../", own=""), encoding="utf-8")
    (tmp_path / "_static" / "report.html").write_text("<p>a report</p>", encoding="utf-8")
    bundle(tmp_path, install_parts())
    return tmp_path


def test_each_page_loads_one_sheet_and_two_scripts_in_place_of_theirs(pages):
    for name, root in (("index.html", "_static"), ("chapters/one.html", "../_static")):
        page = (pages / name).read_text(encoding="utf-8")
        files = [file.removeprefix(f"{root}/") for file in re.findall(r'(?:href|src)="([^"]+)"', page)]
        kinds = [re.sub(r"site-[0-9a-f]{10}", "site", file).removeprefix("./_static/") for file in files]
        assert kinds[0] == "site.css"
        assert [kind for kind in kinds if kind.endswith(".js")][:2] == ["site.js", "site.js"]
        assert any(kind.endswith("later.css") for kind in kinds)  # which comes after the bundles are made
        assert any(kind.endswith("own.js") for kind in kinds) is (name == "index.html")
        assert page.count('name="viewport"') == 1
        assert "<script>inline();</script>" in page
    assert (pages / "_static" / "report.html").read_text(encoding="utf-8") == "<p>a report</p>"


def test_the_sheet_has_what_pages_and_scripts_use_in_order_and_its_addresses_lead_where_they_led(pages):
    (sheet,) = (pages / "_static").glob("site-*.css")
    style = sheet.read_text(encoding="utf-8")
    assert "unused" not in style
    assert "made-later" in style
    assert "eb-bar" in style
    assert re.search(r'url\("?pictures/x\.svg"?\)', style)
    assert re.findall(r"color:\s*([#\w]+)", style) in (["#00f", "green"], ["blue", "green"])


def test_the_scripts_keep_their_names_and_none_is_made_strict(pages):
    scripts = {path.name: path.read_text(encoding="utf-8") for path in (pages / "_static").glob("site-*.js")}
    assert len(scripts) == 2
    assert sorted(name for text in scripts.values() for name in re.findall(r"const (\w+)", text)) == ["first", "second"]
    assert not any(text.startswith('"use strict"') for text in scripts.values())


def test_one_order_keeps_every_lists_own():
    assert _in_one_order([["a", "c"], ["a", "b", "c", "d"], ["e", "d"]]) == ["e", "a", "b", "c", "d"]
    assert _in_one_order([]) == []


def test_a_page_without_a_viewport_stays_as_it_is():
    assert _one_viewport("<head></head>") == "<head></head>"
