"""The sections of a report's page that need no script: the verdict, categories, steps, GPUs, and what is not known."""

import shlex
from collections.abc import Iterator, Sequence

from every_byte.report.fits import Verdict
from every_byte.report.run import Run
from every_byte.report.shortage import Shortage
from every_byte.units import exact

from . import exactness, facts, gpus, lines
from .markup import Html, element, joined, n_bytes, sentences, swatch, table
from .steps import steps_on_a_page
from .verdict import verdict, when


def sections(report: Run, names: Sequence[str]) -> Iterator[Html]:
    """All of them in order; `names` are the categories in the order of their numbers."""
    yield _head(report)
    if not report.is_empty:
        shortage = [_shortage(report, report.shortage)] if report.shortage else []
        if not report.holds_something:
            yield from shortage
        else:
            run = _section("run", "The run, allocation by allocation", _for_script("timeline"))
            account = _account(report, names)
            yield from (account, *shortage, run) if report.ran_out else (run, account, *shortage)
        if report.steps:
            steps = steps_on_a_page("Bytes of each step", report.steps, report.peak_place.step)
            yield _section("steps", "Step by step", steps, sentences(facts.turns(report)))
        yield _section("gpus", "Where it fits", *_gpus(report))
    yield _section("known", "How exact this is", *_known(report))
    yield _section("made", "How this was made", *_made(report))


def title_of(report: Run) -> str:
    """What it is a report of."""
    program = next((word for word in reversed(report.command) if word.endswith(".py")), "A program")
    return f"{program.rsplit('/', 1)[-1]} on {report.gpu}"


def _section(name: str, title: str, *content: object) -> Html:
    return element("section", element("h2", title, id=name), *content, aria_labelledby=name)


def _for_script(name: str) -> Html:
    return element(
        "div", element("p", "This part is drawn by the page's script, which is switched off."), id=f"{name}-here"
    )


def fit_box(report: Run) -> Html:
    """The verdict, what to do first, and why."""
    found = verdict(report)
    fits = {True: "true", False: "false", None: "unknown"}[found.is_good]
    first = [element("p", sentence, class_="eb-first") for sentence in found.first]
    said = element("strong", f"{found.headline}.", title=found.in_full or None), *first, sentences(*found.reasons)
    return element("div", *said, class_="eb-fit", data_fits=fits)


def _head(report: Run) -> Html:
    named = [joined((element("dt", name), element("dd", said))) for name, said in facts.peaks(report)]
    return element(
        "header",
        element("h1", title_of(report)),
        fit_box(report),
        *([] if not report.holds_something else [_for_script("card"), element("dl", *named, class_="eb-facts")]),
        element("p", facts.ran(report), class_="eb-ran"),
    )


def _shortage(report: Run, shortage: Shortage) -> Html:
    rows = [
        ["asked for", n_bytes(shortage.asked_bytes)],
        ["left to the driver", n_bytes(shortage.driver_bytes)],
        ["free in segments", n_bytes(shortage.cached_bytes)],
    ]
    if pieces := shortage.free_pieces:
        name = f"the largest of these {len(pieces):,d} pieces" if len(pieces) > 1 else "that is in one piece"
        rows.append([name, n_bytes(pieces[0])])
    rows.append(["in use", n_bytes(shortage.allocated_bytes)])
    if shortage.is_end:
        own = report.fits.own
        rows.append(["needed at once, without slack", n_bytes(own.in_use_bytes)])
        rows.append(["segments, where there is room for all", n_bytes(own.needed_bytes)])
    n = len(report.survived)
    last = f"; this is the last of {n:,d} such requests" if n > 1 else ""
    went_on = "" if shortage.is_end else f"The program went on after it{last}."
    began = "" if shortage.place.step else ", before the first step ended"
    place = f"{shortage.place}{facts.at_line(report, shortage.place.line)}{began}."
    return _section(
        "memory-ran-out",
        "Where memory ran out",
        sentences(place[0].upper() + place[1:], went_on),
        table("Bytes at that moment", ["what", "bytes"], rows, numbers=1),
        _for_script("map"),
    )


def _account(report: Run, names: Sequence[str]) -> Html:
    ledger = report.account
    whole = ledger.allocated_bytes
    title = "Who had the memory when it ran out" if report.ran_out else "Who owns the peak"
    at = when(report.fatal.place) if report.fatal else str(report.peak_place)
    rows = [
        [
            joined((swatch(names.index(group.key[0]) + 1), " ", group.key[0])), f"{group.n_allocations:,d}",
            n_bytes(group.n_bytes), n_bytes(group.slack_bytes), n_bytes(group.n_bytes + group.slack_bytes),
            facts.percent(group.n_bytes + group.slack_bytes, whole),
        ]
        for group in ledger.by("category")
    ]  # fmt: skip
    total = n_bytes(ledger.requested_bytes), n_bytes(ledger.slack_bytes), n_bytes(whole)
    rows.append(["total", f"{len(ledger):,d}", *total, "100 %"])
    head = ["category", "allocations", "requested", "slack", "allocated", "share"]
    return _section(
        "owners",
        title,
        sentences(f"{at[0].upper()}{at[1:]}: {exact(whole)} allocated."),
        table("By category", head, rows, numbers=5, foot=True),
        element("h3", "By module"),
        _for_script("tree"),
        element("h3", "As a flame graph"),
        _for_script("flame"),
        *([element("h3", "By line"), lines.on_a_page(report, ledger)] if report.line_names else []),
    )


def _gpus(report: Run) -> Iterator[Html]:
    if report.survived:
        yield sentences(facts.GOES_ON)
        return
    found = report.fits
    yield sentences(f"Replayed on an allocator of each one's size: {found.basis}.")
    if report.growth:
        yield sentences(f"Memory grows with each step: this is up to step {report.growth.step}.")
    rows = [
        [_name(one), _fit(one, found.is_partial), n_bytes(one.needed_bytes), n_bytes(one.room_bytes), gpus.spare(one)]
        for one in found.verdicts
    ]
    head = ["GPU", "verdict", "segments need", "there is room for", "that is"]
    yield table("The GPUs that are known", head, rows, numbers=3)
    if not all(one.is_alike for one in found.verdicts):
        yield sentences(facts.another(report))


def _name(one: Verdict) -> Html:
    device = "" if one.device_name == one.gpu else element("small", one.device_name)
    return joined((gpus.starred(one), device))


def _fit(one: Verdict, is_partial: bool) -> Html:
    fits = "gets that far" if is_partial else "fits"
    return element("span", fits if one.fits else "does not fit", class_="eb-good" if one.fits else "eb-bad")


def _known(report: Run) -> Iterator[Html]:
    yield sentences(exactness.sentences(report, "below"))
    if report.notes:
        items = [
            element("li", element("strong", note.what.rstrip(".")), str(note)[len(note.what.rstrip(".")) :])
            for note in report.notes
        ]
        yield element("h3", "Not followed or not known")
        yield element("ul", *items)


def _made(report: Run) -> Iterator[Html]:
    if report.command:
        yield element("pre", shlex.join(report.command), class_="eb-code", tabindex="0", aria_label="the command")
    if report.ended:
        code = f" Exit code {report.exit_code}." if report.exit_code else ""
        yield sentences(f"How it ended: {report.ended.rstrip('.')}.{code}")
    events = f"{len(report.trace):,d} events" if len(report.trace) != 1 else "1 event"
    yield sentences(
        f"{report.origin.capitalize()} with the rules of PyTorch {report.torch_version}, {events}. GiB are 2^30 bytes; "
        "allocated bytes are whole blocks, reserved bytes are segments, both of PyTorch's caching allocator."
    )
