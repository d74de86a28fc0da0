"""Orders -> timeline: start times, bubbles, memory over time; an order that waits on itself is a deadlock."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from octopipe_cli.errors import DeadlockError, InvalidPlanError
from octopipe_cli.pipeline import Pipeline
from octopipe_cli.plan import Action, Orders


class Bubbles(NamedTuple):
    """Idle time of one rank within the step: before its first action, between actions, after its last, in ns."""

    before_first_ns: int
    between_ns: int
    after_last_ns: int


@dataclass(frozen=True)
class Timeline:
    """When everything happens.

    Attributes
    ----------
    pipeline, orders
        What was simulated.
    start_ns, end_ns
        For each rank, one time an action, in the rank's order.
    """

    pipeline: Pipeline
    orders: Orders
    start_ns: tuple[tuple[int, ...], ...]
    end_ns: tuple[tuple[int, ...], ...]

    def first_start_ns(self, rank: int) -> int:
        """Return when a rank starts; 0 where it never acts."""
        return self.start_ns[rank][0] if self.start_ns[rank] else 0

    def last_end_ns(self, rank: int) -> int:
        """Return when a rank's last action ends; 0 where it never acts."""
        return self.end_ns[rank][-1] if self.end_ns[rank] else 0

    @cached_property
    def step_time_ns(self) -> int:
        """The flush: the latest end of a rank's last action and the `step_ms` after it."""
        return max(self.last_end_ns(r) + step for r, step in enumerate(self.pipeline.step_ns))

    @cached_property
    def span_ns(self) -> int:
        """The longest of the ranks' own spans: first start to last end, and the `step_ms` after it."""
        return max(self.last_end_ns(r) - self.first_start_ns(r) + step for r, step in enumerate(self.pipeline.step_ns))

    @cached_property
    def busy_ns(self) -> tuple[int, ...]:
        """For each rank, the sum of its action times."""
        return tuple(
            sum(end - start for start, end in zip(starts, ends, strict=True))
            for starts, ends in zip(self.start_ns, self.end_ns, strict=True)
        )

    @property
    def bubble_ratio(self) -> float:
        """1 - sum of busy time / (P x step time); 0 for a step that takes no time."""
        return 1 - sum(self.busy_ns) / (self.pipeline.num_ranks * self.step_time_ns) if self.step_time_ns else 0.0

    def bubbles(self, rank: int) -> Bubbles:
        """Return the idle time of a rank, split; with busy time and `step_ms` it adds up to the step time."""
        if not self.orders[rank]:
            return Bubbles(self.step_time_ns - self.pipeline.step_ns[rank], 0, 0)
        first, last = self.first_start_ns(rank), self.last_end_ns(rank)
        after = self.step_time_ns - last - self.pipeline.step_ns[rank]
        return Bubbles(first, last - first - self.busy_ns[rank], after)

    def memory_curve(self, rank: int) -> list[tuple[int, int]]:
        """Return (time, bytes held from then on) of a rank, ascending, from its state at time 0."""
        held = self.pipeline.state_bytes(rank)
        curve = [(0, held)]
        for time, size in sorted(self._memory_events[rank]):
            held += size
            if curve[-1][0] == time:  # releases came first: no value on the way is above the last
                curve[-1] = (time, held)
            else:
                curve.append((time, held))
        return curve

    @cached_property
    def peak_memory_bytes(self) -> tuple[int, ...]:
        """For each rank, the most it ever holds."""
        peaks = []
        for rank in range(self.pipeline.num_ranks):
            held = peak = self.pipeline.state_bytes(rank)
            for _, size in sorted(self._memory_events[rank]):
                held += size
                peak = max(peak, held)
            peaks.append(peak)
        return tuple(peaks)

    @cached_property
    def fits(self) -> bool:
        """Whether every rank stays within its memory limit."""
        limits = self.pipeline.limit_bytes
        return all(limit is None or peak <= limit for peak, limit in zip(self.peak_memory_bytes, limits, strict=True))

    @cached_property
    def _memory_events(self) -> tuple[list[tuple[int, int]], ...]:
        """Allocations and releases of each rank as (time, bytes); sorted, releases come first at one instant."""
        events: tuple[list[tuple[int, int]], ...] = tuple([] for _ in range(self.pipeline.num_ranks))
        for rank, begin, end, size in _holdings(self):
            if size and end > begin:
                events[rank].append((begin, size))
                events[rank].append((end, -size))
        return events


def _holdings(timeline: Timeline) -> Iterator[tuple[int, int, int, int]]:
    """Yield (rank, from, until, bytes) of everything held besides the state (formats.md, Memory)."""
    pipeline = timeline.pipeline
    times: dict[tuple[int, str, int], tuple[int, int]] = {}  # plain tuples find an action, and cost less to make
    for actions, starts, ends in zip(timeline.orders, timeline.start_ns, timeline.end_ns, strict=True):
        times.update(zip(actions, zip(starts, ends, strict=True), strict=True))
    for (stage, kind, microbatch), (start, end) in times.items():
        rank, cost = pipeline.rank_of[stage], pipeline.cost(stage, microbatch)
        if kind == "W":
            continue
        yield rank, start, end, cost.bytes.workspace
        if kind == "F":
            if stage + 1 < pipeline.num_stages:  # its output waits at the next stage for that stage's F
                consumer = times[stage + 1, "F", microbatch][0]
                arrival = end + cost.forward_transfer_ns
                yield pipeline.rank_of[stage + 1], arrival, consumer, cost.bytes.output
            continue
        yield rank, times[stage, "F", microbatch][0], end, cost.bytes.held
        if kind == "I":
            begin = start if cost.recompute else end
            yield rank, begin, times[stage, "W", microbatch][1], cost.bytes.weight
        yield rank, start, end, cost.bytes.transient
        if stage:  # its gradient waits at the previous stage until that stage's I or B ends
            whole = (stage - 1, "B", microbatch)
            consumer = times[whole if whole in times else (stage - 1, "I", microbatch)][1]
            yield pipeline.rank_of[stage - 1], end + cost.backward_transfer_ns, consumer, cost.bytes.input


def simulate(pipeline: Pipeline, orders: Orders) -> Timeline:
    """Return the timeline of orders: each rank in its order, each action as early as it can start.

    Raises
    ------
    DeadlockError
        Where actions wait for one another; it names them.
    InvalidPlanError
        Where an action needs one that no order holds, or a stage runs an action it has no time for.
    """
    wanted = dependencies(pipeline, orders)
    starts: list[list[int]] = [[] for _ in orders]
    ends: list[list[int]] = [[] for _ in orders]
    free = [0] * len(orders)
    arrived: dict[Action, int] = {}  # when an action's result is there for the neighbouring stage
    ended: dict[Action, int] = {}
    blocking = pipeline.p2p == "blocking"
    moved = True
    while moved:
        moved = False
        for rank, actions in enumerate(orders):
            at = len(starts[rank])
            while at < len(actions):
                action = actions[at]
                begin = free[rank]
                for need in wanted[action]:
                    there = ended.get(need) if need.stage == action.stage else arrived.get(need)
                    if there is None:
                        break
                    begin = max(begin, there)
                else:
                    end = begin + pipeline.duration_ns(action)
                    lag = lag_ns(pipeline, action)
                    starts[rank].append(begin)
                    ends[rank].append(end)
                    ended[action] = end
                    arrived[action] = end + lag
                    free[rank] = end + lag if blocking else end
                    at += 1
                    moved = True
                    continue
                break
    if any(len(done) < len(actions) for done, actions in zip(starts, orders, strict=True)):
        raise _deadlock(orders, wanted, ended)
    return Timeline(pipeline, orders, tuple(map(tuple, starts)), tuple(map(tuple, ends)))


def lag_ns(pipeline: Pipeline, action: Action) -> int:
    """Return the transfer time in ns of an action's result to the stage that waits for it (0 where none does)."""
    cost = pipeline.cost(action.stage, action.microbatch)
    if action.kind == "F":
        return cost.forward_transfer_ns
    return 0 if action.kind == "W" else cost.backward_transfer_ns


def dependencies(pipeline: Pipeline, orders: Orders) -> dict[Action, tuple[Action, ...]]:
    """Return for each action the actions it waits for besides its rank's order: its own stage's first.

    Raises
    ------
    InvalidPlanError
        Where an action needs one that no order holds, or a stage runs an action it has no time for.
    """
    known = dict.fromkeys(action for actions in orders for action in actions)  # no set: errors name the first in order
    wanted: dict[Action, tuple[Action, ...]] = {}
    last = pipeline.num_stages - 1
    for action in known:
        stage, kind, microbatch = action
        if kind not in pipeline.stages[stage].action_ns:
            raise InvalidPlanError(f"{action}: stage {stage} may not split its backward")
        if kind == "F":
            needs: tuple[Action, ...] = (Action(stage - 1, "F", microbatch),) if stage else ()
        elif kind == "W":
            needs = (Action(stage, "I", microbatch),)
        else:
            needs = (Action(stage, "F", microbatch),)
            if stage < last:
                whole = Action(stage + 1, "B", microbatch)
                needs += (whole if whole in known else Action(stage + 1, "I", microbatch),)
        for need in needs:
            if need not in known:
                raise InvalidPlanError(f"{action} needs {need}, which is in no order")
        wanted[action] = needs
    return wanted


def _deadlock(orders: Orders, wanted: dict[Action, tuple[Action, ...]], ended: dict[Action, int]) -> DeadlockError:
    """Return the error that names a circle: from a rank's next action to one it waits for, to that one's rank."""
    heads = [next((action for action in actions if action not in ended), None) for actions in orders]
    rank_of = {action.stage: rank for rank, actions in enumerate(orders) for action in actions}
    rank = next(r for r, head in enumerate(heads) if head is not None)
    path: list[Action] = []
    at: dict[int, int] = {}
    while rank not in at:
        at[rank] = len(path)
        head = heads[rank]
        assert head is not None
        need = next(action for action in wanted[head] if action not in ended)
        path.append(head)
        rank = rank_of[need.stage]
        if need != heads[rank]:
            path.append(need)
    return DeadlockError(tuple(str(action) for action in path[at[rank] :]))


def sequence_of(orders: Orders) -> Iterator[Action]:
    """Yield all actions of orders without a deadlock, each after those it waits for."""
    last = max(action.stage for actions in orders for action in actions)
    heads = [0] * len(orders)
    done: set[tuple[int, bool, int]] = set()  # stage, whether forward, micro-batch
    moved = True
    while moved:
        moved = False
        for rank, actions in enumerate(orders):
            while heads[rank] < len(actions):
                stage, kind, microbatch = action = actions[heads[rank]]
                forward = kind == "F"
                near = stage + (-1 if forward else 1)
                if kind != "W" and 0 <= near <= last and (near, forward, microbatch) not in done:
                    break
                if kind != "W":
                    done.add((stage, forward, microbatch))
                heads[rank] += 1
                moved = True
                yield action
    assert heads == [len(actions) for actions in orders], "an order waits on itself"
