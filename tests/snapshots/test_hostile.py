"""What strangers hand over: whatever a file holds, `every-byte read` runs nothing of it, and takes little to say so."""

import pickle
import random

import pytest
from hostile_snapshots import all_files, large_snapshot, near_the_limit, shared
from mutated import mutated
from opening_snapshots import Opening
from recorded_snapshots import FOLDER

MOST_BYTES, MOST_SECONDS = 2**30, 10
N_MUTATED = 200
PLAIN_ENOUGH = {
    "entry's stream: int 9223372036854775808",
    "entry's addr: int 9223372036854775808",
    "entry's time_us: int -1",
    "protocol 1",
}
"""None of these was written by PyTorch, and yet there is nothing wrong with them but that."""


@pytest.fixture(scope="module")
def opening(tmp_path_factory):
    made = Opening(tmp_path_factory.mktemp("hostile"))
    yield made
    made.close()


def opened(opening, data: bytes, **more):
    (opening.folder / "snapshot.pickle").write_bytes(data)
    found = opening("snapshot.pickle", **more)
    assert found.code in (0, 2), found.err
    assert found.seconds < MOST_SECONDS
    assert found.peak_bytes < MOST_BYTES
    assert [path.name for path in opening.folder.iterdir()] == ["snapshot.pickle"]
    if found.code == 2:
        *usage, sentence = found.err.strip().split("\n")
        assert usage == ["usage: every-byte read [options] SNAPSHOT"]
        assert sentence.startswith("every-byte read: error: ")
    else:
        assert found.err == ""
    return found


@pytest.mark.long
def test_each_hostile_file_is_refused_in_a_sentence_or_read_and_costs_little(opening):
    files = all_files()
    assert len(files) > 100
    read = {name for name, data in files.items() if opened(opening, data).code == 0}
    assert read <= PLAIN_ENOUGH


@pytest.mark.long
def test_what_started_the_process_counts_for_nothing(tmp_path):
    """A process that pytest starts has, by `ru_maxrss`, had all that pytest's own process ever had."""
    ours = b"x" * MOST_BYTES
    opening = Opening(tmp_path)
    found = opening("no_such_file.pickle")
    opening.close()
    assert found.peak_bytes < len(ours)


@pytest.mark.long
def test_a_sentence_says_what_is_wrong_and_where(opening):
    files = all_files()
    for name, said in {
        "instruction REDUCE": "REDUCE, which would import or call os.system; nothing of the file was run.",
        "a file of torch.save": "this is a zip archive, as torch.save writes.",
        "entry's size: str x": "device_traces[0][0].size must be a whole number, 0 or more, and no more than 2^62: got",
        "a circular list of events": "device_traces[0][1] must be a dict: got a list of 2.",
        "segment's blocks a word": "segments[0].blocks must be a list: got 'x'.",
        "frame without line": "device_traces[0][0].frames[0] must have 'line': it has 'name', 'filename'.",
    }.items():
        assert said in opened(opening, files[name]).err


@pytest.mark.long
@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", shared())
def test_what_is_shared_a_million_times_is_read_or_refused_and_costs_little(name, opening):
    opened(opening, shared()[name], fork=True)


@pytest.mark.long
def test_mutated_snapshots_are_read_or_refused(opening):
    drawn = random.Random(11)
    wholes = [(FOLDER / f"{name}.a100.pickle").read_bytes() for name in ("no_room", "python")]
    plain = pickle.loads(wholes[1])
    wholes += [pickle.dumps(plain, protocol=protocol) for protocol in (2, 3, 5)]
    codes = [opened(opening, mutated(drawn.choice(wholes), drawn, 3)).code for _ in range(N_MUTATED)]
    assert codes.count(2) > N_MUTATED // 2
    assert codes.count(0) > 5


@pytest.mark.long
def test_values_exchanged_in_snapshots_are_read_or_refused(opening):
    """What the opener lets pass, and is no snapshot for all that."""
    drawn = random.Random(5)
    whole = (FOLDER / "no_room.a100.pickle").read_bytes()
    for _ in range(60):
        snapshot = pickle.loads(whole)
        entries = drawn.choice([snapshot["device_traces"][0], snapshot["segments"], snapshot["segments"][0]["blocks"]])
        for _ in range(drawn.randint(1, 5)):
            one = drawn.choice(entries)
            values = (
                0,
                -1,
                1,
                2**40,
                2**63,
                "alloc",
                "free_requested",
                "segment_free",
                "oom",
                None,
                [],
                {},
                (0, 1),
                1.5,
            )
            one[drawn.choice(sorted(one))] = drawn.choice(values)
        drawn.shuffle(entries)
        opened(opening, pickle.dumps(snapshot))


@pytest.mark.nightly
@pytest.mark.parametrize("name", near_the_limit(0))
def test_a_file_near_the_limit_is_refused_and_costs_no_more_than_is_allowed(name, opening):
    data = near_the_limit(127 * 2**20)[name]()
    assert opened(opening, data, fork=True).code == 2


def test_a_file_that_takes_more_than_is_allowed_is_refused_with_what_allows_it(opening):
    (opening.folder / "snapshot.pickle").write_bytes(large_snapshot(2**20))
    refused = opening("snapshot.pickle", "--most-mib", "8")
    assert refused.code == 2
    assert "Allow more MiB: --most-mib 32." in refused.err
    (opening.folder / "snapshot.pickle").write_bytes(large_snapshot(2**22))
    assert "the file must have" not in opening("snapshot.pickle", "--most-mib", "1").err


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none.pickle", "the snapshot must be a file: got 'none.pickle', which is none here"),
        (".", "the snapshot must be a file: got '.', a folder"),
    ],
)
def test_no_file(name, said, opening):
    found = opening(name)
    assert found.code == 2
    assert said in found.err


def test_nothing_in_a_name_steers_the_terminal(opening):
    snapshot = pickle.loads((FOLDER / "leak.a100.pickle").read_bytes())
    for frame in {id(f): f for entry in snapshot["device_traces"][0] for f in entry.get("frames", ())}.values():
        frame["filename"] = frame["filename"].replace("leak.py", "\x1b[2Jleak\n\udcff.py")
    snapshot["segments"][0]["segment_type"] = "\x1b[0m\u202e"
    snapshot["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] = "\x1b\x07"
    found = opened(opening, pickle.dumps(snapshot))
    assert found.code == 0
    assert all(line.isprintable() for line in found.out.split("\n"))
    assert r"\x1b[2Jleak\x0a\udcff.py:14 forward" in found.out
