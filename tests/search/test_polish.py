"""Polish: proven optima from bad starts; never worse, never too large, the same every time."""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octopipe_cli.pipeline import Pipeline, StageCost
from octopipe_cli.plan import P2P, Action, ActionKind, Objective, Orders, StageBytes
from octopipe_cli.search import polish as polish_module
from octopipe_cli.search.incumbent import ascending
from octopipe_cli.search.polish import polish
from octopipe_cli.simulate import Timeline, simulate

from ..instances import random_instance, timeline_of


def uniform(
    times: tuple[int, int, int],
    ranks: tuple[int, ...] = (0, 1, 2, 3),
    *,
    num_microbatches: int = 8,
    most: int | tuple[int, ...] | None = None,
    transfer: int = 0,
    split: bool = True,
    p2p: P2P = "overlapped",
    output: int = 0,
    step_ns: int = 0,
) -> Pipeline:
    """Return alike stages with times (F, I, W); `most` is how many activations a rank may hold."""
    forward, gradient, weight = times
    action_ns: dict[ActionKind, int] = {"F": forward, "B": gradient + weight}
    if split:
        action_ns |= {"I": gradient, "W": weight}
    last, num_ranks = len(ranks) - 1, max(ranks) + 1
    stages = tuple(
        StageCost(
            action_ns,
            transfer if stage < last and ranks[stage + 1] != rank else 0,
            transfer if stage and ranks[stage - 1] != rank else 0,
            StageBytes(
                state=0,
                held=1,
                weight=1,
                transient=0,
                workspace=0,
                input=output if stage else 0,
                output=output if stage < last else 0,
            ),
            False,
        )
        for stage, rank in enumerate(ranks)
    )
    limits = most if isinstance(most, tuple) else (most,) * num_ranks
    return Pipeline(num_microbatches, ranks, stages, (step_ns,) * num_ranks, limits, p2p)


def one_by_one(pipeline: Pipeline) -> Timeline:
    """Return the worst sound timeline: one micro-batch after the other."""
    orders: list[list[Action]] = [[] for _ in range(pipeline.num_ranks)]
    for microbatch in range(pipeline.num_microbatches):
        for stage, rank in enumerate(pipeline.rank_of):
            orders[rank].append(Action(stage, "F", microbatch))
        for stage in reversed(range(pipeline.num_stages)):
            kinds: tuple[ActionKind, ...] = ("I", "W") if pipeline.may_split(stage) else ("B",)
            orders[pipeline.rank_of[stage]] += [Action(stage, kind, microbatch) for kind in kinds]
    return simulate(pipeline, tuple(map(tuple, orders)))


def polished(
    timeline: Timeline,
    objective: Objective = "step",
    *,
    budget: float = 20.0,
    floor_ns: int = 0,
    deadline: float | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Timeline:
    return polish(
        timeline, objective=objective, floor_ns=floor_ns, deterministic_time=budget, deadline=deadline, stop=stop
    )


def kinds(orders: Orders) -> list[list[tuple[int, ActionKind]]]:
    """Return what each rank runs, whatever its order."""
    return [sorted((action.stage, action.kind) for action in actions) for actions in orders]


V = (0, 1, 2, 3, 3, 2, 1, 0)
OPTIMA = {
    # name: (pipeline, least step time, least span); proven optima of published and small cases
    "zb-1p": (uniform((1, 1, 1), most=4), 27, 27),
    "zb-2p": (uniform((1, 1, 1), most=8), 27, 24),
    "two activations": (uniform((1, 1, 1), most=2), 41, 41),
    "three activations": (uniform((1, 1, 1), most=3), 31, 31),
    "five activations": (uniform((1, 1, 1), most=5), 27, 26),
    "six activations": (uniform((1, 1, 1), most=6), 27, 25),
    "zb-1p, transfers": (uniform((10, 12, 8), most=4, transfer=1), 294, 294),
    "zb-2p, transfers": (uniform((10, 12, 8), most=8, transfer=1), 273, 256),
    "unsplit": (uniform((2, 3, 0), most=(4, 3, 2, 1), num_microbatches=6, split=False), 45, None),
    "interleaved": (uniform((1, 1, 1), (0, 1, 2, 3) * 2, split=False), 57, None),
    "one wave": (uniform((1, 1, 1), V, num_microbatches=4, split=False), 36, None),
    "zb-v": (uniform((1, 1, 1), V, most=8), 51, None),
}


@pytest.mark.parametrize("name", OPTIMA)
def test_reaches_proven_optima_from_the_worst_start(name: str) -> None:
    pipeline, least_step, least_span = OPTIMA[name]
    start = one_by_one(pipeline)
    better = polished(start)
    assert better.step_time_ns == least_step < start.step_time_ns
    assert better.fits
    assert kinds(better.orders) == kinds(start.orders)
    if least_span is not None:
        better = polished(start, "span")
        assert better.span_ns == least_span < start.span_ns
        assert better.fits


def test_an_optimum_is_left_alone() -> None:
    start = one_by_one(uniform((1, 1, 1), most=1))  # with room for one micro-batch there is no other way
    assert polished(start) is start


def test_blocking_senders_and_step_times_count() -> None:
    """Two ranks, two micro-batches, F 2, B 2, transfers of 1 that keep the sender, 5 after the last action.

    Rank 1 can have its first F at 3 and needs 8 of work and 1 between its two B's for the first one's transfer: 12.
    Its last gradient arrives at 13, rank 0 ends at 15, and steps until 20.
    """
    pipeline = uniform((2, 2, 0), (0, 1), num_microbatches=2, transfer=1, split=False, p2p="blocking", step_ns=5)
    start = one_by_one(pipeline)
    assert start.step_time_ns == 25
    assert polished(start).step_time_ns == 20


def test_windows_do_without_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(polish_module, "FIRST_SIZE", 24)
    search = polish_module._Polish
    sizes = []
    improve = search._improve

    def noted(self: polish_module._Polish, begin: int, end: int, budget: float) -> bool:
        sizes.append(end - begin)
        return improve(self, begin, end, budget)

    monkeypatch.setattr(search, "_improve", noted)
    better = polished(one_by_one(uniform((1, 1, 1), most=4)))
    assert better.step_time_ns == 27
    assert sizes[0] == 24
    assert max(sizes) < 96


def test_boundary_tensors_that_do_not_fit_are_made_room_for() -> None:
    """Without another try with more room the search is stuck at 65."""
    start = one_by_one(uniform((1, 1, 1), most=4, output=1))
    assert start.step_time_ns == 72
    better = polished(start, budget=1.0)
    assert better.fits
    assert better.step_time_ns <= 33


def test_the_floor_ends_the_search() -> None:
    start = one_by_one(uniform((1, 1, 1), most=4))
    assert polished(start, floor_ns=start.step_time_ns) is start
    assert 27 <= polished(start, floor_ns=40).step_time_ns <= 40


def test_an_order_that_does_not_fit_comes_back() -> None:
    roomy = uniform((1, 1, 1), most=8)
    start = simulate(uniform((1, 1, 1), most=4), polished(one_by_one(roomy), "span").orders)
    assert not start.fits
    assert polished(start) is start


@pytest.mark.parametrize("ended", ["stop", "deadline", "budget"])
def test_ends_at_once_when_told(ended: str) -> None:
    start = one_by_one(uniform((1, 1, 1), most=4))
    if ended == "stop":
        assert polished(start, stop=lambda: True) is start
    elif ended == "deadline":
        assert polished(start, deadline=time.monotonic() - 1) is start
    else:
        assert polished(start, budget=0.0) is start


def test_ascending_renames_the_kth_to_k() -> None:
    orders = ((Action(0, "F", 1), Action(0, "F", 0), Action(0, "I", 1), Action(0, "B", 0), Action(0, "W", 1)),)
    renamed = (Action(0, "F", 0), Action(0, "F", 1), Action(0, "I", 0), Action(0, "B", 1), Action(0, "W", 0))
    assert ascending(orders) == (renamed,)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(seed=st.integers(0, 2**32), objective=st.sampled_from(["step", "span"]), blocking=st.booleans())
def test_never_worse_never_too_large(seed: int, objective: Objective, blocking: bool) -> None:
    start = timeline_of(random_instance(Random(seed)), "blocking" if blocking else None)
    better = polished(start, objective, budget=0.05)

    def value(timeline: Timeline) -> tuple[int, int]:
        pair = timeline.step_time_ns, timeline.span_ns
        return pair if objective == "step" else pair[::-1]

    assert value(better) <= value(start)
    assert better.fits or not start.fits
    assert kinds(better.orders) == kinds(start.orders)
    assert better == simulate(start.pipeline, better.orders)
    for actions in better.orders if better is not start else ():
        forwards = [(action.stage, action.microbatch) for action in actions if action.kind == "F"]
        assert sorted(forwards, key=lambda forward: forward[0]) == sorted(forwards)
    assert polished(start, objective, budget=0.05).orders == better.orders
