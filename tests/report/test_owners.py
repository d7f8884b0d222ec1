"""Owners at any instant: what the ledger says there, alike rows as one; and the parts of the tree of modules."""

from collections import Counter

import pytest
from reported import of_a_gpt, of_an_mlp, out_of_memory

from every_byte.ledger.ledger import Ledger
from every_byte.ledger.trace import Trace
from every_byte.report.modules import largest_parts, tree
from every_byte.report.owners import about, instants, kind_of, owners_of

REPORTS = [of_an_mlp, of_a_gpt, out_of_memory]


@pytest.mark.parametrize("report", REPORTS)
def test_every_instant_is_the_ledgers(report):
    trace = report().trace
    positions = sorted({*range(1, len(trace) + 1, 17), trace.peak_position(), len(trace)})
    for position, found in zip(positions, instants(trace, positions, n=10_000), strict=True):
        ledger = Ledger.at(trace, position)
        assert found.by_category == {name: n for name, n in ledger.parts.items() if n}
        assert list(found.by_category) == list(ledger.parts)
        assert Counter(dict(found.largest)) == Counter(dict(owners_of(ledger.rows)))
        assert (found.n_allocations, found.allocated_bytes) == (len(ledger), ledger.allocated_bytes)


def test_the_largest_come_first():
    found = owners_of(of_a_gpt().peak.rows)
    sizes = [owner.n_bytes * n for owner, n in found]
    assert sizes == sorted(sizes, reverse=True)
    [instant] = instants(of_a_gpt().trace, [of_a_gpt().peak_position], n=3)
    assert [owner.n_bytes * n for owner, n in instant.largest] == sizes[:3]


def test_what_does_not_add_up_is_an_error():
    trace = of_an_mlp().trace
    broken = Trace("simulated", trace.gpu, events=[*trace.events[:40], *trace.events[41:]], owners=trace.owners)
    with pytest.raises(RuntimeError, match=r"owners must add up .* after 41 events, they have .*, and it counts"):
        list(instants(broken, [41]))


def test_alike_modules_are_of_one_kind():
    assert kind_of("blocks.3.mlp") == kind_of("blocks.12.mlp") == "blocks.*.mlp"
    assert (kind_of("0"), kind_of("layer1.conv2"), kind_of("")) == ("*", "layer1.conv2", "")
    assert about((), None) == "a number"
    assert about(None, None) == ""


@pytest.mark.parametrize("most", [1, 2, 4, 7, 100])
@pytest.mark.parametrize("report", REPORTS)
def test_parts_of_the_tree_add_up(report, most):
    ledger = report().account
    found = largest_parts(ledger.rows, most)
    assert len(found) <= most
    assert sum(part.n_bytes for part in found) == ledger.allocated_bytes == tree(ledger.rows).n_bytes
    assert sum(part.n_allocations for part in found) == len(ledger)
    sizes = [part.n_bytes for part in found]
    assert sizes == sorted(sizes, reverse=True)


def test_parts_name_kinds_of_modules():
    report = of_a_gpt()
    found = {part.path: part for part in largest_parts(report.peak.rows, 7)}
    blocks = [row for row in report.peak.rows if row.module.startswith("blocks.")]
    assert found["blocks.*"].n_modules == 3
    assert found["blocks.*"].n_bytes == sum(row.n_bytes + row.slack_bytes for row in blocks)
    assert found[""].is_own
