"""Classic schedules on random counts and costs: orders are whole, never deadlock and keep their limits."""

from __future__ import annotations

from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from octopipe_cli.engines.megatron_orders import legal_group_size
from octopipe_cli.pipeline import Pipeline, StageCost
from octopipe_cli.plan import ActionKind, Orders, StageBytes
from octopipe_cli.schedules import SCHEDULES, ClassicSchedule, interleaved_1f1b, zero_bubble
from octopipe_cli.schedules.greedy import ActivationLimit, Setting, greedy_orders, stage_times
from octopipe_cli.simulate import simulate

COUNTS = {"num_ranks": st.integers(1, 6), "num_microbatches": st.integers(1, 14), "seed": st.integers(0, 2**32)}


def random_pipeline(rng: Random, ranks: tuple[int, ...], count: int) -> Pipeline:
    """Return stages of random costs (zero now and then) on ranks, some not splittable, with transfers."""
    stages = []
    blocking = rng.random() < 0.3
    for stage, rank in enumerate(ranks):
        forward, back, weight = (rng.choice((0, rng.randint(1, 9))) for _ in range(3))
        times: dict[ActionKind, int] = {"F": forward, "B": rng.randint(0, 12)}
        if rng.random() < 0.8:
            times |= {"I": back, "W": weight}
        ahead = rng.randint(0, 3) if stage + 1 < len(ranks) and ranks[stage + 1] != rank else 0
        behind = rng.randint(0, 3) if stage and ranks[stage - 1] != rank else 0
        size = StageBytes(state=rng.randint(0, 9), held=rng.randint(0, 9), weight=rng.randint(0, 9))
        stages.append(StageCost(times, ahead, behind, size, False))
    num_ranks = max(ranks) + 1
    limits = tuple(rng.choice((None, rng.randint(20, 90))) for _ in range(num_ranks))
    p2p = "blocking" if blocking else "overlapped"
    return Pipeline(count, ranks, tuple(stages), (0,) * num_ranks, limits, p2p)


def check_whole(pipeline: Pipeline, orders: Orders) -> None:
    """Every stage runs one F and one B, or one I and one W, of every micro-batch, on its own rank; no deadlock."""
    seen: dict[tuple[int, int], list[str]] = {}
    for rank, actions in enumerate(orders):
        for stage, kind, m in actions:
            assert pipeline.rank_of[stage] == rank
            seen.setdefault((stage, m), []).append(kind)
    assert set(seen) == {(s, m) for s in range(pipeline.num_stages) for m in range(pipeline.num_microbatches)}
    for (stage, _), kinds in seen.items():
        assert kinds in (["F", "B"], ["F", "I", "W"])
        assert pipeline.may_split(stage) or kinds == ["F", "B"]
    timeline = simulate(pipeline, orders)
    assert sum(timeline.busy_ns) == sum(pipeline.duration_ns(action) for actions in orders for action in actions)


def held_counts(pipeline: Pipeline, orders: Orders, held: tuple[int, ...], weight: tuple[int, ...]) -> list[int]:
    peaks = []
    for actions in orders:
        now = most = 0
        for stage, kind, _ in actions:
            spare = weight[stage] if pipeline.may_split(stage) else 0
            step = {"F": held[stage], "B": -held[stage], "I": spare - held[stage], "W": -spare}[kind]
            now += step
            most = max(most, now)
        peaks.append(most)
    return peaks


@settings(max_examples=60, deadline=None, derandomize=True)
@given(schedule=st.sampled_from(SCHEDULES), per_rank=st.integers(1, 4), **COUNTS)
def test_orders_are_whole(
    schedule: ClassicSchedule, per_rank: int, num_ranks: int, num_microbatches: int, seed: int
) -> None:
    assume(schedule.allows(per_rank) and schedule.runs(num_ranks, num_microbatches))
    ranks = schedule.ranks_of_stages(num_ranks, per_rank)
    pipeline = random_pipeline(Random(seed), ranks, num_microbatches)
    check_whole(pipeline, schedule.orders(pipeline))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(num_ranks=st.integers(2, 6), count=st.integers(2, 20), per_rank=st.integers(2, 4), size=st.integers(2, 20))
def test_every_legal_group_size_runs(num_ranks: int, count: int, per_rank: int, size: int) -> None:
    assume(legal_group_size(size, num_ranks, count))
    ranks = tuple(range(num_ranks)) * per_rank
    orders = interleaved_1f1b(num_ranks, count, per_rank, size)
    check_whole(random_pipeline(Random(count), ranks, count), orders)
    for rank, actions in enumerate(orders):
        forwards = [action.kind for action in actions].index("B")
        warm_up = 2 * (num_ranks - 1 - rank) + (per_rank - 1) * size
        assert forwards == min(warm_up + 1, count * per_rank)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    per_rank=st.integers(1, 3),
    shuffled=st.booleans(),
    bias=st.sampled_from((-16, -4, 0, 8)),
    slack=st.sampled_from((None, 0, 4)),
    cap=st.sampled_from((None, 6, 12)),
    look_ahead=st.booleans(),
    **COUNTS,
)
def test_greedy_keeps_any_limit(
    per_rank: int,
    shuffled: bool,
    bias: int,
    slack: int | None,
    cap: int | None,
    look_ahead: bool,
    num_ranks: int,
    num_microbatches: int,
    seed: int,
) -> None:
    rng = Random(seed)
    ranks = [r for _ in range(per_rank) for r in range(num_ranks)]
    if shuffled:
        rng.shuffle(ranks)
    pipeline = random_pipeline(rng, tuple(ranks), num_microbatches)
    held = tuple(rng.randint(0, 5) for _ in ranks)
    weight = tuple(rng.randint(0, 7) for _ in ranks)
    least, growth = [0] * num_ranks, [0] * num_ranks
    for stage, rank in enumerate(ranks):
        least[rank] += held[stage]
        if pipeline.may_split(stage):
            growth[rank] = max(growth[rank], weight[stage] - held[stage])
    least = [one + more for one, more in zip(least, growth, strict=True)]
    units = tuple(rng.choice((0, need, need + rng.randint(0, 20))) for need in least)
    limit = ActivationLimit(units, held, weight)
    orders, _ = greedy_orders(stage_times(pipeline), num_microbatches, limit, Setting(bias, slack, look_ahead, cap))
    check_whole(pipeline, orders)
    for peak, allowed, need in zip(held_counts(pipeline, orders, held, weight), units, least, strict=True):
        assert peak <= max(allowed, need)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(limit=st.integers(1, 9), **COUNTS)
def test_zero_bubble_keeps_its_limit(limit: int, num_ranks: int, num_microbatches: int, seed: int) -> None:
    pipeline = random_pipeline(Random(seed), tuple(range(num_ranks)), num_microbatches)
    ones = (1,) * num_ranks
    orders = zero_bubble(pipeline, ActivationLimit((limit,) * num_ranks, ones, ones))
    check_whole(pipeline, orders)
    assert max(held_counts(pipeline, orders, ones, ones)) <= limit
