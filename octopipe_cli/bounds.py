"""Lower bounds for a given partition and placement: what any orders of one pipeline must cost.

A rank's actions on the way: F of all its stages, then the gradient comes back (I or B), then W. A bound adds up, for
one rank, when its work can start (head), the work itself, idle time that memory or the way to the last stage forces
on it, and what must still follow (tail). The one-machine argument is Carlier's (1982); warm-up, cool-down and slots
are the memory-limited ones for pipelines with their backward split.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from octopipe_cli.pipeline import Pipeline, StageCost
from octopipe_cli.plan import BoundArgument


@dataclass(frozen=True)
class _Costs:
    """Least times of each stage: `gradient` until its input gradient is there, `backward` with the weights.

    Where p2p is blocking, a sender's transfer occupies it like work: `sent_forward` and `sent_backward`.
    """

    forward: list[int]
    gradient: list[int]
    backward: list[int]
    sent_forward: list[int]
    sent_backward: list[int]
    head: list[int]
    turn: list[int]


class BoundParts(NamedTuple):
    """What a lower bound on the step time is made of; its parts add up to the bound.

    Attributes
    ----------
    argument
        ``load``: all work of `rank`, after its first stage can start; ``part``: the work of `rank` from `stage` on;
        ``gradients``: the backward work of `rank` in its stages up to `stage`, after the first gradient can be there;
        ``round trip``: the work of `rank` until its last gradient, then the way back, which ends on `last_rank`;
        ``path``: one micro-batch alone, which ends on `rank`.
    rank, stage
        Whose work it is, and the stage before which it cannot start.
    last_rank
        Where the step ends.
    start_ns, work_ns, idle_ns, after_ns
        Before that stage's first action; work; idle time that the way to the last stage or memory forces; what follows.
    """

    argument: BoundArgument
    rank: int
    stage: int
    last_rank: int
    start_ns: int
    work_ns: int
    idle_ns: int
    after_ns: int

    @property
    def total_ns(self) -> int:
        """The bound."""
        return self.start_ns + self.work_ns + self.idle_ns + self.after_ns


def plan_bound_ns(pipeline: Pipeline) -> int:
    """Return a lower bound on the step time of a pipeline, whatever its orders."""
    return plan_bound_parts(pipeline).total_ns


def plan_bound_parts(pipeline: Pipeline) -> BoundParts:
    """Return what the lower bound on a pipeline's step time is made of: the first of its largest arguments."""
    if pipeline.apart is not None:
        return max(_bounds_apart(pipeline), key=lambda parts: parts.total_ns)
    return max(_step_bounds(pipeline, _costs(pipeline)), key=lambda parts: parts.total_ns)


def _step_bounds(pipeline: Pipeline, costs: _Costs) -> Iterator[BoundParts]:
    """Yield every argument for a lower bound on the step time."""
    for rank, stages in enumerate(pipeline.stages_of):
        if not stages:
            continue
        machine = _Machine(pipeline, costs, rank)
        first, step_ns = stages[0], pipeline.step_ns[rank]
        begin = costs.head[first]
        idle_ns = machine.own_ns - machine.work_ns - step_ns
        yield BoundParts("load", rank, first, rank, begin, machine.work_ns, idle_ns, step_ns)
        for argument, stage, start_ns, work_ns in machine.one_machine():
            yield BoundParts(argument, rank, stage, rank, start_ns, work_ns, 0, step_ns)
        until = machine.until_last_gradient_ns
        for other, end in _finish(pipeline, costs, until, first).items():
            work_ns = until - machine.idle_ns
            yield BoundParts("round trip", rank, first, other, begin, work_ns, machine.idle_ns, end - until)
    turned = costs.head[-1] + costs.forward[-1]
    for rank, end in _finish(pipeline, costs, turned, pipeline.num_stages).items():
        step_ns = pipeline.step_ns[rank]
        yield BoundParts("path", rank, 0, rank, 0, end - step_ns, 0, step_ns)


def plan_span_bound_ns(pipeline: Pipeline) -> int:
    """Return a lower bound on the span of a pipeline: the longest of its ranks' own spans, whatever its orders."""
    if pipeline.apart is not None:
        return _span_bound_apart(pipeline)
    costs = _costs(pipeline)
    turned = costs.head[-1] + costs.forward[-1]
    begin = {rank: costs.head[stages[0]] for rank, stages in enumerate(pipeline.stages_of) if stages}
    span = max(end - begin[rank] for rank, end in _finish(pipeline, costs, turned, pipeline.num_stages).items())
    for rank, start_ns in begin.items():
        machine = _Machine(pipeline, costs, rank)
        span = max(span, machine.own_ns)
        first = machine.stages[0]
        for other, end in _finish(pipeline, costs, machine.until_last_gradient_ns, first).items():
            if pipeline.stages_of[other][0] < first:  # it starts before, and ends after, this one's round trip
                span = max(span, start_ns - begin[other] + end)
    return span


def _bounds_apart(pipeline: Pipeline) -> Iterator[BoundParts]:
    """Yield the arguments that hold for micro-batches that differ, memory left aside.

    Loads are sums over the micro-batches. Which of them opens a rank, and which leaves it last, is up to the orders:
    the one for which that is soonest. Each of them alone must pass all stages.
    """
    single = [_costs_of(pipeline, m) for m in range(pipeline.num_microbatches)]
    for rank, stages in enumerate(pipeline.stages_of):
        if not stages:
            continue
        first, step_ns = stages[0], pipeline.step_ns[rank]
        forward, gradient, backward = (
            [sum(getattr(costs, field)[s] for costs in single) for s in stages]
            for field in ("forward", "gradient", "backward")
        )
        work = sum(forward) + sum(backward)
        yield BoundParts("load", rank, first, rank, min(c.head[first] for c in single), work, 0, step_ns)
        for at, s in enumerate(stages):
            start = min(costs.head[s] for costs in single)
            yield BoundParts("part", rank, s, rank, start, work - sum(forward[:at]), 0, step_ns)
            start = min(costs.turn[s] for costs in single)
            yield BoundParts("gradients", rank, s, rank, start, sum(backward[: at + 1]), 0, step_ns)
        begin = min(costs.head[first] for costs in single)
        until = begin + sum(forward) + sum(gradient)
        ways = [_finish(pipeline, costs, until, first, m) for m, costs in enumerate(single)] if first else []
        if ways:
            way = min(ways, key=lambda ends: max(ends.values()))
            other = max(way, key=lambda each: way[each])
            yield BoundParts("round trip", rank, first, other, begin, until - begin, 0, way[other] - until)
    for m, costs in enumerate(single):
        for rank, end in _finish(pipeline, costs, costs.head[-1] + costs.forward[-1], pipeline.num_stages, m).items():
            step_ns = pipeline.step_ns[rank]
            yield BoundParts("path", rank, 0, rank, 0, end - step_ns, 0, step_ns)


def _span_bound_apart(pipeline: Pipeline) -> int:
    """Return the span's bound for micro-batches that differ: each rank's work, and each micro-batch's round trip."""
    single = [_costs_of(pipeline, m) for m in range(pipeline.num_microbatches)]
    span = 0
    for rank, stages in enumerate(pipeline.stages_of):
        work = sum(costs.forward[s] + costs.backward[s] for costs in single for s in stages)
        span = max(span, work + pipeline.step_ns[rank])
    for m, costs in enumerate(single):
        turned = costs.head[-1] + costs.forward[-1]
        for rank, end in _finish(pipeline, costs, turned, pipeline.num_stages, m).items():
            span = max(span, end - costs.head[pipeline.stages_of[rank][0]])
    return span


def _costs(pipeline: Pipeline) -> _Costs:
    return _costs_of(pipeline, 0)


def _costs_of(pipeline: Pipeline, microbatch: int) -> _Costs:
    """Return the least times of each stage for one micro-batch."""
    stages = [pipeline.cost(s, microbatch) for s in range(pipeline.num_stages)]
    forward = [stage.action_ns["F"] for stage in stages]
    gradient = [_gradient(stage) for stage in stages]
    backward = [_backward(stage) for stage in stages]
    blocking = pipeline.p2p == "blocking"
    sent_forward = [stage.forward_transfer_ns if blocking else 0 for stage in stages]
    sent_backward = [stage.backward_transfer_ns if blocking else 0 for stage in stages]
    head = [0]
    for s in range(len(stages) - 1):
        head.append(head[s] + forward[s] + stages[s].forward_transfer_ns)
    turn = [head[-1] + forward[-1]]  # when the gradient of each stage's output can be there, from the last stage on
    for s in range(len(stages) - 1, 0, -1):
        turn.append(turn[-1] + gradient[s] + stages[s].backward_transfer_ns)
    return _Costs(forward, gradient, backward, sent_forward, sent_backward, head, turn[::-1])


def _gradient(stage: StageCost) -> int:
    return min(stage.action_ns[kind] for kind in ("I", "B") if kind in stage.action_ns)


def _backward(stage: StageCost) -> int:
    times = stage.action_ns
    return min(times["B"], times["I"] + times["W"]) if "I" in times else times["B"]


def _finish(pipeline: Pipeline, costs: _Costs, time: int, stage: int, microbatch: int = 0) -> dict[int, int]:
    """Return for each rank below a stage when it can have ended, if that stage's last gradient is there at `time`.

    The micro-batch goes down to the first stage; each rank it visits does the weights too, and steps.
    """
    ends: dict[int, int] = {}
    for s in range(stage - 1, -1, -1):
        if s + 1 < pipeline.num_stages:
            time += pipeline.cost(s + 1, microbatch).backward_transfer_ns
        rank = pipeline.rank_of[s]
        ends[rank] = max(ends.get(rank, 0), time) + costs.backward[s]
        time += costs.gradient[s]
    return {rank: end + pipeline.step_ns[rank] for rank, end in ends.items()}


class _Machine:
    """One rank: its work, and the idle time that no order can fill."""

    def __init__(self, pipeline: Pipeline, costs: _Costs, rank: int) -> None:
        self.pipeline, self.costs = pipeline, costs
        self.stages = pipeline.stages_of[rank]
        self.number = pipeline.num_microbatches
        self.step_ns = pipeline.step_ns[rank]
        limit = pipeline.limit_bytes[rank]
        self.free_bytes = None if limit is None else limit - pipeline.state_bytes(rank)
        self.forward_ns = self._total(lambda s: costs.forward[s] + costs.sent_forward[s])
        self.gradient_ns = self._total(lambda s: costs.gradient[s] + costs.sent_backward[s])
        self.backward_ns = self._total(lambda s: costs.backward[s] + costs.sent_backward[s])
        self.idle_ns = self._idle()
        self.last_sent_ns = max(max(costs.sent_forward[s], costs.sent_backward[s]) for s in self.stages)
        self.work_ns = self.forward_ns + self.backward_ns - self.last_sent_ns
        self.own_ns = max(self.work_ns + self.idle_ns, self._slots(), self._area()) + self.step_ns
        self.until_last_gradient_ns = (
            self.forward_ns
            + self.gradient_ns
            + self._weights_before_last_gradient()
            + self.idle_ns
            - costs.sent_backward[self.stages[0]]
        )

    def one_machine(self) -> Iterator[tuple[BoundArgument, int, int, int]]:
        """Yield (argument, stage, start, work) of the sets of actions that a time at which they can start cuts off."""
        costs = self.costs
        skipped = backward = 0
        for s in self.stages:
            # all but the F of earlier stages; and the backwards of this and the earlier stages alone
            yield "part", s, costs.head[s], self.work_ns - skipped
            skipped += self.number * (costs.forward[s] + costs.sent_forward[s])
            backward += self.number * (costs.backward[s] + costs.sent_backward[s])
            yield "gradients", s, costs.turn[s], backward - self.last_sent_ns

    def _total(self, time: Callable[[int], int]) -> int:
        return self.number * sum(time(s) for s in self.stages)

    def _most(self, items: Iterable[tuple[int, int, int]], free_bytes: int | None) -> int:
        """Return the most work that free memory lets be open: items are (work, bytes, how many)."""
        if free_bytes is None:
            return sum(work * number for work, _, number in items)
        left, total = max(free_bytes, 0), 0
        costly = []
        for work, size, number in items:
            if size == 0:
                total += work * number
            else:
                costly.append((work, size, number))
        # by work per byte; the last one in part, which no real choice beats
        costly.sort(key=lambda item: item[0] * 2**80 // item[1], reverse=True)
        for work, size, number in costly:
            if size * number <= left:
                total += work * number
                left -= size * number
            else:
                total += -(-work * left // size)
                break
        return total

    def _idle(self) -> int:
        """Return idle time before the first gradient is there, and between the last F and its gradient.

        Before the first I or B only F's run, as many as memory holds. After the last F its micro-batch takes a round
        trip, in which only what is open then can run. The two times are apart where not all F's fit before the first
        I or B.
        """
        costs, pipeline, last = self.costs, self.pipeline, self.stages[-1]
        size = pipeline.stages[last].bytes
        runs = costs.gradient[last] > 0  # what is held during an action that takes no time is not held at all
        beside = size.workspace + size.transient + (size.output if last + 1 < pipeline.num_stages else 0) if runs else 0
        held = sum(pipeline.stages[s].bytes.held for s in self.stages)
        room = None if self.free_bytes is None else self.free_bytes - beside
        openable = [
            (costs.forward[s] + costs.sent_forward[s], pipeline.stages[s].bytes.held, self.number) for s in self.stages
        ]
        warm_up = max(0, costs.turn[last] - costs.head[self.stages[0]] - self._most(openable, room))
        others = self.number - 1
        closable = []
        for s in self.stages:
            sizes = pipeline.stages[s].bytes
            closable.append((costs.backward[s] + costs.sent_backward[s], sizes.held, others))
            if pipeline.may_split(s):
                closable.append((pipeline.stages[s].action_ns["W"], sizes.weight, others))
        trip = costs.turn[last] - costs.head[last] - costs.forward[last] - costs.sent_forward[last]
        left = None if self.free_bytes is None else self.free_bytes - held
        cool_down = max(0, trip - self._most(closable, left))
        apart = runs and room is not None and self.number * held > room
        return warm_up + cool_down if apart else max(warm_up, cool_down)

    def _weights_before_last_gradient(self) -> int:
        """Return the W work that memory forces to be done before the rank's last I or B."""
        if self.free_bytes is None:
            return 0
        costs, first = self.costs, self.stages[0]
        late = [
            (
                costs.backward[s] - costs.gradient[s],
                self.pipeline.stages[s].bytes.weight,
                self.number - 1 if s == first else self.number,  # the last micro-batch's own W comes after
            )
            for s in self.stages
        ]
        held = self.pipeline.stages[first].bytes.held if costs.gradient[first] else 0
        room = self.free_bytes - held
        return max(0, sum(work * number for work, _, number in late) - self._most(late, room))

    def _life(self, s: int) -> int:
        """Return the least time from the start of F to the end of I or B."""
        return self.costs.turn[s] - self.costs.head[s] + self.costs.gradient[s]

    def _slots(self) -> int:
        """Return the bound of few slots: each serves micro-batches one after another, none shorter than its life."""
        if self.free_bytes is None:
            return 0
        best = 0
        for s in self.stages:
            sizes = self.pipeline.stages[s].bytes
            split = self.pipeline.may_split(s)
            size = min(sizes.held, sizes.weight) if split else sizes.held
            if size:
                slots = max(1, self.free_bytes // size)
                life = self._life(s) + self.costs.backward[s] - self.costs.gradient[s]
                best = max(best, -(-self.number // slots) * life)
        return best

    def _area(self) -> int:
        """Return the bound of the area under the rank's memory curve: bytes x time held, over the free bytes."""
        if self.free_bytes is None or self.free_bytes <= 0:
            return 0
        area = 0
        for s in self.stages:
            sizes = self.pipeline.stages[s].bytes
            weight = min(sizes.held, sizes.weight) * (self.costs.backward[s] - self.costs.gradient[s])
            running = self.costs.forward[s] + self.costs.gradient[s]
            area += sizes.held * self._life(s) + weight + sizes.workspace * running
        return -(-self.number * area // self.free_bytes)
