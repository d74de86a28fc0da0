"""The list scheduler on pipelines small enough to check by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from octopipe_cli.list_scheduler import (
    ARRIVAL,
    NEVER,
    NEXT,
    ROOM,
    SLOT,
    UNLIMITED,
    Ints,
    list_schedule,
    new_scratch,
    orders_of_log,
    schedule,
    stage_costs,
)
from octopipe_cli.pipeline import Pipeline, StageCost
from octopipe_cli.plan import ActionKind, StageBytes
from octopipe_cli.simulate import simulate

FORWARD_FIRST, BACKWARD_FIRST = (0, 0, 0), (1000, 1000, 0)


def stage(
    times: str, *, ahead: int = 0, back: int = 0, sizes: StageBytes | None = None, recompute: bool = False
) -> StageCost:
    """Return a stage of ``F I W`` or ``F I W B`` times."""
    forward, into, weight, *whole = map(int, times.split())
    action_ns: dict[ActionKind, int] = {"F": forward, "I": into, "W": weight, "B": whole[0] if whole else into + weight}
    return StageCost(action_ns, ahead, back, sizes or StageBytes(state=0, held=0, weight=0), recompute)


def pipeline(
    num_microbatches: int,
    ranks: tuple[int, ...],
    *stages: StageCost,
    step: tuple[int, ...] | None = None,
    limits: tuple[int | None, ...] | None = None,
    blocking: bool = False,
) -> Pipeline:
    count = max(ranks) + 1
    p2p = "blocking" if blocking else "overlapped"
    return Pipeline(num_microbatches, ranks, stages, step or (0,) * count, limits or (None,) * count, p2p)


def shown(made: Pipeline, rule: tuple[int, int, int], fused: tuple[bool, ...] | None = None) -> list[str]:
    """Return each rank's schedule as ``token@start`` words."""
    orders = list_schedule(made, rule, fused)
    assert orders is not None
    timeline = simulate(made, orders)
    assert timeline.fits
    return [
        " ".join(f"{a.stage}{a.kind}{a.microbatch}@{start}" for a, start in zip(actions, starts, strict=True))
        for actions, starts in zip(orders, timeline.start_ns, strict=True)
    ]


def run(
    made: Pipeline,
    rule: tuple[int, int, int] = FORWARD_FIRST,
    *,
    extra: Ints | None = None,
    cutoff: int = NEVER,
    by_span: bool = False,
    fused: tuple[bool, ...] | None = None,
) -> tuple[int, list[list[int]]]:
    """Return value and log of a schedule."""
    costs, step, memory = stage_costs(made, fused)
    n, ranks, microbatches = made.num_stages, made.num_ranks, made.num_microbatches
    log, scratch = np.zeros((3 * n * microbatches, 4), np.int64), new_scratch(n, ranks, microbatches)
    extra = np.zeros((2, 0, 0), np.int64) if extra is None else extra
    modes = (made.p2p == "blocking", by_span)
    value = schedule(costs, n, ranks, microbatches, step, memory, modes, rule, extra, scratch, cutoff, log)
    return int(value), log[: int(scratch.tree[0])].tolist()


def test_one_rank_takes_the_least_priority_first() -> None:
    made = pipeline(2, (0,), stage("2 3 1"))
    assert shown(made, FORWARD_FIRST) == ["0F0@0 0F1@2 0I0@4 0I1@7 0W0@10 0W1@11"]
    assert shown(made, BACKWARD_FIRST) == ["0F0@0 0I0@2 0F1@5 0I1@7 0W0@10 0W1@11"]


def test_transfers_arrive_and_w_fills_the_gap() -> None:
    made = pipeline(2, (0, 1), stage("1 1 1", ahead=1), stage("1 1 1", back=1))
    assert shown(made, (5, 0, 0)) == ["0F0@0 0F1@1 0I0@5 0W0@6 0I1@7 0W1@8", "1F0@2 1I0@3 1F1@4 1I1@5 1W0@6 1W1@7"]
    assert run(made, (5, 0, 0))[0] == 9


def test_blocking_senders_wait() -> None:
    made = pipeline(2, (0, 1), stage("1 1 1", ahead=1), stage("1 1 1", back=1), blocking=True)
    assert shown(made, (5, 0, 0)) == ["0F0@0 0F1@2 0I0@5 0W0@6 0I1@8 0W1@9", "1F0@2 1I0@3 1F1@5 1I1@6 1W0@8 1W1@9"]
    assert run(made, (5, 0, 0))[0] == 10


def test_fused_stages_run_b_in_its_own_time() -> None:
    made = pipeline(2, (0, 1), stage("1 1 1 3"), stage("1 1 1 1"))
    assert shown(made, (5, 0, 0), (True, False)) == ["0F0@0 0F1@1 0B0@3 0B1@6", "1F0@1 1I0@2 1F1@3 1I1@4 1W0@5 1W1@6"]
    assert shown(made, (5, 0, 0), (True, True)) == ["0F0@0 0F1@1 0B0@3 0B1@6", "1F0@1 1B0@2 1F1@3 1B1@4"]


def test_stages_that_may_not_split_are_fused() -> None:
    whole = replace(stage("1 1 1"), action_ns={"F": 1, "B": 2})
    assert shown(pipeline(1, (0,), whole), FORWARD_FIRST) == ["0F0@0 0B0@1"]


def test_the_longest_w_that_fits_fills_a_gap() -> None:
    # Rank 0 has stages 0 and 2; while rank 1 is at its long stage, W of 2 (length 4) and W of 0 could run.
    stages = stage("1 1 2"), stage("1 5 1"), stage("1 1 4"), stage("1 1 1")
    made = pipeline(1, (0, 1, 0, 1), *stages)
    assert shown(made, FORWARD_FIRST) == [
        "0F0@0 2F0@2 2I0@5 2W0@6 0I0@11 0W0@12",
        "1F0@1 3F0@3 3I0@4 3W0@5 1I0@6 1W0@11",
    ]
    # Between 0I0 and 0I1 is a gap of 1: a W of length 2 fits it with a slack of 1 only.
    made = pipeline(2, (0, 1), stage("1 1 2", ahead=1), stage("1 1 1", back=1))
    assert shown(made, (5, 0, 0))[0] == "0F0@0 0F1@1 0I0@5 0I1@7 0W0@8 0W1@10"
    assert shown(made, (5, 0, 1))[0] == "0F0@0 0F1@1 0I0@5 0W0@6 0I1@8 0W1@9"


def test_step_times_and_spans() -> None:
    made = pipeline(1, (0, 1), stage("1 1 1"), stage("1 1 1"), step=(5, 7))
    # Rank 0: 0 .. 5 and 5 more; rank 1: 1 .. 4 and 7 more.
    assert run(made)[0] == 11
    assert run(made, by_span=True)[0] == 10


def test_memory_admits_one_microbatch_at_a_time() -> None:
    sizes = StageBytes(state=3, held=10, weight=10)
    made = pipeline(2, (0,), stage("1 1 5", sizes=sizes), limits=(13,))
    assert shown(made, FORWARD_FIRST) == ["0F0@0 0I0@1 0W0@2 0F1@7 0I1@8 0W1@9"]  # W first: memory is short
    assert shown(replace(made, limit_bytes=(23,)), FORWARD_FIRST) == ["0F0@0 0F1@1 0I0@2 0I1@3 0W0@4 0W1@9"]
    assert shown(replace(made, limit_bytes=(22,)), FORWARD_FIRST) == ["0F0@0 0I0@1 0W0@2 0F1@7 0I1@8 0W1@9"]
    assert list_schedule(replace(made, limit_bytes=(12,)), FORWARD_FIRST) is None


def test_the_w_that_frees_most_runs_first() -> None:
    small, large = StageBytes(state=0, held=10, weight=2), StageBytes(state=0, held=10, weight=8)
    made = pipeline(2, (0, 0), stage("1 1 1", sizes=small), stage("1 1 1", sizes=large), limits=(20,))
    assert shown(made, FORWARD_FIRST) == ["0F0@0 1F0@1 1I0@2 0I0@3 0F1@4 1W0@5 0W0@6 1F1@7 1I1@8 0I1@9 0W1@10 1W1@11"]


def test_room_is_kept_for_the_oldest_microbatch() -> None:
    # The greedy rule would enter 0F1 at once; then 2F0 could never enter rank 0.
    sizes = StageBytes(state=0, held=10, weight=0)
    made = pipeline(2, (0, 1, 0), *(stage("1 1 1", sizes=sizes) for _ in range(3)), limits=(29, None))
    assert shown(made, FORWARD_FIRST)[0].split()[:3] == ["0F0@0", "2F0@2", "2I0@3"]
    assert shown(replace(made, limit_bytes=(30, None)), FORWARD_FIRST)[0].split()[:3] == ["0F0@0", "0F1@1", "2F0@2"]


def test_an_arrival_that_would_not_fit_bars_its_sender() -> None:
    # Rank 1 works on its first micro-batch with a large workspace: the tensor of the next must not come meanwhile.
    sender = StageBytes(state=0, held=0, weight=0, output=10)
    receiver = StageBytes(state=0, held=10, weight=0, workspace=20, input=10)
    made = pipeline(2, (0, 1), stage("1 1 1", sizes=sender), stage("4 4 4", sizes=receiver), limits=(None, 35))
    assert shown(made, FORWARD_FIRST) == [
        "0F0@0 0I0@9 0F1@10 0W0@11 0I1@21 0W1@22",
        "1F0@1 1I0@5 1W0@9 1F1@13 1I1@17 1W1@21",
    ]
    assert shown(replace(made, limit_bytes=(None, 60)), FORWARD_FIRST)[0].split()[:2] == ["0F0@0", "0F1@1"]


def test_cut_off_where_the_end_is_later() -> None:
    made = pipeline(2, (0, 1), stage("1 1 1", ahead=1), stage("1 1 1", back=1))
    assert run(made, (5, 0, 0), cutoff=9)[0] == 9
    value, log = run(made, (5, 0, 0), cutoff=8)
    assert value == NEVER
    assert len(log) < 12


def test_extra_priorities_reorder() -> None:
    made = pipeline(2, (0,), stage("2 3 1"))
    extra = np.zeros((2, 1, 2), np.int64)
    extra[0, 0, 1] = 100  # the second F is not urgent
    assert [row[:3] for row in run(made, extra=extra)[1][:3]] == [[0, 0, 0], [0, 1, 0], [0, 0, 1]]
    extra = np.zeros((2, 1, 2), np.int64)
    extra[1, 0, 0] = -100  # the first I is
    assert [row[:3] for row in run(made, extra=extra)[1][:3]] == [[0, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert [row[:3] for row in run(made, extra=np.zeros((2, 1, 2), np.int64))[1][:2]] == [[0, 0, 0], [0, 0, 1]]


def test_costs_and_reserves_of_stages() -> None:
    first = StageBytes(state=5, held=10, weight=14, workspace=3, output=6)
    second = StageBytes(state=7, held=4, weight=2, transient=9, workspace=1, input=6, output=8)
    third = StageBytes(state=1, held=2, weight=2, input=8)
    made = pipeline(
        3,
        (0, 1, 0),
        stage("1 2 3 4", ahead=7, sizes=first),
        stage("5 6 7", ahead=9, back=8, sizes=second, recompute=True),
        stage("1 1 1", back=2, sizes=third),
        step=(1, 2),
        limits=(100, None),
    )
    costs, step, memory = stage_costs(made, (False, False, True))
    assert costs.rank.tolist() == [0, 1, 0]
    assert costs.times[:, :, 0].tolist() == [[1, 5, 1], [2, 6, 1], [3, 7, 1], [4, 13, 2]]
    assert costs.fused[:, 0].tolist() == [0, 0, 1]
    assert costs.lags.tolist() == [[7, 9, 0], [0, 8, 2]]
    assert costs.sizes.tolist() == [
        [10, 4, 2],  # held
        [14, 2, 0],  # kept: nothing after B
        [0, 2, 0],  # early: of the recomputed stage
        [3, 1, 0],  # while F runs
        [3, 10, 0],  # while I or B runs
        [0, 6, 8],  # input
        [6, 8, 0],  # output
    ]
    assert step.tolist() == [1, 2]
    assert memory is not None
    assert memory[ROOM].tolist() == [100 - 6, UNLIMITED]
    # Rank 0: the gradient of stage 0 (6) or stage 2's input above what it holds (6); then I's rest 14 - 10 at the most.
    assert memory[ARRIVAL].tolist() == [6, 8]
    assert memory[SLOT].tolist() == [6 + 4, 8 + 12]
    assert memory[NEXT].tolist() == [8, 8]


def test_orders_of_a_log_that_is_not_full() -> None:
    made = pipeline(1, (0,), stage("1 1 1"))
    costs = stage_costs(made)[0]
    log = np.array([[0, 0, 0, 0], [0, 1, 0, 1], [0, 2, 0, 2], [0, 0, 0, 0]], np.int64)
    assert [(a.stage, a.kind, a.microbatch) for a in orders_of_log(log, costs, 1)[0]] == [
        (0, "F", 0),
        (0, "I", 0),
        (0, "W", 0),
    ]


@pytest.mark.parametrize("blocking", [False, True])
def test_times_of_each_microbatch(blocking: bool) -> None:
    """Columns of equal values change nothing; columns that differ are each micro-batch's own."""
    made = pipeline(3, (0, 1, 0), stage("1 2 3 4", ahead=1), stage("5 6 7", ahead=1, back=1), stage("2 2 2", back=1))
    costs, step, memory = stage_costs(made)
    scratch, extra, log = new_scratch(3, 2, 3), np.zeros((2, 0, 0), np.int64), np.zeros((27, 4), np.int64)

    def value(times: Ints, fused: Ints) -> tuple[int, list[list[int]]]:
        log[:] = 0
        own = costs._replace(times=np.ascontiguousarray(times), fused=np.ascontiguousarray(fused))
        modes = (blocking, False)
        found = schedule(own, 3, 2, 3, step, memory, modes, (3, 0, 1), extra, scratch, NEVER, log)
        return int(found), log.tolist()

    alike = value(costs.times, costs.fused)
    assert value(np.repeat(costs.times, 3, axis=2), costs.fused) == alike
    assert value(costs.times, np.repeat(costs.fused, 3, axis=1)) == alike
    assert value(np.repeat(costs.times, 3, axis=2), np.repeat(costs.fused, 3, axis=1)) == alike
    mixed = np.repeat(costs.fused, 3, axis=1)
    mixed[0, 1] = mixed[2, 0] = mixed[2, 2] = 1
    found, rows = value(costs.times, mixed)
    orders = orders_of_log(np.array(rows, np.int64), costs._replace(fused=mixed), 2)
    kinds = sorted(f"{a.stage}{a.kind}{a.microbatch}" for actions in orders for a in actions if a.kind in "BI")
    assert kinds == ["0B1", "0I0", "0I2", "1I0", "1I1", "1I2", "2B0", "2B2", "2I1"]
    assert simulate(replace(made, p2p="blocking" if blocking else "overlapped"), orders).step_time_ns == found
    longer = np.repeat(costs.times, 3, axis=2)
    longer[:, :, 1] *= 10
    starts = {tuple(row[:3]): row[3] for row in value(longer, costs.fused)[1]}
    assert starts[1, 0, 1] - starts[0, 0, 1] >= 10
