"""Steps are found by PyTorch's annotations, else by call stacks of torch/optim; several optimizers in a row are one."""

from recorded_snapshots import Making, told

from every_byte.snapshots.stepping import ANNOTATIONS, FRAMES, Span, steps_of

STEP = "site-packages/torch/optim/sgd.py:1 step"


def test_steps_of_recorded_programs():
    for name, n in {"train": 3, "leak": 5, "python": 5, "no_room": 0, "cut": 2}.items():
        steps = told(name).steps
        assert len(steps) == n
        assert steps.found_by == (ANNOTATIONS if n else "")


def test_without_annotations_they_are_found_by_call_stacks_where_they_were():
    it = told("train")
    by_annotations = it.steps.spans
    it.history.annotations.clear()
    by_frames = steps_of(it.history)
    assert by_frames.found_by == FRAMES
    assert [it.totals[span.end] for span in by_frames.spans] == [it.totals[span.end] for span in by_annotations]


def test_optimizers_that_step_one_after_the_other():
    made = Making()
    for i in range(6):
        made.alloc(i * 512, 8)
    made.named("Optimizer.step#A.step", 1, 2)
    made.named("Optimizer.step#B.step", 2, 3)
    made.named("Optimizer.step#A.step", 4, 5)
    made.named("Optimizer.step#B.step", 6, 6)
    assert steps_of(made.history()).spans == (Span(1, 0, 3), Span(2, 3, 5), Span(3, 5, 6))


def test_by_call_stacks():
    made = Making()
    made.alloc(0, 8)
    made.alloc(512, 8, STEP)
    made.free(512, 8, STEP)
    made.alloc(512, 8)
    made.alloc(1024, 8, STEP)
    assert [(span.begin, span.end) for span in steps_of(made.history()).spans] == [(0, 3), (3, 6)]
