"""Classic schedules against golden orders, closed forms and published values."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from octopipe_cli.engines.megatron_orders import least_group_size, legal_group_size
from octopipe_cli.errors import InputError
from octopipe_cli.pipeline import Pipeline, StageCost
from octopipe_cli.plan import Action, ActionKind, Orders, StageBytes
from octopipe_cli.schedules import (
    SCHEDULES,
    gpipe,
    interleaved_1f1b,
    looped_bfs,
    one_f_one_b,
    schedule_named,
    wave,
    zb_h1,
    zb_h2,
    zb_v,
    zero_bubble,
)
from octopipe_cli.schedules.greedy import ActivationLimit, Greedy, Setting, in_flight_limit, stage_times
from octopipe_cli.schedules.waves import zigzag
from octopipe_cli.simulate import Timeline, simulate

from .instances import SHARED


def pipeline_of(
    ranks: Sequence[int],
    num_microbatches: int,
    times: Sequence[tuple[int, int, int]] | tuple[int, int, int],
    transfer: int = 0,
    unsplittable: Sequence[int] = (),
    **more: Any,
) -> Pipeline:
    """Return stages of (F, I, W) times on ranks, B = I + W, a delay between different ranks."""
    last = len(ranks) - 1
    each = [times] * len(ranks) if isinstance(times, tuple) else times
    costs = []
    for s, (forward, back, weight) in enumerate(each):  # type: ignore[misc]
        action: dict[ActionKind, int] = {"F": forward, "B": back + weight}
        if s not in unsplittable:
            action |= {"I": back, "W": weight}
        ahead = transfer if s < last and ranks[s] != ranks[s + 1] else 0
        behind = transfer if s and ranks[s] != ranks[s - 1] else 0
        costs.append(StageCost(action, ahead, behind, StageBytes(), False))
    count = max(ranks) + 1
    values = {"step_ns": (0,) * count, "limit_bytes": (None,) * count} | more
    return Pipeline(num_microbatches, tuple(ranks), tuple(costs), **values)


def peaks(orders: Orders) -> list[int]:
    """Return the most stage activations each rank holds, from F to W or B."""
    found = []
    for actions in orders:
        held = most = 0
        for action in actions:
            held += {"F": 1, "W": -1, "B": -1, "I": 0}[action.kind]
            most = max(most, held)
        found.append(most)
    return found


def equal(ranks: Sequence[int], count: int, orders: Orders, transfer: int = 0, forward: int = 1) -> Timeline:
    """Return the timeline of fused orders on equal stages, B twice as long as F."""
    return simulate(pipeline_of(ranks, count, (forward, forward, forward), transfer), orders)


def text(actions: Sequence[Action], num_ranks: int) -> str:
    """Return an order of a cyclic placement as kind, micro-batch and the rank's own stage number."""
    return " ".join(f"{kind}{m}.{stage // num_ranks}" for stage, kind, m in actions)


def test_gpipe() -> None:
    timeline = equal(range(4), 8, gpipe(4, 8))
    assert (timeline.step_time_ns, timeline.bubble_ratio) == (33, pytest.approx(1 - 24 / 33))
    assert peaks(timeline.orders) == [8, 8, 8, 8]
    assert equal(range(4), 8, gpipe(4, 8), transfer=1, forward=10).step_time_ns == 336


@pytest.mark.parametrize(
    ("ranks", "count", "step", "held"), [(4, 8, 33, [4, 3, 2, 1]), (8, 16, 69, [*range(8, 0, -1)])]
)
def test_1f1b(ranks: int, count: int, step: int, held: list[int]) -> None:
    timeline = equal(range(ranks), count, one_f_one_b(ranks, count))
    assert (timeline.step_time_ns, peaks(timeline.orders)) == (step, held)


def test_1f1b_with_transfers_and_other_times() -> None:
    assert equal(range(4), 8, one_f_one_b(4, 8), transfer=1, forward=10).step_time_ns == 346
    assert simulate(pipeline_of(range(4), 6, (2, 2, 1)), one_f_one_b(4, 6)).step_time_ns == 45


def test_1f1b_order() -> None:
    orders = one_f_one_b(4, 6)
    assert text(orders[0], 4).replace(".0", "") == "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5"
    assert text(orders[3], 4).replace(".0", "") == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5"
    assert [next(i for i, a in enumerate(order) if a.kind == "B") for order in orders] == [4, 3, 2, 1]
    assert text(one_f_one_b(4, 2)[0], 4).replace(".0", "") == "F0 F1 B0 B1"


INTERLEAVED = [
    (2, 4, 2, 0, "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0"),
    (2, 4, 2, 1, "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0"),
    (2, 5, 3, 0, "F0.0 F1.0 F2.0 F0.1 F1.1 F2.1 B0.1 F3.0 B1.1 F4.0 B2.1 F3.1 B0.0 F4.1 B1.0 B2.0 B3.1 B4.1 B3.0 B4.0"),
    (
        4, 8, 4, 3,
        "F0.0 F1.0 F2.0 F3.0 F0.1 B0.1 F1.1 B1.1 F2.1 B2.1 F3.1 B3.1 F4.0 B0.0 F5.0 B1.0 F6.0 B2.0 F7.0 B3.0 "
        "F4.1 B4.1 F5.1 B5.1 F6.1 B6.1 F7.1 B7.1 B4.0 B5.0 B6.0 B7.0",
    ),
    (
        4, 8, 4, 0,
        "F0.0 F1.0 F2.0 F3.0 F0.1 F1.1 F2.1 F3.1 F4.0 F5.0 F6.0 B0.1 F7.0 B1.1 F4.1 B2.1 F5.1 B3.1 F6.1 B0.0 F7.1 B1.0 "
        "B2.0 B3.0 B4.1 B5.1 B6.1 B7.1 B4.0 B5.0 B6.0 B7.0",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("ranks", "count", "group", "rank", "order"), INTERLEAVED)
def test_interleaved_order(ranks: int, count: int, group: int, rank: int, order: str) -> None:
    assert text(interleaved_1f1b(ranks, count, 2, group)[rank], ranks) == order


def test_interleaved_by_default_groups_as_many_as_ranks() -> None:
    assert interleaved_1f1b(4, 8, 3) == interleaved_1f1b(4, 8, 3, 4)
    timeline = equal([*range(4)] * 2, 8, interleaved_1f1b(4, 8, 2))
    assert (timeline.step_time_ns, peaks(timeline.orders)) == (57, [11, 9, 7, 5])


@pytest.mark.parametrize(
    ("ranks", "count", "group", "allowed"),
    [(4, 10, 5, True), (4, 6, 6, True), (4, 13, 9, True), (4, 10, 4, False), (8, 12, 8, False), (4, 3, 4, False)]
    + [(8, 20, size, size in (10, 11, 12, 20)) for size in range(8, 21)],
)
def test_group_size_rule(ranks: int, count: int, group: int, allowed: bool) -> None:
    assert legal_group_size(group, ranks, count) == allowed
    if allowed:
        assert equal([*range(ranks)] * 2, count, interleaved_1f1b(ranks, count, 2, group)).step_time_ns > 0
    else:
        with pytest.raises(InputError, match=f"{count} micro-batches on {ranks} ranks in groups of {group}") as caught:
            interleaved_1f1b(ranks, count, 2, group)
        least = least_group_size(ranks, count)
        assert caught.value.remedy == (
            f"use a group size of {least}" if least else f"use at least {ranks} micro-batches"
        )


@pytest.mark.parametrize(("ranks", "per_rank", "what"), [(1, 2, "ranks"), (2, 1, "stages a rank")])
def test_interleaved_needs_two(ranks: int, per_rank: int, what: str) -> None:
    with pytest.raises(InputError, match=f"too few {what}"):
        interleaved_1f1b(ranks, 4, per_rank)


def test_looped_bfs() -> None:
    timeline = equal([*range(4)] * 2, 8, looped_bfs(4, 8, 2))
    assert (timeline.step_time_ns, max(peaks(timeline.orders))) == (57, 16)
    assert text(looped_bfs(2, 2, 2)[1], 2) == "F0.0 F1.0 F0.1 F1.1 B0.1 B1.1 B0.0 B1.0"


def test_zb_h1() -> None:
    timeline = simulate(pipe := pipeline_of(range(4), 8, (1, 1, 1)), zb_h1(pipe))
    assert (timeline.step_time_ns, timeline.span_ns, timeline.bubble_ratio) == (27, 27, pytest.approx(1 / 9))
    assert max(peaks(timeline.orders)) == 4
    pipe = pipeline_of(range(4), 8, (10, 12, 8), 1)
    assert [simulate(pipe, zb_h1(pipe, goal)).step_time_ns for goal in ("step", "span")] == [294, 294]


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("rounds", [2, 3])
def test_zb_h1_closed_form(ranks: int, rounds: int) -> None:
    count = rounds * ranks
    pipe = pipeline_of(range(ranks), count, (10, 10, 10))
    assert simulate(pipe, zb_h1(pipe)).step_time_ns == 30 * count + 10 * (ranks - 1)


def test_zb_h2() -> None:
    timeline = simulate(pipe := pipeline_of(range(4), 8, (1, 1, 1)), zb_h2(pipe, "span"))
    assert (timeline.step_time_ns, timeline.span_ns) == (27, 24)
    assert max(peaks(timeline.orders)) <= 7
    pipe = pipeline_of(range(4), 8, (10, 12, 8), 1)
    orders = zero_bubble(pipe, in_flight_limit([8] * 4, 4), "span")
    assert (simulate(pipe, orders).step_time_ns, simulate(pipe, orders).span_ns) == (273, 256)


FRONTIER = [(1, 72, 72), (2, 41, 41), (3, 31, 31), (4, 27, 27), (5, 26, 27), (6, 25, 27), (7, 24, 27), (8, 24, 27)]


@pytest.mark.parametrize(("limit", "span", "step"), FRONTIER)
def test_memory_frontier(limit: int, span: int, step: int) -> None:
    pipe = pipeline_of(range(4), 8, (1, 1, 1))
    allowed = in_flight_limit([limit] * 4, 4)
    best = simulate(pipe, zero_bubble(pipe, allowed, "span")), simulate(pipe, zero_bubble(pipe, allowed))
    assert max(peaks(best[0].orders)) <= limit
    assert (best[0].span_ns, best[1].step_time_ns) == (span, step)


def test_zb_v() -> None:
    timeline = simulate(pipe := pipeline_of(zigzag(4, 2), 8, (1, 1, 1)), zb_v(pipe))
    assert (timeline.step_time_ns, timeline.span_ns) == (51, 48)
    assert peaks(timeline.orders) == [8, 8, 8, 8]


def test_zb_with_stages_that_may_not_split() -> None:
    pipe = pipeline_of(range(4), 8, (1, 1, 1), unsplittable=[3])
    kinds = {a.stage: set() for a in zb_h1(pipe)[0]} | {s: set() for s in range(4)}
    for actions in zb_h1(pipe):
        for action in actions:
            kinds[action.stage].add(action.kind)
    assert kinds == {0: {"F", "I", "W"}, 1: {"F", "I", "W"}, 2: {"F", "I", "W"}, 3: {"F", "B"}}
    whole = pipeline_of(range(4), 8, (1, 1, 1), unsplittable=range(4))
    assert simulate(whole, zb_h1(whole)).step_time_ns == 33
    assert {action.kind for actions in zb_h1(whole) for action in actions} == {"F", "B"}


def test_zb_keeps_to_the_memory_there_is() -> None:
    costs = pipeline_of(range(2), 6, (1, 1, 1)).stages
    sized = tuple(StageCost(c.action_ns, 0, 0, StageBytes(state=10, held=5, weight=3), False) for c in costs)
    for limit, most in ((25, 3), (20, 2), (15, 1)):
        pipe = Pipeline(6, (0, 1), sized, (0, 0), (limit, limit))
        timeline = simulate(pipe, zb_h2(pipe))
        assert timeline.fits
        assert max(peaks(timeline.orders)) >= most
    hopeless = Pipeline(6, (0, 1), sized, (0, 0), (14, 14))
    assert (
        simulate(hopeless, zb_h2(hopeless)).step_time_ns
        == simulate(pipeline_of(range(2), 6, (1, 1, 1)), zb_h2(hopeless)).step_time_ns
    )


def test_wave() -> None:
    assert zigzag(3, 4) == (0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0)
    assert equal(zigzag(4, 2), 4, wave(4, 4)).step_time_ns == 36
    timeline = equal(zigzag(4, 4), 4, wave(4, 4, 2))
    assert timeline.step_time_ns == 61
    assert max(peaks(timeline.orders)) <= 16
    assert {action.kind for actions in timeline.orders for action in actions} == {"F", "B"}
    with pytest.raises(InputError, match="without a wave"):
        wave(4, 4, 0)


def test_script_beyond_the_limit_stays_unfinished() -> None:
    pipe = pipeline_of(range(2), 4, (1, 1, 1))
    script = [[Action(s, "F", m) for m in range(4)] + [Action(s, "I", m) for m in range(4)] for s in range(2)]
    limits = [(4, True), (3, False)]
    for limit, finishes in limits:
        run = Greedy(stage_times(pipe), 4, in_flight_limit([limit] * 2, 2), Setting(0, 0, True), script)
        run.run()
        assert run.finished == finishes


PAPER = [
    (8, 24, 18522, 18086, 9337, 601, 0.2431, 0.1585, 0.0436),  # published with twice the memory: 0.0433
    (8, 32, 18513, 18086, 9331, 626, 0.1985, 0.1242, 0.0039),
    (8, 64, 18546, 18097, 9321, 762, 0.1240, 0.0674, 0.0026),
    (8, 24, 29718, 29444, 19927, 527, 0.2347, 0.1323, 0.0029),
    (8, 32, 29802, 29428, 19530, 577, 0.1898, 0.1045, 0.0022),
    (8, 64, 29935, 29621, 19388, 535, 0.1091, 0.0554, 0.0010),
    (16, 48, 11347, 11248, 8132, 377, 0.2552, 0.1397, 0.0066),
    (16, 64, 11307, 11254, 8101, 379, 0.2082, 0.1088, 0.0054),
    (16, 128, 11325, 11308, 8109, 378, 0.1251, 0.0576, 0.0028),
]


@pytest.mark.parametrize(("ranks", "count", "f", "i", "w", "lag", "fused", "once", "twice"), PAPER)
def test_published_bubble_rates(
    ranks: int, count: int, f: int, i: int, w: int, lag: int, fused: float, once: float, twice: float
) -> None:
    """The zero-bubble paper's cases: half of an activation goes with I, half with W; P and 2 P of them a rank."""
    pipe = pipeline_of(range(ranks), count, (f, i, w), lag)
    work = count * (f + i + w)
    plain = simulate(pipe, one_f_one_b(ranks, count)).span_ns
    assert (plain - work) / plain == pytest.approx(fused, abs=5e-5)
    for factor, published in ((1, once), (2, twice)):
        limit = ActivationLimit((2 * factor * ranks,) * ranks, (2,) * ranks, (1,) * ranks)
        span = simulate(pipe, zero_bubble(pipe, limit, "span")).span_ns
        assert (span - work) / span <= published + 5e-5


def test_simpipe_1f1b() -> None:
    """The published replay of nemotron-nano-v2-9B on four ranks, in hundredths of a millisecond."""
    file = SHARED / "reference" / "golden.json"
    if not file.is_file():
        pytest.skip("the reference is not beside this checkout")
    case = next(c for c in json.loads(file.read_text())["cases"] if c["id"] == "G32-simpipe-1f1b")["inputs"]
    symbols = "E" + case["pattern"].replace("E", "").replace("L", "") + "L"
    ticks = [
        tuple(
            round(case[key].get(symbol, case["backward_ms"][symbol]) * 100)
            for key in ("forward_ms", "backward_ms", "weight_ms")
        )
        for symbol in symbols
    ]
    sums = []
    at = 0
    # Their partition counts decoder layers: the embedding and the head come on top.
    for rank, layers in enumerate(case["partition"]):
        size = layers + (rank == 0) + (rank == 3)
        sums.append(tuple(map(sum, zip(*ticks[at : at + size], strict=True))))
        at += size
    timeline = simulate(pipeline_of(range(4), 8, sums), one_f_one_b(4, 8))  # type: ignore[arg-type]
    assert (timeline.step_time_ns, timeline.busy_ns) == (133121, (85000, 76160, 76160, 103456))


def reference_rows() -> list[tuple[str, Pipeline, ActivationLimit, float]]:
    file = SHARED / "reference" / "zb_results.json"
    if not file.is_file():
        return []
    found = []
    results = json.loads(file.read_text())
    for row in results["instances"]:
        best = [r["best_makespan"] for r in row["results"] if r["scheduler"] == "ZB greedy (zb.py)"]
        if row["chunks_per_device"] == 1 and best and row["p"] * row["m"] <= 128:
            times = tuple(round(1000 * row[key]) for key in "FBW")
            pipe = pipeline_of(range(row["p"]), row["m"], times, round(1000 * row["C"]))  # type: ignore[arg-type]
            shape = (row["mem_F"],) * row["p"], (-row["mem_W"],) * row["p"]
            limit = ActivationLimit((row["mem_limit_per_device"],) * row["p"], *shape)
            found.append((row["id"], pipe, limit, best[0]))
    for row in results["heterogeneous"]:
        times = [tuple(1000 * cost for cost in stage) for stage in zip(row["F"], row["B"], row["W"], strict=True)]
        pipe = pipeline_of(range(row["p"]), row["m"], times, 1000 * row["C"])  # type: ignore[arg-type]
        limit = in_flight_limit([row["K"]] * row["p"], row["p"])
        name = f"{row['name']} P{row['p']} M{row['m']} K{row['K']}"
        found.append((name, pipe, limit, row["zb_true_costs"]["best_makespan"]))
    return found


def test_step_times_of_the_zero_bubble_authors_are_reached() -> None:
    rows = reference_rows()
    if not rows:
        pytest.skip("the reference is not beside this checkout")
    worse = {}
    for name, pipe, limit, best in rows:
        orders = zero_bubble(pipe, limit)
        step = simulate(pipe, orders).step_time_ns
        if step > 1000 * best + 0.5:
            worse[name] = (step / 1000, best)
    assert not worse
    assert len(rows) >= 90


def test_registry() -> None:
    names = ["gpipe", "1f1b", "interleaved-1f1b", "looped-bfs", "zb-h1", "zb-h2", "zb-v", "wave"]
    assert [schedule.name for schedule in SCHEDULES] == names
    allowed = {s.name: [v for v in range(1, 7) if s.allows(v)] for s in SCHEDULES}
    assert allowed == {
        "gpipe": [1],
        "1f1b": [1],
        "interleaved-1f1b": [2, 3, 4, 5, 6],
        "looped-bfs": [2, 3, 4, 5, 6],
        "zb-h1": [1],
        "zb-h2": [1],
        "zb-v": [2],
        "wave": [2, 4, 6],
    }
    assert {s.name for s in SCHEDULES if s.placement == "v"} == {"zb-v", "wave"}
    assert {s.name for s in SCHEDULES if s.split} == {"zb-h1", "zb-h2", "zb-v"}
    assert schedule_named("interleaved-1f1b").ranks_of_stages(2, 3) == (0, 1, 0, 1, 0, 1)
    assert schedule_named("wave").ranks_of_stages(2, 4) == (0, 1, 1, 0, 0, 1, 1, 0)
    assert [schedule_named("interleaved-1f1b").runs(p, m) for p, m in ((1, 8), (4, 3), (4, 4), (8, 20))] == [
        False,
        False,
        True,
        True,
    ]
