"""A snapshot's page: what the text says, without a script, and nothing in a stranger's file becomes one."""

import base64
import copy
import hashlib
import pickle
import random
import re
from html import unescape

import pytest
from hostile_snapshots import all_files
from mutated import mutated
from recorded_snapshots import FOLDER, PROGRAM_OF, Making, recorded, told

from every_byte.ledger.plain_pickles import NotPlain, load
from every_byte.snapshots.page import MOST_LETTERS, MOST_LINES, html_of
from every_byte.snapshots.schema import NotASnapshot, check
from every_byte.snapshots.summary import summary_of
from every_byte.snapshots.text import text_of

HOSTILE = '</title></style></script><img src=x onerror="document[`title`]=1"><script>document.title=1</script>&amp;<!--'
MOST_BYTES = 2**26


def seen(page: str) -> str:
    """The words on the page, however they are set."""
    return " ".join(unescape(re.sub(r"<[^>]*>", " ", page.split("<body>")[1])).split())


def is_harmless(page: str) -> bool:
    """Whether it has the page's own elements alone, none of which runs anything or asks for anything."""
    tags = re.findall(r"<(\w+)", page)
    return not (
        {"script", "img", "iframe", "link", "object", "embed", "form", "base", "a", "use", "image"} & set(tags)
        or re.search(r"<[^>]* (on\w+|style|href|src)=", page)
        or (tags.count("title"), tags.count("style"), tags.count("body"), page.count("<!--")) != (1, 1, 1, 0)
    )


@pytest.mark.parametrize("name", PROGRAM_OF)
def test_it_says_what_the_text_says(name):
    """Each number of bytes in the text, each line of code and each sentence."""
    it = told(name)
    text, words = text_of(it), seen(html_of(it))
    assert re.findall(r"\d+(?:,\d{3})+", text)
    assert [number for number in re.findall(r"\d+(?:,\d{3})+", text) if number not in words] == []
    assert [line for line in re.findall(r"\w+\.py:\d+ \w+", text) if line not in words] == []
    blocks = [" ".join(block.split()) for block in text.split("\n\n") if block[0].isupper() and "  " not in block]
    for said in (said for block in blocks for said in re.split(r" - |: (?:- )?|(?<=\.) ", block)):
        assert said.rstrip(":") in words


@pytest.mark.parametrize("name", PROGRAM_OF)
def test_it_is_a_whole_page_without_a_script(name):
    page = html_of(told(name))
    assert page.startswith('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">')
    assert is_harmless(page)
    style = re.search("<style>(.*?)</style>", page, re.DOTALL).group(1)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; script-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert f'http-equiv="Content-Security-Policy" content="{policy}"' in page
    assert not re.search(r"https?:|//\w+\.\w|@import|url\(", page)
    levels = [int(level) for level in re.findall(r"<h(\d)", page)]
    assert levels[0] == 1
    assert set(levels[1:]) == {2}
    assert len(set(re.findall(r' id="([^"]+)"', page))) == len(re.findall(r' id="([^"]+)"', page))


def test_nothing_in_a_strangers_file_becomes_an_element():
    snapshot = copy.deepcopy(recorded("leak"))
    frames = {id(f): f for entry in snapshot["device_traces"][0] for f in entry.get("frames", ())}
    for number, frame in enumerate(frames.values()):
        frame["filename" if number % 2 else "name"] = HOSTILE
        if "leak.py" in frame["filename"]:
            frame["filename"] = f"{HOSTILE}/leak.py"
    for entry in snapshot["device_traces"][0]:
        entry["compile_context"] = entry["user_metadata"] = HOSTILE
    for one in snapshot["external_annotations"]:
        one["name"] = one["name"].replace("Optimizer", f"{HOSTILE}Optimizer")
    for segment in snapshot["segments"]:
        segment["segment_type"] = "<script>"
        for block in segment["blocks"]:
            block["state"] = HOSTILE if block["state"] == "inactive" else block["state"]
    snapshot["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] = HOSTILE
    check(snapshot, MOST_BYTES)
    page = html_of(summary_of(snapshot, HOSTILE))
    assert is_harmless(page)
    assert HOSTILE not in page
    assert page.count("&lt;img src=x") > 5
    assert "&lt;script&gt;" in page


def test_what_steers_a_terminal_is_not_in_it_either():
    made = Making()
    made.alloc(0, 512, "a\x1b[2J\u202e\udcff.py:1 f")
    page = html_of(summary_of(made.snapshot(), "a\udcff\n.pickle"))
    assert all(letter.isprintable() or letter == "\n" for letter in page)
    page.encode()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_whatever_the_opener_lets_pass_has_a_harmless_page(seed, tmp_path):
    drawn = random.Random(seed)
    whole = pickle.loads((FOLDER / "no_room.a100.pickle").read_bytes())
    files = list(all_files().values())[seed::4] + [mutated(pickle.dumps(whole), drawn, 1) for _ in range(30)]
    n = 0
    for data in files:
        (tmp_path / "a.pickle").write_bytes(data)
        try:
            snapshot = load(tmp_path / "a.pickle", MOST_BYTES)
            check(snapshot, MOST_BYTES)
        except (NotPlain, NotASnapshot):
            continue
        assert is_harmless(html_of(summary_of(snapshot, "a.pickle")))
        n += 1
    assert n


def test_of_very_many_lines_the_largest_are_shown_and_long_ones_are_cut():
    made = Making()
    for n in range(MOST_LINES + 3):
        made.alloc(4096 * n, 512 * (n + 1), f"{'x' * 300}{n}.py:{n + 1} f")
    page = html_of(summary_of(made.snapshot(), "a.pickle"))
    assert len(re.findall("<code>", page)) == MOST_LINES
    assert "3 other lines" in page
    assert "x" * (MOST_LETTERS + 1) not in page


def test_segments_alone_have_a_page():
    snapshot = copy.deepcopy(recorded("train"))
    snapshot["device_traces"] = [[]]
    page = html_of(summary_of(snapshot, "a.pickle"))
    assert "segments alone, without a history" in page
    assert 'id="segments"' in page
    assert 'id="time"' not in page
    assert is_harmless(page)


def test_nothing_at_all_has_a_page():
    assert is_harmless(html_of(summary_of({"device_traces": [[]], "segments": []}, "a.pickle")))
