"""Zero-bubble schedules: the papers' patterns, and automatic variants for uneven costs under an activation limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Final, Literal

from octopipe_cli.pipeline import Pipeline
from octopipe_cli.plan import Action, Orders
from octopipe_cli.schedules.greedy import (
    ActivationLimit,
    Greedy,
    Setting,
    StageTimes,
    greedy_orders,
    in_flight_limit,
    stage_times,
)
from octopipe_cli.simulate import Timeline, simulate

Goal = Literal["step", "span"]

#: What greedy runs try, the more useful first.
SETTINGS: Final = (
    Setting(-4, 0, look_ahead=True, cap_eighths=8),
    Setting(8, 0, look_ahead=True),
    Setting(-16, 4, look_ahead=False),
    Setting(0, 4, look_ahead=True, cap_eighths=10),
    Setting(-16, None, look_ahead=False, cap_eighths=8),
    Setting(-2, 4, look_ahead=False),
    Setting(8, 6, look_ahead=False),
    Setting(-16, 2, look_ahead=False, cap_eighths=8),
    Setting(-16, 0, look_ahead=False, cap_eighths=7),
)
#: What is tried where a pattern gives the order of forwards and backwards.
SCRIPTED: Final = tuple(Setting(0, slack, look_ahead=True) for slack in (0, 2, 5, None))
#: Above so many actions little is tried: the deepest pattern, then others and one greedy run where it does not fit.
MANY_ACTIONS: Final = 20_000


def zb_h1(pipeline: Pipeline, objective: Goal = "step") -> Orders:
    """Return ZB-H1's orders: at most P activations a rank, what 1F1B holds on its first (arXiv 2401.10241)."""
    return zero_bubble(pipeline, _limit(pipeline, pipeline.num_ranks), objective)


def zb_h2(pipeline: Pipeline, objective: Goal = "step") -> Orders:
    """Return ZB-H2's orders: at most 2P - 1 activations a rank (arXiv 2401.10241)."""
    return zero_bubble(pipeline, _limit(pipeline, 2 * pipeline.num_ranks - 1), objective)


def zb_v(pipeline: Pipeline, objective: Goal = "step") -> Orders:
    """Return ZB-V's orders: two stages a rank in a V, at most 2P of their activations (arXiv 2405.15362)."""
    return zero_bubble(pipeline, _limit(pipeline, 2 * pipeline.num_ranks), objective)


def _limit(pipeline: Pipeline, count: int) -> ActivationLimit:
    """Return a limit of so many activations a rank, in bytes where a rank's memory does not hold as many.

    Memory that does not even hold one micro-batch is left out of account: nothing fits then.
    """
    by_count = in_flight_limit([count] * pipeline.num_ranks, pipeline.num_stages)
    held = tuple(cost.bytes.held for cost in pipeline.stages)
    weight = tuple(cost.bytes.weight for cost in pipeline.stages)
    units, binds = [], False
    for rank, (stages, limit) in enumerate(zip(pipeline.stages_of, pipeline.limit_bytes, strict=True)):
        sizes = [pipeline.stages[stage].bytes for stage in stages]
        one = sum(size.held for size in sizes)
        growth = max((max(0, size.weight - size.held) for size in sizes), default=0)
        wanted = count * one // max(1, len(sizes)) + growth
        # Beside them: what one action needs while it runs, and an input and a gradient waiting at each stage.
        at_work = [size.transient + size.workspace + (size.held if size.transient else 0) for size in sizes]
        beside = max(at_work, default=0) + sum(size.input + size.output for size in sizes)
        room = wanted if limit is None else limit - pipeline.state_bytes(rank) - beside
        if room < one + growth:
            return by_count
        binds = binds or room < wanted
        units.append(min(room, wanted))
    return ActivationLimit(tuple(units), held, weight) if binds else by_count


def zero_bubble(pipeline: Pipeline, limit: ActivationLimit, objective: Goal = "step") -> Orders:
    """Return the best zero-bubble orders found under an activation limit, for any placement.

    Patterns whose W fill the gaps that these costs leave, and greedy runs in several settings, are simulated.
    Those within the ranks' memory come first, then the least step time (or span), then the other of the two, then
    the order of trying. Above MANY_ACTIONS the first that fits is taken.
    """
    candidates = _candidates(pipeline, limit)
    if _many(pipeline):
        first = next(candidates)
        if limit.held != tuple(cost.bytes.held for cost in pipeline.stages):  # memory does not bind, or nothing fits
            return first
        return next((orders for orders in chain([first], candidates) if simulate(pipeline, orders).fits), first)
    return min(candidates, key=lambda orders: _value(simulate(pipeline, orders), objective))


def _many(pipeline: Pipeline) -> bool:
    return 3 * pipeline.num_stages * pipeline.num_microbatches > MANY_ACTIONS


def _value(timeline: Timeline, objective: Goal) -> tuple[bool, int, int]:
    step, span = timeline.step_time_ns, timeline.span_ns
    return (not timeline.fits, *((step, span) if objective == "step" else (span, step)))


def _candidates(pipeline: Pipeline, limit: ActivationLimit) -> Iterator[Orders]:
    times, count = stage_times(pipeline), pipeline.num_microbatches
    one = 1 if _many(pipeline) else None
    for script in _scripts(pipeline, limit, times):
        for setting in SCRIPTED[:one]:
            run = Greedy(times, count, limit, setting, script)
            orders = run.run()
            if run.finished:  # else the pattern holds more than the limit
                yield orders
    for setting in SETTINGS[:one]:
        yield greedy_orders(times, count, limit, setting)[0]


def _scripts(pipeline: Pipeline, limit: ActivationLimit, times: StageTimes) -> Iterable[Sequence[Sequence[Action]]]:
    """Yield the patterns (forwards and backwards alone) for a pipeline's placement."""
    ranks, count = pipeline.num_ranks, pipeline.num_microbatches
    upward = tuple(range(ranks))
    if pipeline.rank_of == upward:
        growth = [max(0, weight - held) for held, weight in zip(limit.held, limit.weight, strict=True)]
        each = zip(limit.units, growth, limit.held, strict=True)
        room = [max(1, (units - more) // held) if held else count for units, more, held in each]
        seen = []
        # By how much the warm-up grows from rank to rank, in half forwards: 2 is ZB-H1, 4 is ZB-H2.
        growths = (2, 3, 4) if not _many(pipeline) else (4, 2) if room[0] > ranks else (2,)
        patterns = [[1 + (ranks - 1 - r) * halves // 2 for r in upward] for halves in growths]
        patterns += [] if _many(pipeline) else _until_first_backward(times)
        for pattern in patterns:
            wanted = [max(1, min(count, warm_up)) for warm_up in pattern]
            # No rank can warm up longer than the one before it.
            warm_ups = list(accumulate(map(min, wanted, room), min))
            if warm_ups not in seen:
                seen.append(warm_ups)
                yield [warm_script(r, warm_up, count) for r, warm_up in enumerate(warm_ups)]
    elif pipeline.rank_of == upward + upward[::-1]:
        yield [v_script(r, ranks, count) for r in upward]


def _until_first_backward(times: StageTimes) -> list[list[int]]:
    """Return warm-ups that fill the time until the first backward can come, one stage a rank: cut off, and rounded up.

    A forward that runs on when the first backward comes holds up all ranks before it.
    """
    ahead = list(accumulate(map(int.__add__, times.forward, times.forward_transfer), initial=0))
    turn = ahead[-1] - times.forward_transfer[-1]
    behind = list(accumulate(map(int.__add__, reversed(times.backward), reversed(times.backward_transfer)), initial=0))
    spare = [turn + behind[-2 - r] - ahead[r] for r in range(times.num_ranks)]
    fitting = [time // max(1, forward) for time, forward in zip(spare, times.forward, strict=True)]
    return [fitting, [warm_up + 1 for warm_up in fitting]]


def warm_script(stage: int, warm_up: int, num_microbatches: int) -> list[Action]:
    """Return `warm_up` forwards, then backward and forward by turns, then the backwards left."""
    script = [Action(stage, "F", m) for m in range(warm_up)]
    for m in range(num_microbatches):
        script.append(Action(stage, "I", m))
        if m + warm_up < num_microbatches:
            script.append(Action(stage, "F", m + warm_up))
    return script


def v_script(rank: int, num_ranks: int, num_microbatches: int) -> list[Action]:
    """Return ZB-V's forwards and backwards of a rank with the stages r and 2P - 1 - r.

    Down-going forwards first, 2 (P - r) - 1 of them; then r up- and down-going by turns; then P - r up-going, each
    with its backward; then, one micro-batch a round, down F, down I, up F, up I; at last the backwards left.
    Written for as many micro-batches as the pattern needs; those beyond the real number are left out, which
    no other micro-batch waits for.
    """
    down, up = rank, 2 * num_ranks - 1 - rank
    count = max(num_microbatches, 2 * num_ranks)
    done = {(stage, kind): 0 for stage in (down, up) for kind in "FI"}
    script: list[Action] = []

    def add(stage: int, kind: Literal["F", "I"]) -> None:
        if done[stage, kind] < count:
            script.append(Action(stage, kind, done[stage, kind]))
            done[stage, kind] += 1

    for _ in range(2 * (num_ranks - rank) - 1):
        add(down, "F")
    for _ in range(rank):
        add(up, "F")
        add(down, "F")
    for _ in range(num_ranks - rank):
        add(up, "F")
        add(up, "I")
    while done[up, "F"] < count or done[down, "F"] < count:
        add(down, "F")
        add(down, "I")
        add(up, "F")
        add(up, "I")
    while done[down, "I"] < count or done[up, "I"] < count:
        add(down, "I")
        add(up, "I")
    return [action for action in script if action.microbatch < num_microbatches]
