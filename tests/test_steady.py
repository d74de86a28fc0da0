"""The steady state: what repeats does so exactly, and as long as it is said to."""

from __future__ import annotations

import msgspec
import pytest

from octopipe_cli.plan import Action, Orders, Plan
from octopipe_cli.simulate import Timeline
from octopipe_cli.steady import Steady, steady_state
from tests.render.plans import MS, make_plan, one_f_one_b, replay, v_plan, wide_plan


def doings(timeline: Timeline, steady: Steady, number: int) -> list[list[tuple[int, str, int, int, int]]]:
    """Return what each rank does in a period, micro-batches and times counted from the period's."""
    begin = steady.from_ns + number * steady.period_ns
    end = begin + steady.period_ns
    shift = number * steady.microbatches
    return [
        [
            (a.stage, a.kind, a.microbatch - shift, max(start, begin) - begin, min(stop, end) - begin)
            for a, start, stop in zip(orders, starts, ends, strict=True)
            if start < end and stop > begin
        ]
        for orders, starts, ends in zip(timeline.orders, timeline.start_ns, timeline.end_ns, strict=True)
    ]


def check(timeline: Timeline, steady: Steady) -> None:
    first = doings(timeline, steady, 0)
    assert sum(map(len, first)) > 0
    for number in range(1, steady.repeats):
        assert doings(timeline, steady, number) == first
    assert steady.to_ns <= timeline.step_time_ns


def interleaved(num_ranks: int, chunks: int, num_microbatches: int) -> Orders:
    """Return orders in which each rank takes groups of micro-batches through its stages: forward, then backward."""
    orders = []
    for rank in range(num_ranks):
        actions: list[Action] = []
        for group in range(0, num_microbatches, num_ranks):
            inside = range(group, group + num_ranks)
            actions += [Action(c * num_ranks + rank, "F", m) for c in range(chunks) for m in inside]
            actions += [Action(c * num_ranks + rank, "B", m) for c in reversed(range(chunks)) for m in inside]
        orders.append(tuple(actions))
    return tuple(orders)


def looped() -> Plan:
    return make_plan([0, 1, 2, 0, 1, 2], interleaved(3, 2, 30), {"F": 4 * MS, "B": 9 * MS}, num_microbatches=30)


def test_one_f_one_b_repeats_a_micro_batch() -> None:
    timeline = replay(wide_plan(4, 64))
    steady = steady_state(timeline)
    # The last rank is at work without a gap, 12 ms a micro-batch; 36 ms to fill three stages, then the first B's way.
    assert steady == Steady(from_ns=40 * MS, period_ns=12 * MS, microbatches=1, repeats=60)
    check(timeline, steady)


@pytest.mark.parametrize("plan", [wide_plan(2, 7), wide_plan(4, 16), wide_plan(8, 40), looped()])
def test_every_period_is_like_the_first(plan: Plan) -> None:
    timeline = replay(plan)
    steady = steady_state(timeline)
    assert steady is not None
    check(timeline, steady)
    longer = steady._replace(repeats=steady.repeats + 1)
    assert longer.to_ns > timeline.step_time_ns or doings(timeline, longer, steady.repeats) != doings(
        timeline, longer, 0
    )


def test_groups_repeat_as_groups() -> None:
    steady = steady_state(replay(looped()))
    assert steady is not None
    assert steady.microbatches == 3


def test_what_is_disturbed_in_the_middle_repeats_on_one_side_only() -> None:
    plan = wide_plan(4, 64)
    orders = [list(order) for order in replay(plan).orders]
    at = orders[3].index(Action(3, "B", 15))
    orders[3][at], orders[3][at + 1] = orders[3][at + 1], orders[3][at]  # 3F16 before 3B15
    from octopipe_cli.plan import write_orders

    timeline = replay(msgspec.structs.replace(plan, orders=write_orders(tuple(map(tuple, orders)))))
    steady = steady_state(timeline)
    assert steady is not None
    check(timeline, steady)
    whole = steady_state(replay(plan))
    assert whole is not None
    assert steady.repeats < whole.repeats


@pytest.mark.parametrize(
    "plan",
    [
        make_plan([0], one_f_one_b(1, 2), {"F": MS, "B": MS}, num_microbatches=2),
        make_plan([0, 1], one_f_one_b(2, 3), {"F": MS, "B": MS}, num_microbatches=3),
        make_plan([0], one_f_one_b(1, 9), {"F": 0, "B": 0}, num_microbatches=9),
    ],
)
def test_what_is_too_short_or_takes_no_time_has_none(plan: Plan) -> None:
    assert steady_state(replay(plan)) is None


def test_times_that_never_repeat_have_none() -> None:
    plan = wide_plan(2, 20)
    timeline = replay(plan)
    # Every action a nanosecond later than the one before would have been: the order is the same, the times are not.
    starts = tuple(tuple(s + at * at for at, s in enumerate(rank)) for rank in timeline.start_ns)
    ends = tuple(tuple(s + at * at for at, s in enumerate(rank)) for rank in timeline.end_ns)
    assert steady_state(Timeline(timeline.pipeline, timeline.orders, starts, ends)) is None


def test_few_micro_batches_in_a_v() -> None:
    assert steady_state(replay(v_plan())) is None
