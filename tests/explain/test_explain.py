"""Small plans worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from octopipe_cli.explain import explain
from octopipe_cli.explain.graph import action_graph
from octopipe_cli.explain.limits import FullRank
from octopipe_cli.explain.path import Run, critical_path
from octopipe_cli.explain.waits import Ready, Wait, waits, with_ready
from octopipe_cli.plan import Action, Orders, Plan, StageBytes, TransferTimes
from octopipe_cli.simulate import Timeline, simulate
from tests.render.plans import GIB, MS, make_plan, one_f_one_b, replay, v_plan, with_figures


def f(stage: int, microbatch: int) -> Action:
    return Action(stage, "F", microbatch)


def b(stage: int, microbatch: int) -> Action:
    return Action(stage, "B", microbatch)


def two_ranks() -> Plan:
    """Return 1F1B on 2 ranks, 2 micro-batches, F 1 and B 2 ms.

    ::

        0F0 0F1 .   .   0B0 0B0 .   0B1 0B1
        .   1F0 1B0 1B0 1F1 1B1 1B1 .   .
    """
    return make_plan([0, 1], one_f_one_b(2, 2), {"F": MS, "B": 2 * MS}, num_microbatches=2, limit_gib=None)


def largest_waits(timeline: Timeline) -> list[Wait]:
    graph = action_graph(timeline)
    return waits(timeline, graph, critical_path(graph))


def test_the_path_of_1f1b_goes_through_the_last_rank() -> None:
    plan = two_ranks()
    path = explain(plan, replay(plan)).path
    actions = [path.graph.actions[number] for number in path.numbers]
    assert actions == [f(0, 0), f(1, 0), b(1, 0), f(1, 1), b(1, 1), b(0, 1)]
    assert (path.work_ns, path.transfer_ns, path.step_ns, path.last_rank) == (9 * MS, 0, 0, 0)
    assert path.work_by_kind_ns() == {"F": 3 * MS, "B": 6 * MS}
    assert path.work_by_rank_ns() == [3 * MS, 6 * MS]
    assert path.runs() == [
        Run(f(0, 0), f(0, 0), (0,), 0, 1, 0, MS, 0),
        Run(f(1, 0), b(1, 1), (1,), None, 4, MS, 7 * MS, 0),
        Run(b(0, 1), b(0, 1), (0,), 1, 1, 7 * MS, 9 * MS, 0),
    ]


def test_a_micro_batch_on_its_way_is_one_run() -> None:
    orders: Orders = ((f(0, 0), b(0, 0)), (f(1, 0), b(1, 0)), (f(2, 0), b(2, 0)))
    plan = make_plan([0, 1, 2], orders, {"F": MS, "B": 2 * MS}, num_microbatches=1)
    assert explain(plan, replay(plan)).path.runs() == [Run(f(0, 0), b(0, 0), (0, 1, 2, 1, 0), 0, 6, 0, 9 * MS, 0)]


def test_the_waits_of_1f1b() -> None:
    assert largest_waits(replay(two_ranks())) == [
        Wait(0, "between", 1, "B", 1, 2, 3 * MS, 2 * MS, 2 * MS, b(0, 0), b(1, 0)),
        Wait(1, "after last", None, None, 0, 1, 2 * MS, 2 * MS, 7 * MS, None, b(0, 1)),
        Wait(1, "before first", 0, "F", 0, 1, MS, MS, 0, f(1, 0), f(0, 0)),
    ]


def test_blocking_transfers_are_waits_of_their_own_and_on_the_path() -> None:
    plan = make_plan([0, 1], one_f_one_b(2, 1), {"F": MS, "B": 2 * MS}, num_microbatches=1)
    times = (TransferTimes(forward=MS, backward=0), TransferTimes(forward=0, backward=MS))
    stages = [msgspec.structs.replace(stage, transfer_ns=time) for stage, time in zip(plan.stages, times, strict=True)]
    timeline = replay(msgspec.structs.replace(plan, stages=stages, p2p="blocking"))
    # 0F0 0-1, sent 1-2; 1F0 2-3, 1B0 3-5, sent 5-6; 0B0 6-8
    assert [(wait.rank, wait.place, wait.total_ns, wait.from_ns) for wait in largest_waits(timeline)] == [
        (0, "between", 4 * MS, 2 * MS),
        (1, "after last", 3 * MS, 5 * MS),
        (1, "before first", 2 * MS, 0),
        (0, "sending", MS, MS),
    ]
    path = critical_path(action_graph(timeline))
    assert (path.work_ns, path.transfer_ns, path.lags_ns()) == (6 * MS, 2 * MS, [0, MS, 0, MS])


@pytest.mark.parametrize(("held_at_most", "lacking_bytes"), [(1, GIB // 16), (2, 0)])
def test_what_could_run_meanwhile_and_whether_memory_holds_it(held_at_most: int, lacking_bytes: int) -> None:
    orders: Orders = ((f(0, 0), b(0, 0), f(0, 1), b(0, 1)), (f(1, 0), b(1, 0), f(1, 1), b(1, 1)))
    plan = make_plan([0, 1], orders, {"F": MS, "B": 2 * MS}, num_microbatches=2)
    pipeline = replay(plan).pipeline
    limit = pipeline.state_bytes(0) + held_at_most * GIB // 16
    timeline = simulate(replace(pipeline, limit_bytes=(limit, None)), orders)
    wait = next(wait for wait in largest_waits(timeline) if wait.place == "between" and wait.rank == 0)
    assert (wait.action, wait.source, wait.count, wait.longest_ns) == (b(0, 0), b(1, 0), 2, 3 * MS)
    wait = with_ready(timeline, action_graph(timeline), wait)
    assert wait.ready == Ready(f(0, 1), MS, lacking_bytes)


def test_workspace_counts_for_what_could_run_meanwhile() -> None:
    orders: Orders = ((f(0, 0), b(0, 0), f(0, 1), b(0, 1)), (f(1, 0), b(1, 0), f(1, 1), b(1, 1)))
    plan = make_plan([0, 1], orders, {"F": MS, "B": 2 * MS}, num_microbatches=2)
    sizes = StageBytes(state=1000, held=10, workspace=7)
    plan = msgspec.structs.replace(plan, stages=[msgspec.structs.replace(stage, bytes=sizes) for stage in plan.stages])
    timeline = simulate(replace(replay(plan).pipeline, limit_bytes=(1020, None)), orders)
    wait = largest_waits(timeline)[0]
    assert with_ready(timeline, action_graph(timeline), wait).ready == Ready(f(0, 1), MS, 7)


def test_what_a_wait_finds_held_is_what_is_held_before_the_action_would_run() -> None:
    orders: Orders = (
        (f(0, 0), Action(0, "I", 0), f(0, 1), Action(0, "W", 0), Action(0, "I", 1), Action(0, "W", 1)),
        (f(1, 0), b(1, 0), f(1, 1), b(1, 1)),
    )
    plan = make_plan([0, 1], orders, {"F": MS, "I": MS, "W": MS, "B": 2 * MS}, num_microbatches=2)
    stages = [msgspec.structs.replace(stage, recompute=False) for stage in plan.stages]
    pipeline = replay(msgspec.structs.replace(plan, stages=stages)).pipeline
    limit = pipeline.state_bytes(0) + 2 * GIB // 16  # both micro-batches' activations, and none of what a W needs
    timeline = simulate(replace(pipeline, limit_bytes=(limit, None)), orders)
    wait = next(wait for wait in largest_waits(timeline) if wait.place == "between" and wait.action == orders[0][1])
    assert with_ready(timeline, action_graph(timeline), wait).ready == Ready(f(0, 1), MS, 0)


def test_an_input_that_waits_is_not_missing_once_it_is_used() -> None:
    orders: Orders = (
        (f(0, 0), f(0, 1), b(0, 0), b(0, 1)),
        (f(1, 0), b(1, 0), f(1, 1), b(1, 1)),
        (f(2, 0), b(2, 0), f(2, 1), b(2, 1)),
    )
    plan = make_plan([0, 1, 2], orders, {"F": MS, "B": 2 * MS}, num_microbatches=2)
    sizes = StageBytes(state=1000, held=10, output=4)
    plan = msgspec.structs.replace(plan, stages=[msgspec.structs.replace(stage, bytes=sizes) for stage in plan.stages])
    # Rank 1 waits from 2 to 5 for 2B0; 1F1's input is there from 2 on: 1000 + 10 + 4 bytes, 1020 once it runs
    timeline = simulate(replace(replay(plan).pipeline, limit_bytes=(None, 1019, None)), orders)
    wait = next(wait for wait in largest_waits(timeline) if wait.rank == 1 and wait.action == b(1, 0))
    assert (wait.from_ns, wait.longest_ns) == (2 * MS, 3 * MS)
    assert with_ready(timeline, action_graph(timeline), wait).ready == Ready(f(1, 1), MS, 1)


def test_what_needs_an_action_that_comes_later_is_not_ready() -> None:
    timeline = replay(two_ranks())
    wait = largest_waits(timeline)[0]  # 0B0 waits; 0B1 is all that follows, and its gradient comes later
    assert with_ready(timeline, action_graph(timeline), wait).ready is None


def test_bottleneck_and_bound_of_1f1b() -> None:
    plan = two_ranks()
    explanation = explain(plan, replay(plan))
    slow = explanation.bottleneck
    assert (slow.rank, slow.before_first_ns, slow.busy_ns, slow.between_ns) == (1, MS, 6 * MS, 0)
    assert (slow.step_ns, slow.after_last_ns, slow.mean_ns) == (0, 2 * MS, 6 * MS)
    bounds = explanation.bounds
    assert tuple(bounds.plan) == ("round trip", 1, 1, 0, MS, 6 * MS, 0, 2 * MS)
    assert (bounds.plan.total_ns, bounds.unlimited_ns) == (9 * MS, 9 * MS)
    certified = 9 * MS * 100 // 102
    assert (bounds.certified_ns, bounds.order_ns, bounds.partition_ns) == (certified, 0, 9 * MS - certified)


def test_of_ranks_that_never_wait_the_busiest_is_the_bottleneck() -> None:
    plan = make_plan([1, 0], ((f(1, 0), b(1, 0)), (f(0, 0), b(0, 0))), {"F": MS, "B": 2 * MS}, num_microbatches=1)
    nothing = msgspec.structs.replace(plan.stages[1], action_ns={"F": 0, "B": 0})
    plan = msgspec.structs.replace(plan, stages=[plan.stages[0], nothing])
    timeline = replay(plan)
    assert [timeline.bubbles(rank).between_ns for rank in (0, 1)] == [0, 0]
    assert explain(plan, timeline).bottleneck.rank == 1


def test_what_helps_1f1b() -> None:
    plan = two_ranks()
    plan = msgspec.structs.replace(
        plan, stages=[msgspec.structs.replace(stage, recompute=False) for stage in plan.stages]
    )
    found = [(c.what, c.stages, c.step_time_ns, c.gain_ns, c.at_best_ns) for c in explain(plan, replay(plan)).changes]
    assert found == [
        ("micro-batch", (), 12 * MS, MS, MS),  # 12 ms for three are 8 for two
        ("stage", (1,), 9 * MS - 600_000, 600_000, 600_000),
        ("stage", (0,), 9 * MS - 300_000, 300_000, 300_000),
    ]


def test_recomputation_transfers_and_the_optimizer_step() -> None:
    plan = make_plan([0, 1], one_f_one_b(2, 2), {"F": MS, "B": 3 * MS}, num_microbatches=2, step_ns=10 * MS)
    stages = [
        msgspec.structs.replace(stage, recompute=True, transfer_ns=TransferTimes(forward=0, backward=number * MS))
        for number, stage in enumerate(plan.stages)
    ]
    plan = with_figures(msgspec.structs.replace(plan, stages=stages))
    # 0F0 1F0 1B0 1F1 1B1, 1 ms, 0B1 and 10 ms of step: 0 to 23; the B's would take 2 ms
    timeline = replay(plan)
    assert timeline.step_time_ns == 23 * MS
    found = {(change.what, change.stages): change.gain_ns for change in explain(plan, timeline).changes}
    assert found["transfers", ()] == MS
    assert found["optimizer step", ()] == MS
    assert found["recomputation", (0, 1)] == 3 * MS
    assert found["recomputation", (1,)] == 2 * MS  # of single ranks the one that gains most
    assert ("recomputation", (0,)) not in found


def test_full_ranks_leave_less_than_one_part_in_twenty() -> None:
    plan = v_plan()
    timeline = replay(plan)
    peaks = timeline.peak_memory_bytes
    limits = (peaks[0] * 20 // 19, peaks[1] * 20 // 19 + 2, None, peaks[3])
    timeline = simulate(replace(timeline.pipeline, limit_bytes=limits), timeline.orders)
    assert explain(plan, timeline).full == (FullRank(3, peaks[3], peaks[3]), FullRank(0, peaks[0], peaks[0] * 20 // 19))
