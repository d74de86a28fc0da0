from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from octopipe_cli.engines.megatron_orders import one_f_one_b
from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Action
from octopipe_cli.replay import replay
from octopipe_cli.run.environment import under_torchrun
from octopipe_cli.run.job import Check, Job, Outcome, Span
from octopipe_cli.run.measured import compare
from octopipe_cli.run.recorder import Recorder
from octopipe_cli.run.timed import TimedWorkload, stretched
from octopipe_cli.run.watch import ended, where
from octopipe_cli.simulate import Timeline
from tests.engines.plans import plan_of
from tests.instances import plan_from, random_instance
from tests.render.plans import MS

PLAN = plan_of([["embedding"], ["head"]], [0, 1], one_f_one_b(2, 2), 2)
PREDICTED = replay(PLAN, "")


def spans(timeline: Timeline, later: int, longer: int) -> list[list[Span]]:
    """Return a timeline as if measured: all of it later, every action longer at its end."""
    return [
        [
            Span(action, start + later, end + later + longer)
            for action, start, end in zip(actions, timeline.start_ns[rank], timeline.end_ns[rank], strict=True)
        ]
        for rank, actions in enumerate(timeline.orders)
    ]


def test_the_fastest_step_is_set_beside_the_predicted_one() -> None:
    steps = [spans(PREDICTED, later, longer) for later, longer in ((5 * MS, 3 * MS), (7 * MS, 1 * MS), (0, 2 * MS))]
    found = compare(PREDICTED, Outcome(steps))
    step = PREDICTED.step_time_ns
    assert found.step_times_ns == (step + 3 * MS, step + MS, step + 2 * MS)
    assert found.measured.step_time_ns == step + MS
    assert found.measured.first_start_ns(0) == 0
    assert found.error == MS / step
    assert found.median_ns == step + 2 * MS
    assert [(each.kind, each.count, each.mean_ns, each.largest_ns) for each in found.kinds] == [
        ("F", 4, MS, MS),
        ("B", 4, MS, MS),
    ]


def test_gaps_count_where_nothing_is_waited_for() -> None:
    """Rank 0 runs F F back to back and waits after that; rank 1 runs F B F B without a break."""
    steps = [spans(PREDICTED, 0, -MS)]
    assert compare(PREDICTED, Outcome(steps)).gap_ns == MS


def test_another_order_than_the_plans_is_refused() -> None:
    ran = spans(PREDICTED, 0, 0)
    ran[0].reverse()
    with pytest.raises(InvalidPlanError, match="the engine ran other actions"):
        compare(PREDICTED, Outcome([ran]))


@pytest.mark.parametrize(
    ("check", "holds"),
    [
        (Check(1.0, 1.0, 4, 1e-7, "a"), True),
        (Check(1.0, 1.0, 4, 1e-5, "a"), False),
        (Check(1.0, 1.1, 4, 0.0, "a"), False),
        (Check(float("nan"), 1.0, 4, 0.0, "a"), False),
        (Check(1.0, 1.0, 4, float("nan"), "a"), False),
        (Check(1.0, 1.0, 4, 0.0, "a", ("b",)), False),
    ],
)
def test_when_a_check_holds(check: Check, holds: bool) -> None:
    assert check.holds(1e-6) is holds


def job() -> Job:
    return Job(PLAN, PREDICTED, "", TimedWorkload(PREDICTED))


def test_where_a_rank_is() -> None:
    assert where(job(), 0, -1, 0) == "rank 0 is starting"
    assert where(job(), 1, 0, 2) == "rank 1 is in 1F1, action 3 of 4"
    assert where(job(), 1, 0, 4) == "rank 1 has ended its actions"
    assert [ended(job(), 1, 0, done) for done in (3, 4)] == [False, True]


def test_torchrun_is_known_by_its_variables() -> None:
    told = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "here", "MASTER_PORT": "1"}
    assert under_torchrun(told) == (1, 4)
    assert under_torchrun({name: value for name, value in told.items() if name != "MASTER_PORT"}) is None


@pytest.mark.parametrize("seed", range(5))
def test_a_stretched_plan_takes_as_much_longer(seed: int) -> None:
    plan = plan_from(random_instance(Random(seed)))
    longer = stretched(plan, 3)
    assert replay(longer, "").step_time_ns == 3 * replay(plan, "").step_time_ns
    assert Loaded(longer, "", "").value.orders == plan.orders


class Told:
    """A workload that notes what it is told, and waits in its first action."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def before(self, action: Action) -> None:
        self.told.append(f"before {action}")

    def after(self, action: Action) -> None:
        self.told.append(f"after {action}")


def test_the_recorder_times_what_the_runtime_calls() -> None:
    told = Told()
    done: list[int] = []
    recorder = Recorder(told, lambda: done.append(1), cuda=False)  # type: ignore[arg-type]
    calls: list[Any] = []
    stage = SimpleNamespace(
        stage_index=3,
        forward_one_chunk=lambda *a, **n: calls.append(("F", a, n)) or "output",
        backward_one_chunk=lambda *a, **n: calls.append(("B", a, n)),
        backward_weight_one_chunk=lambda *a, **n: calls.append(("W", a, n)),
    )
    recorder.watch(stage)
    assert stage.forward_one_chunk(5, "x", save_forward_output=False) == "output"
    stage.backward_one_chunk(5, loss=None, full_backward=False, last_backward=False)
    stage.backward_weight_one_chunk(5, last_backward=True)
    stage.backward_one_chunk(6, loss=1, full_backward=True, last_backward=True)
    assert [str(span.action) for span in recorder.spans()] == ["3F5", "3I5", "3W5", "3B6"]
    assert all(span.start_ns <= span.end_ns for span in recorder.spans())
    assert told.told == [f"{when} {each}" for each in ("3F5", "3I5", "3W5", "3B6") for when in ("before", "after")]
    assert len(done) == 4
    assert calls[0] == ("F", (5, "x"), {"save_forward_output": False})
    assert calls[2] == ("W", (5,), {"last_backward": True})
    recorder.begin()
    assert recorder.spans() == []


def test_what_a_timed_stage_takes_follows_the_action() -> None:
    pytest.importorskip("torch", reason="the layers are torch's")
    workload = TimedWorkload(PREDICTED)
    workload.start("cpu", lambda: None)
    workload.module(1)
    part = workload.parts[1]
    took = []
    for kind in ("F", "B", "I", "W"):
        workload.before(Action(1, kind, 0))  # type: ignore[arg-type]
        took.append((part.busy_ns, part.weight_ns))
    assert took == [(10 * MS, 0), (20 * MS, 0), (10 * MS, 0), (0, 10 * MS)]
