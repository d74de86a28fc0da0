"""The tuner: the same result with any number of jobs, values that replay, an end when told."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from octopipe_cli.list_scheduler import NEVER
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Request
from octopipe_cli.search.moves import MOVE_COUNT, MOVE_FUSE, MOVE_RANKS, MOVE_RECOMPUTE
from octopipe_cli.search.tuner import Found, Tuner, Watch
from octopipe_cli.simulate import simulate

from .test_anneal import model
from .test_relaxation import flat, layered

STARTS = [
    Assignment((0, 4, 8, 12), (0, 1, 2), (False,) * 3),
    Assignment((0, 2, 4, 6, 8, 10, 12), (0, 1, 2) * 2, (False,) * 6),
]


def tuner(*, jobs: int = 1, memory_gib: float | None = None, watch: Watch | None = None, **request: Any) -> Tuner:
    watch = watch or Watch(threading.Event(), None)
    return Tuner(model(), flat(3, memory_gib), Request(num_microbatches=4, **request), watch, jobs)


def tuned(made: Tuner) -> list[Found]:
    first = made.first_look(STARTS, [None, None], 50_000)
    later = made.round(first, 2, 80_000, 0.01, 0)
    return made.reorder(later[:2], 30_000, 0.001, 0)


def plain(found: list[Found]) -> list[Any]:
    return [(f.value, f.assignment, f.fused, f.rule, None if f.extra is None else f.extra.tolist()) for f in found]


@pytest.mark.parametrize("memory_gib", [None, 110 / 2**30])
def test_any_number_of_jobs_and_again(memory_gib: float | None) -> None:
    alone = plain(tuned(tuner(memory_gib=memory_gib)))
    assert plain(tuned(tuner(jobs=2, memory_gib=memory_gib))) == alone
    assert plain(tuned(tuner(jobs=3, memory_gib=memory_gib))) == alone
    assert plain(tuned(tuner(memory_gib=memory_gib, seed=1))) != alone


@pytest.mark.parametrize("objective", ["step", "span"])
@pytest.mark.parametrize("memory_gib", [None, 110 / 2**30])
def test_values_are_those_of_the_orders(memory_gib: float | None, objective: str) -> None:
    made = tuner(memory_gib=memory_gib, objective=objective)
    first = made.first_look(STARTS, [None, (True,) * 6], 50_000)
    later = made.round(first, 1, 80_000, 0.01, 0)
    last = made.reorder(made.first_look(STARTS, [None, (True,) * 6], 1), 120_000, 0.003, 0)  # the first rule only
    assert [f.assignment for f in first] == STARTS
    assert first[1].fused == (True,) * 6
    for before, annealed in zip(first, later, strict=True):
        assert before.value > annealed.value
    assert [(f.assignment, f.rule) for f in last] == [(start, 0) for start in STARTS]
    assert any(found.extra is not None for found in last)  # the order alone was made better
    for found in [*first, *later, *last]:
        pipeline = build_pipeline(model(), flat(3, memory_gib), found.assignment, 4)
        timeline = simulate(pipeline, made.orders(found))
        assert (timeline.span_ns if objective == "span" else timeline.step_time_ns) == found.value
        assert timeline.fits


def test_the_first_look_takes_the_best_rule_it_has_work_for() -> None:
    made = tuner()
    one, many = made.first_look(STARTS[:1], [None], 1), made.first_look(STARTS[:1], [None], 10**6)
    assert one[0].rule == 0
    assert many[0].value <= one[0].value


def test_it_ends_when_told() -> None:
    watch = Watch(threading.Event(), None)
    made = tuner(watch=watch)
    first = made.first_look(STARTS, [None, None], 50_000)
    watch.stop.set()
    began = time.monotonic()
    assert plain(made.round(first, 1, 10**12, 0.01, 0)) == plain(first)
    assert plain(made.reorder(first, 10**12, 0.01, 0)) == plain(first)
    assert time.monotonic() - began < 5
    late = Watch(threading.Event(), time.monotonic() - 1)
    assert late.over()
    assert not Watch(threading.Event(), time.monotonic() + 60).over()


def test_a_watch_sees_what_is_done() -> None:
    watch = Watch(threading.Event(), None)
    assert (watch.candidates, watch.best) == (0, NEVER)
    found = tuned(tuner(watch=watch))
    assert watch.candidates > 100
    assert watch.best <= min(f.value for f in found) < NEVER


def test_what_may_be_changed() -> None:
    assert tuner().allowed == MOVE_RANKS | MOVE_COUNT
    assert tuner(placement="v").allowed == 0
    assert tuner(memory_gib=1).allowed == MOVE_RANKS | MOVE_COUNT | MOVE_RECOMPUTE | MOVE_FUSE
    assert tuner(memory_gib=1, recompute="none").allowed == MOVE_RANKS | MOVE_COUNT | MOVE_FUSE
    assert tuner(memory_gib=1, backward="fused").allowed == MOVE_RANKS | MOVE_COUNT | MOVE_RECOMPUTE
    watch = Watch(threading.Event(), None)
    apart = layered(["a"] * 4, a={"ns": (1, 1, 1, 1)})
    assert Tuner(apart, flat(2), Request(num_microbatches=2), watch, 1).allowed & MOVE_FUSE


def test_starts_that_do_not_fit_have_no_value() -> None:
    made = tuner(memory_gib=40 / 2**30)
    assert made.first_look(STARTS[:1], [None], 50_000)[0].value == NEVER
