"""What ranks wait for: the bubbles of a timeline, those with the same cause together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from octopipe_cli.explain.graph import ActionGraph
from octopipe_cli.explain.path import CriticalPath
from octopipe_cli.plan import Action, ActionKind
from octopipe_cli.simulate import Timeline

Place = Literal["before first", "between", "sending", "after last", "never acts"]


@dataclass(frozen=True, slots=True)
class Ready:
    """An action that could have run during a wait, as far as what it needs is concerned.

    Attributes
    ----------
    action, duration_ns
        What it is and how long it takes.
    lacking_bytes
        How much memory is missing for it, all else as it is; 0 where it fits.
    """

    action: Action
    duration_ns: int
    lacking_bytes: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Bubbles of one rank with one cause.

    Attributes
    ----------
    rank, place
        Where: before its first action, between two, after its last (until the step ends), during its own transfers
        (blocking p2p), or all the time.
    stage, kind, source_rank
        Whose result it waits for and where that runs; None where it waits for none.
    count, total_ns
        How many they are and how long together.
    longest_ns, from_ns
        The longest of them and when that begins.
    action, source
        What is held up by the longest, and what it waits for.
    ready
        The next action in the rank's order that could have run in the longest; None where there is none.
    """

    rank: int
    place: Place
    stage: int | None
    kind: ActionKind | None
    source_rank: int | None
    count: int
    total_ns: int
    longest_ns: int
    from_ns: int
    action: Action | None = None
    source: Action | None = None
    ready: Ready | None = None


def waits(timeline: Timeline, graph: ActionGraph, path: CriticalPath) -> list[Wait]:
    """Return all bubbles, grouped by rank and cause, the longest in total first; together they are the idle time."""
    groups: dict[tuple[int, Place, int | None, ActionKind | None], Wait] = {}
    for wait in _single(timeline, graph, path):
        if wait.total_ns == 0:
            continue
        key = (wait.rank, wait.place, wait.stage, wait.kind)
        old = groups.get(key)
        if old is not None:
            longest = wait if wait.longest_ns > old.longest_ns else old
            wait = replace(longest, count=old.count + 1, total_ns=old.total_ns + wait.total_ns)
        groups[key] = wait
    return sorted(groups.values(), key=lambda wait: (-wait.total_ns, wait.rank, wait.from_ns))


def _single(timeline: Timeline, graph: ActionGraph, path: CriticalPath) -> Iterator[Wait]:
    """Yield every bubble."""
    step_time = timeline.step_time_ns
    for number, action in enumerate(graph.actions):
        before, rank, start = graph.previous[number], graph.ranks[number], graph.start_ns[number]
        free = 0
        if before >= 0:
            free = graph.end_ns[before]
            if graph.blocking:
                sent = graph.lag_ns[before]
                yield Wait(rank, "sending", None, None, None, 1, sent, sent, free, action, graph.actions[before])
                free += sent
        source = graph.source[number]
        if source >= 0:
            need = graph.actions[source]
            place: Place = "between" if before >= 0 else "before first"
            idle = start - free
            yield Wait(rank, place, need.stage, need.kind, graph.ranks[source], 1, idle, idle, free, action, need)
    ending = graph.actions[path.numbers[-1]] if path.numbers else None
    for rank, last in enumerate(graph.last):
        end, step = (graph.end_ns[last] if last >= 0 else 0), graph.step_ns[rank]
        idle = step_time - end - step
        place = "after last" if last >= 0 else "never acts"
        yield Wait(rank, place, None, None, path.last_rank, 1, idle, idle, end + step, None, ending)


def with_ready(timeline: Timeline, graph: ActionGraph, wait: Wait) -> Wait:
    """Return a wait between two actions with what could have run in the longest of its bubbles."""
    if wait.place != "between" or wait.action is None:
        return wait
    order = timeline.orders[wait.rank]
    at = order.index(wait.action)
    later = {wait.action}  # they end after the bubble: what needs one of them is not ready
    for number in range(at + 1, len(order)):
        action = order[number]
        source = graph.source[graph.number_of[action]]
        arrived = source < 0 or graph.end_ns[source] + graph.lag_ns[source] <= wait.from_ns
        if arrived and _own_need(action) not in later:
            lacking = 0 if action.kind != "F" else _lacking_bytes(timeline, wait, number)
            return replace(wait, ready=Ready(action, timeline.pipeline.duration_ns(action), lacking))
        later.add(action)
    return wait


def _own_need(action: Action) -> Action | None:
    """Return the action of its own stage that an action needs."""
    needs: dict[ActionKind, ActionKind] = {"I": "F", "B": "F", "W": "I"}
    return action._replace(kind=needs[action.kind]) if action.kind in needs else None


def _lacking_bytes(timeline: Timeline, wait: Wait, number: int) -> int:
    """Return how far above the limit the rank would be if an F ran at the begin of a wait and not when it does."""
    pipeline = timeline.pipeline
    limit = pipeline.limit_bytes[wait.rank]
    if limit is None:
        return 0
    action, start_ns = timeline.orders[wait.rank][number], timeline.start_ns[wait.rank][number]
    sizes = pipeline.cost(action.stage, action.microbatch).bytes
    added = sizes.held - (pipeline.cost(action.stage - 1, action.microbatch).bytes.output if action.stage else 0)
    at_first = peak = 0
    for time, held in timeline.memory_curve(wait.rank):
        if time >= start_ns:
            break
        if time <= wait.from_ns:
            at_first = peak = held
        peak = max(peak, held)
    return max(0, peak + added - limit, at_first + added + sizes.workspace - limit)
