"""The verifier's own replay: when each action runs, how much each rank holds, which actions wait in a circle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from octopipe_cli.verify.case import Case

UNKNOWN: Final = -1

#: Which kinds of action a stage has for a micro-batch, as a sum.
KIND_BITS: Final = {"F": 1, "I": 2, "W": 4, "B": 8}


class Deadlock(NamedTuple):
    """Actions of which each waits for the next and the last for the first."""

    circle: tuple[str, ...]


class Replay(NamedTuple):
    """What the orders lead to; lists have one entry a rank, times in ns.

    `by_end` has the action numbers (`_Clock`) by the ends of the actions, those that end together as they ran.
    """

    step_time_ns: int
    span_ns: int
    bubble_ratio: float
    busy_ns: list[int]
    first_start_ns: list[int]
    last_end_ns: list[int]
    peak_bytes: list[int]
    by_end: list[int]


class _Clock:
    """Starts and ends by action number: F of a unit is the unit, I or B is `back` more, W is twice `back` more.

    A unit is stage x num_microbatches + micro-batch.
    """

    def __init__(self, num_stages: int, num_microbatches: int) -> None:
        self.back = num_stages * num_microbatches
        self.ran: list[int] = []
        self.start = [UNKNOWN] * (3 * self.back)
        self.end = [UNKNOWN] * (3 * self.back)


def replay(case: Case) -> Replay | Deadlock:
    """Return the timeline of a plan whose stages and orders are sound, or the circle it waits in."""
    clock = _Clock(len(case.plan.stages), case.num_microbatches)
    done = _run(case, clock)
    if any(ran < len(actions) for ran, actions in zip(done, case.orders, strict=True)):
        return Deadlock(_circle(case, clock, done))
    count = case.num_microbatches
    busy = [sum(case.units[s * count + m].action_ns[kind] for s, kind, m in actions) for actions in case.orders]
    first = [clock.start[_number(case, clock, actions[0])] if actions else 0 for actions in case.orders]
    last = [clock.end[_number(case, clock, actions[-1])] if actions else 0 for actions in case.orders]
    step_time = max(end + tail for end, tail in zip(last, case.step_ns, strict=True))
    span = max(end - begin + tail for begin, end, tail in zip(first, last, case.step_ns, strict=True))
    bubble = 1 - sum(busy) / (len(busy) * step_time) if step_time else 0.0
    by_end = sorted(clock.ran, key=clock.end.__getitem__)
    return Replay(step_time, span, bubble, busy, first, last, _peaks(case, clock), by_end)


def _number(case: Case, clock: _Clock, action: tuple[int, str, int]) -> int:
    stage, kind, microbatch = action
    unit = stage * case.num_microbatches + microbatch
    return unit + (0 if kind == "F" else 2 * clock.back if kind == "W" else clock.back)


def _run(case: Case, clock: _Clock) -> list[int]:
    """Set the clock as far as the orders get; return how many actions of each rank ran."""
    count, back, start, end = case.num_microbatches, clock.back, clock.start, clock.end
    forward_ns = [facts.forward_ns for facts in case.units]
    backward_ns = [facts.backward_ns for facts in case.units]
    lasts = [facts.action_ns for facts in case.units]
    last = len(case.stages) - 1
    blocking = case.plan.p2p == "blocking"
    done, free = [0] * len(case.orders), [0] * len(case.orders)
    waiting: dict[int, int] = {}  # action number -> the rank that stands still until it has run
    ready = list(range(len(case.orders)))
    while ready:
        rank = ready.pop()
        actions, now = case.orders[rank], free[rank]
        for index in range(done[rank], len(actions)):
            stage, kind, microbatch = actions[index]
            number = unit = stage * count + microbatch
            begin, lag = now, 0
            if kind == "F":
                if stage:
                    need = number - count
                    if end[need] == UNKNOWN:
                        waiting[need] = rank
                        break
                    begin = max(begin, end[need] + forward_ns[need])
                lag = forward_ns[unit]
            elif kind == "W":
                number += 2 * back
                if end[number - back] == UNKNOWN:
                    break  # its I stands later in this very order: no other rank can end the wait
                begin = max(begin, end[number - back])
            else:
                if end[number] == UNKNOWN:
                    break  # so does its F
                begin = max(begin, end[number])
                number += back
                if stage < last:
                    need = number + count
                    if end[need] == UNKNOWN:
                        waiting[need] = rank
                        break
                    begin = max(begin, end[need] + backward_ns[unit + count])
                lag = backward_ns[unit]
            start[number] = begin
            end[number] = now = begin + lasts[unit][kind]
            clock.ran.append(number)
            if blocking:
                now += lag
            done[rank] += 1
            if number in waiting:
                ready.append(waiting.pop(number))
        free[rank] = now
    return done


def _circle(case: Case, clock: _Clock, done: list[int]) -> tuple[str, ...]:
    """Follow who waits for whom from any rank that stands still until a rank comes up again."""
    rank = next(r for r, actions in enumerate(case.orders) if done[r] < len(actions))
    path: list[str] = []
    met: dict[int, int] = {}
    while rank not in met:
        met[rank] = len(path)
        head = case.orders[rank][done[rank]]
        path.append("{}{}{}".format(*head))
        need = next(other for other in _needs(case, head) if clock.end[_number(case, clock, other)] == UNKNOWN)
        rank = case.plan.stages[need[0]].rank
        if case.orders[rank][done[rank]] != need:  # it waits in turn for its rank to get past the next one there
            path.append("{}{}{}".format(*need))
    return tuple(path[met[rank] :])


def _needs(case: Case, action: tuple[int, str, int]) -> list[tuple[int, str, int]]:
    stage, kind, microbatch = action
    if kind == "W":
        return [(stage, "I", microbatch)]
    if kind == "F":
        return [(stage - 1, "F", microbatch)] if stage else []
    needs = [(stage, "F", microbatch)]
    if stage + 1 < len(case.plan.stages):
        needs.append((stage + 1, "B" if _fused(case, stage + 1, microbatch) else "I", microbatch))
    return needs


def _fused(case: Case, stage: int, microbatch: int) -> bool:
    return bool(case.kinds_met[stage * case.num_microbatches + microbatch] & KIND_BITS["B"])


class _Room:
    """What comes and goes on one rank, summed by instant."""

    def __init__(self, state: int) -> None:
        self.state = state
        self.taken: dict[int, int] = {}
        self.freed: dict[int, int] = {}

    def hold(self, begin: int, until: int, size: int) -> None:
        if size and until > begin:
            self.taken[begin] = self.taken.get(begin, 0) + size
            self.freed[until] = self.freed.get(until, 0) + size

    def peak(self) -> int:
        held = peak = self.state
        for instant in sorted(self.taken.keys() | self.freed.keys()):
            held += self.taken.get(instant, 0) - self.freed.get(instant, 0)  # releases come before allocations
            peak = max(peak, held)
        return peak


def _peaks(case: Case, clock: _Clock) -> list[int]:
    """Return the most each rank ever holds (formats.md, Memory)."""
    rooms = [_Room(0) for _ in case.members]
    for stage, facts in zip(case.plan.stages, case.stages, strict=True):
        rooms[stage.rank].state += facts.bytes.state
    for s, stage in enumerate(case.plan.stages):
        _hold_stage(case, clock, s, rooms[stage.rank])
    return [room.peak() for room in rooms]


def _hold_stage(case: Case, clock: _Clock, s: int, room: _Room) -> None:
    count, back, start, end = case.num_microbatches, clock.back, clock.start, clock.end
    recompute, last = case.plan.stages[s].recompute, len(case.stages) - 1
    hold = room.hold
    for unit in range(s * count, (s + 1) * count):
        b, size = unit + back, case.units[unit].bytes
        begin, until = start[unit], end[b]
        hold(begin, until, size.held)
        if size.workspace:
            hold(begin, end[unit], size.workspace)
            hold(start[b], until, size.workspace)
        if size.transient:
            hold(start[b], until, size.transient)
        if size.weight and end[b + back] != UNKNOWN:
            hold(start[b] if recompute else until, end[b + back], size.weight)
        if size.input:
            hold(end[unit - count] + (case.units[unit - count].forward_ns if s else 0), begin, size.input)
        if size.output and s < last:
            hold(end[b + count] + case.units[unit + count].backward_ns, until, size.output)
