"""What is no snapshot is named by its place; what older versions of PyTorch leave out is not missed; shared is once."""

import copy
import time

import pytest
from recorded_snapshots import PROGRAM_OF, of_an_older_version, recorded

from every_byte.ledger.plain_pickles import MOST_BYTES
from every_byte.snapshots.schema import NotASnapshot, TooMany, check


@pytest.mark.parametrize("name", PROGRAM_OF)
def test_recorded_snapshots_pass(name):
    check(recorded(name), MOST_BYTES)


def test_snapshots_of_older_versions_pass():
    """Without annotations and settings, without pools and times, and blocks without their addresses."""
    check(of_an_older_version("train"), MOST_BYTES)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s["device_traces"][0][17].update(size="x"),
         r"device_traces\[0\]\[17\].size must be a whole number, 0 or more, and no more than 2\^62: got 'x'\."),
        (lambda s: s["device_traces"][0][3].pop("action"), r"device_traces\[0\]\[3\] must have 'action': it has "),
        (lambda s: s["device_traces"][0][5]["frames"].append(3), r"\[5\].frames\[\d+\] must be a dict: got 3\."),
        (lambda s: s["segments"][0]["blocks"][0].update(state=None), r"blocks\[0\].state must be a string: got None"),
        (lambda s: s["segments"][0].update(segment_pool_id=(1,)), r"pool_id must be two whole numbers: got a tuple"),
        (lambda s: s["external_annotations"][2].pop("stage"), r"external_annotations\[2\] must have 'stage'"),
        (lambda s: s["device_traces"].append(None), r"device_traces\[1\] must be a list: got None\."),
        (lambda s: s.update(allocator_settings={"a" * 99: [[]]}), r"allocator_settings\['a{60}'\] must be a word or a"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_by_its_place(change, said):
    snapshot = copy.deepcopy(recorded("train"))
    change(snapshot)
    with pytest.raises(NotASnapshot, match=said):
        check(snapshot, MOST_BYTES)


def test_one_object_in_two_roles_is_checked_in_both():
    entry = {"action": "alloc", "addr": 0, "size": 1, "stream": 0}
    snapshot = {"device_traces": [[entry]], "segments": [entry]}
    with pytest.raises(NotASnapshot, match=r"device_traces\[0\]\[0\]|segments\[0\] must have 'address'"):
        check(snapshot, MOST_BYTES)


def test_what_is_shared_is_checked_once():
    frames = [{"name": "f", "filename": "a.py", "line": 1}] * 200_000
    entries = [{"action": "alloc", "addr": i, "size": 1, "stream": 0, "frames": frames} for i in range(2000)]
    start = time.process_time()
    check({"device_traces": [entries], "segments": []}, MOST_BYTES)
    assert time.process_time() - start < 10  # one by one these would be 400 million


def test_there_may_be_so_many_events_as_there_is_memory_for():
    entry = {"action": "alloc", "addr": 0, "size": 1, "stream": 0}
    check({"device_traces": [[entry] * 100], "segments": []}, 100 * 2048)
    with pytest.raises(TooMany, match=r"at most 99 events and blocks: device_traces\[0\] has 100"):
        check({"device_traces": [[entry] * 100], "segments": []}, 99 * 2048)
