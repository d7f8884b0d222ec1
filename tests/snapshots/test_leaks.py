"""What each step leaves beyond what it replaced is told by the line that made it; what begins once is not."""

from recorded_snapshots import Making, told


def test_the_recorded_leak_is_told_by_its_lines():
    """Each step keeps the batch, what ReLU and the layers saved, and the loss, of 64 rows of float32."""
    leaks = told("leak").leaks
    assert {(leak.place, leak.made_by): (leak.n_steps, leak.bytes_a_step) for leak in leaks} == {
        ("leak.py:14 forward", "relu"): (4, 64 * 1024 * 4),
        ("leak.py:14 forward", "addmm"): (4, 64 * 256 * 4),
        ("leak.py:22 main", "randn"): (4, 64 * 256 * 4),
        ("leak.py:23 main", "mean"): (4, 512),
    }
    steps = told("leak").each_step()
    growth = [after.allocated_bytes - before.allocated_bytes for before, after in zip(steps[1:], steps[2:])]
    assert growth == [sum(leak.bytes_a_step for leak in leaks)] * 3


def test_a_program_that_keeps_nothing_grows_nowhere():
    assert told("train").leaks == []
    assert told("no_room").leaks == []


def steps(*kept: list[tuple[int, str]]) -> Making:
    """A program whose steps keep these sizes, by their lines, and replace a batch."""
    made, address = Making(), 1 << 20
    for number, sizes in enumerate(kept):
        batch = (number % 2) * 4096
        made.alloc(batch, 700, "train.py:1 main")
        if number:
            made.free(4096 - batch, 700)
        for size, line in sizes:
            made.alloc(address, size, line)
            address += 1 << 16
        made.alloc(8192, 8, "site-packages/torch/optim/sgd.py:1 step", "train.py:9 main")
        made.free(8192, 8, "site-packages/torch/optim/sgd.py:1 step", "train.py:9 main")
    return made


def test_what_grows_in_two_steps_in_a_row():
    it = steps([(900, "a.py:1 f")], [(900, "a.py:1 f")], [(900, "a.py:1 f"), (10, "b.py:1 f")]).told()
    assert [(leak.place, leak.n_steps, leak.step_bytes) for leak in it.leaks] == [("a.py:1 f", 2, (1024, 1024))]


def test_what_grows_by_more_each_time():
    sizes = [[(512 * n, "a.py:1 f")] for n in (9, 1, 2, 3)]
    (leak,) = steps(*sizes).told().leaks
    assert (leak.n_steps, leak.step_bytes, leak.bytes_a_step) == (3, (512, 1024, 1536), 1024)


def test_what_stopped_growing_is_no_leak():
    assert steps(*[[(900, "a.py:1 f")]] * 4, []).told().leaks == []


def test_two_steps_say_nothing():
    assert steps(*[[(900, "a.py:1 f")]] * 2).told().leaks == []
