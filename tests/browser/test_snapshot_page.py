"""A snapshot's page in Chromium: a stranger's file runs nothing there, asks for nothing, and is drawn."""

import copy

from recorded_snapshots import recorded

from every_byte.snapshots.page import html_of
from every_byte.snapshots.summary import summary_of
from tools.chromium import chromium

HOSTILE = '</title></style></script><img src=x onerror="document[`title`]=1"><script>document.title=1</script>'


def test_a_strangers_snapshot_runs_nothing_and_is_drawn(tmp_path):
    snapshot = copy.deepcopy(recorded("leak"))
    for frame in {id(f): f for entry in snapshot["device_traces"][0] for f in entry.get("frames", ())}.values():
        frame["name"] += HOSTILE
        frame["filename"] = frame["filename"].replace("leak.py", f"{HOSTILE}leak.py")
    snapshot["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] = HOSTILE
    path = tmp_path / "page.html"
    path.write_text(html_of(summary_of(snapshot, f"{HOSTILE}.pickle")), encoding="utf-8")
    with chromium(viewport={"width": 390, "height": 900}) as page:
        said, asked = [], []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_load_state()
        assert said == []
        assert asked == [path.as_uri()]
        assert page.title() == f"{HOSTILE}.pickle: what a snapshot tells"
        assert page.locator("img, script").count() == 0
        assert page.locator("h1").inner_text() == f"{HOSTILE}.pickle"
        fills = page.locator("polygon").evaluate_all("them => them.map((each) => getComputedStyle(each).fill)")
        assert len(set(fills)) == len(fills) > 3
        assert page.locator(".eb-over-time").bounding_box()["height"] == 240
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
