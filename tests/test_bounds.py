"""Bounds of given plans against proven optima and closed forms."""

from __future__ import annotations

import pytest

from octopipe_cli.bounds import plan_bound_ns, plan_span_bound_ns
from octopipe_cli.pipeline import Pipeline, StageCost
from octopipe_cli.plan import ActionKind, StageBytes


def uniform(
    times: tuple[int, ...],
    num_microbatches: int,
    *,
    ranks: tuple[int, ...] = (0, 1, 2, 3),
    lag_ns: int = 0,
    slots: int | None = None,
    step_ns: int = 0,
    blocking: bool = False,
) -> Pipeline:
    """Return equal stages; two times are F and B, three F, I and W. A micro-batch takes one byte till its end."""
    named: dict[ActionKind, int] = dict(zip("FB" if len(times) == 2 else "FIW", times, strict=True))  # type: ignore[arg-type]
    named.setdefault("B", sum(times[1:]))
    last = len(ranks) - 1
    stages = tuple(
        StageCost(
            named,
            lag_ns if s < last and ranks[s + 1] != ranks[s] else 0,
            lag_ns if s and ranks[s - 1] != ranks[s] else 0,
            StageBytes(held=1, weight=1),
            False,
        )
        for s in range(len(ranks))
    )
    count = max(ranks) + 1
    p2p = "blocking" if blocking else "overlapped"
    return Pipeline(num_microbatches, ranks, stages, (step_ns,) * count, (slots,) * count, p2p)


@pytest.mark.parametrize(
    ("times", "num_microbatches", "lag_ns", "slots", "step_time_ns", "span_ns"),
    [
        # GPipe and 1F1B are optimal where the backward is not split: (m + p - 1)(F + B)
        ((1, 2), 8, 0, None, 33, 33),
        ((2, 3), 6, 0, 4, 45, 45),
        # the zero-bubble papers' cases: proven optima of the golden file
        ((1, 1, 1), 8, 0, 4, 27, 27),
        ((1, 1, 1), 8, 0, 8, 27, 24),
        ((10, 12, 8), 8, 1, 4, 294, 294),
        ((10, 12, 8), 8, 1, 8, 273, 256),
        ((185, 181, 93), 8, 6, 4, 4563, 4563),
        # one slot: micro-batches run one after the other
        ((1, 1, 1), 8, 0, 1, 72, 72),
        # one micro-batch: the way there, back, and the first stage's W
        ((3, 4, 5), 1, 2, None, 4 * 3 + 4 * 4 + 2 * 3 * 2 + 5, 4 * 3 + 4 * 4 + 2 * 3 * 2 + 5),
    ],
)
def test_bounds_meet_proven_optima(
    times: tuple[int, ...], num_microbatches: int, lag_ns: int, slots: int | None, step_time_ns: int, span_ns: int
) -> None:
    pipeline = uniform(times, num_microbatches, lag_ns=lag_ns, slots=slots)
    assert plan_bound_ns(pipeline) == step_time_ns
    assert plan_span_bound_ns(pipeline) == span_ns


def test_few_slots_are_below_the_optimum() -> None:
    """Proven optima for 1 .. 8 slots; the bound is below them between, and never above."""
    optima = [72, 41, 31, 27, 26, 25, 24, 24]
    bounds = [plan_span_bound_ns(uniform((1, 1, 1), 8, slots=slots)) for slots in range(1, 9)]
    assert bounds == [72, 36, 30, 27, 26, 25, 24, 24]
    assert all(bound <= best for bound, best in zip(bounds, optima, strict=True))


@pytest.mark.parametrize(
    ("times", "slots", "optimum"), [((1, 2), None, 57), ((1, 1, 1), 8, 51), ((1, 1, 1), 4, 59)], ids=str
)
def test_two_stages_a_rank(times: tuple[int, ...], slots: int | None, optimum: int) -> None:
    cyclic, v_shape = (0, 1, 2, 3, 0, 1, 2, 3), (0, 1, 2, 3, 3, 2, 1, 0)
    pipeline = uniform(times, 8, ranks=cyclic if len(times) == 2 else v_shape, slots=slots)
    assert 0.85 * optimum <= plan_bound_ns(pipeline) <= optimum


def test_steps_and_blocking_senders_count() -> None:
    plain = uniform((1, 2), 8)
    assert plan_bound_ns(uniform((1, 2), 8, step_ns=7)) == plan_bound_ns(plain) + 7
    # rank 0 of two: 4 F and 4 B with 3 of the F's transfers between them, the last B sends nothing: 4 x 3 + 4 + 1 waits
    blocking = uniform((1, 2), 4, ranks=(0, 1), lag_ns=1, blocking=True)
    assert plan_bound_ns(blocking) >= 4 * 3 + 4 + 3
    assert plan_bound_ns(blocking) > plan_bound_ns(uniform((1, 2), 4, ranks=(0, 1)))


def test_one_rank_is_never_idle() -> None:
    assert plan_bound_ns(uniform((1, 1, 1), 5, ranks=(0, 0))) == 30
