"""Event-driven greedy scheduling under activation limits, for the automatic zero-bubble and wave schedules."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from octopipe_cli.pipeline import Pipeline
from octopipe_cli.plan import Action, ActionKind, Orders


@dataclass(frozen=True)
class StageTimes:
    """Times of all stages; `weight` is None where the backward runs in one piece, which `backward` then holds whole."""

    rank_of: tuple[int, ...]
    num_ranks: int
    forward: tuple[int, ...]
    backward: tuple[int, ...]
    weight: tuple[int | None, ...]
    forward_transfer: tuple[int, ...]
    backward_transfer: tuple[int, ...]
    blocking: bool = False


def stage_times(pipeline: Pipeline) -> StageTimes:
    """Return the times of a pipeline's stages, the backward split wherever it may be."""
    costs = pipeline.stages
    return StageTimes(
        pipeline.rank_of,
        pipeline.num_ranks,
        tuple(cost.action_ns["F"] for cost in costs),
        tuple(cost.action_ns.get("I", cost.action_ns["B"]) for cost in costs),
        tuple(cost.action_ns.get("W") for cost in costs),
        tuple(cost.forward_transfer_ns for cost in costs),
        tuple(cost.backward_transfer_ns for cost in costs),
        pipeline.p2p == "blocking",
    )


@dataclass(frozen=True)
class ActivationLimit:
    """What a rank may hold, in units of one's choice.

    Attributes
    ----------
    units
        For each rank, the most it may hold. Less than one micro-batch needs there counts as that need.
    held, weight
        For each stage and micro-batch: units from F to the end of I or B, and from there to the end of W.
    """

    units: tuple[int, ...]
    held: tuple[int, ...]
    weight: tuple[int, ...]


def in_flight_limit(counts: Sequence[int], num_stages: int) -> ActivationLimit:
    """Return the limit that counts activations: each stage's is one, from F to the end of W (or B)."""
    return ActivationLimit(tuple(counts), (1,) * num_stages, (1,) * num_stages)


class Setting(NamedTuple):
    """How the greedy decides.

    Attributes
    ----------
    bias_eighths
        Eighths of a period by which a backward seems later than it is: below zero it goes before forwards.
    slack_eighths
        Eighths of a W by which a W may be longer than the gap it fills; None: any W fills any gap.
    look_ahead
        Whether the gap ends where a neighbour's action that has not started yet could arrive.
    cap_eighths
        Eighths of the limit that forwards without their backward may fill, shared out among stages by how long a
        micro-batch stays away from them; None: no cap besides the limit.
    """

    bias_eighths: int
    slack_eighths: int | None
    look_ahead: bool
    cap_eighths: int | None = None


def greedy_orders(
    times: StageTimes, num_microbatches: int, limit: ActivationLimit, setting: Setting
) -> tuple[Orders, int]:
    """Return the orders of a greedy run and when their last action ends; with `reserve` where it needs that to end."""
    for reserve in (False, True):
        run = Greedy(times, num_microbatches, limit, setting, reserve=reserve)
        orders = run.run()
        if run.finished:
            break
    assert run.finished
    return orders, max(run.free)


class Greedy:
    """One run: every rank takes, whenever it is free, the best action that can start.

    Forwards and backwards run in micro-batch order on each stage. The one with the least (micro-batch x period +
    path so far) comes first; W fills gaps and gives memory back. A forward of a micro-batch that is not the
    oldest unfinished one on its rank leaves room for the stages that one still has to enter there. With `reserve`
    it also leaves room for all stages of the next oldest when the oldest leaves: then no run can end in a deadlock,
    as the oldest can always go on. With a script, forwards and backwards run in its order and only the W are
    placed. A run that could not go on leaves its orders unfinished.
    """

    def __init__(
        self,
        times: StageTimes,
        num_microbatches: int,
        limit: ActivationLimit,
        setting: Setting,
        script: Sequence[Sequence[Action]] | None = None,
        reserve: bool = False,
    ) -> None:
        stages = range(len(times.rank_of))
        self.times = times
        self.count = num_microbatches
        self.setting = setting
        self.stages_of: list[list[int]] = [[] for _ in range(times.num_ranks)]
        for stage, rank in enumerate(times.rank_of):
            self.stages_of[rank].append(stage)
        split = [weight is not None for weight in times.weight]
        self.need = limit.held
        self.after = [limit.weight[s] if split[s] else 0 for s in stages]
        # What I adds where W needs more than was held before: kept free for one I, so that some I can always run.
        self.growth = [max(0, self.after[s] - self.need[s]) for s in stages]
        self.spare = [max((self.growth[s] for s in held), default=0) for held in self.stages_of]
        least = [
            spare + sum(self.need[s] for s in held) for spare, held in zip(self.spare, self.stages_of, strict=True)
        ]
        self.room = list(map(max, limit.units, least))
        self.next_forward = [0 for _ in stages]
        self.next_backward = [0 for _ in stages]
        self.pending: list[deque[int]] = [deque() for _ in stages]
        self.forward_arrival: list[list[int]] = [[] for _ in stages]
        self.backward_arrival: list[list[int]] = [[] for _ in stages]
        self.forward_arrival[0] = [0] * num_microbatches
        self.free = [0] * times.num_ranks
        self.orders: list[list[Action]] = [[] for _ in range(times.num_ranks)]
        self.reserve = reserve
        self.script = None if script is None else [deque(actions) for actions in script]
        self._set_priorities()
        self.cap = self._caps(limit)

    def _caps(self, limit: ActivationLimit) -> list[int]:
        """Return for each stage how many micro-batches may be between F and I there."""
        share = self.setting.cap_eighths
        if share is None:
            return [self.count] * len(self.need)
        times = self.times
        # From the start of F to the end of I, at the quickest; keys are path lengths, the bias aside.
        bias = self.period * self.setting.bias_eighths // 8
        away = [
            back - bias - ahead + times.backward[s]
            for s, (ahead, back) in enumerate(zip(self.forward_key, self.backward_key, strict=True))
        ]
        longest = max(sum(self.need[s] * away[s] for s in held) for held in self.stages_of)
        if not longest:
            return [self.count] * len(self.need)
        return [
            max(1, -(-share * limit.units[rank] * away[s] // (8 * longest))) for s, rank in enumerate(times.rank_of)
        ]

    def _set_priorities(self) -> None:
        times = self.times
        load = [0] * times.num_ranks
        path = 0
        self.forward_key, self.backward_key = [], [0] * len(times.rank_of)
        for stage, rank in enumerate(times.rank_of):
            load[rank] += times.forward[stage] + times.backward[stage] + (times.weight[stage] or 0)
            self.forward_key.append(path)
            path += times.forward[stage] + times.forward_transfer[stage]
        self.period = max(1, *load)
        path += self.period * self.setting.bias_eighths // 8
        for stage in reversed(range(len(times.rank_of))):
            self.backward_key[stage] = path
            path += times.backward[stage] + times.backward_transfer[stage]

    @property
    def finished(self) -> bool:
        """Whether every action has its place."""
        return min(self.next_backward) == self.count and not any(self.pending)

    def run(self) -> Orders:
        """Return the orders."""
        self.events = [(0, rank) for rank in range(self.times.num_ranks)]
        while self.events:
            now, rank = heappop(self.events)
            if now >= self.free[rank]:
                self._decide(rank, now)
        return tuple(map(tuple, self.orders))

    def _decide(self, rank: int, now: int) -> None:
        """Start the best action of a rank that is free, or leave it waiting for its next event."""
        if self.script is not None:
            self._follow(rank, now, self.script[rank])
            return
        best: tuple[int, int, ActionKind] | None = None
        upcoming: int | None = None  # the earliest arrival known to come later
        for stage in self.stages_of[rank]:
            m = self.next_forward[stage]
            arrivals = self.forward_arrival[stage]
            if m < len(arrivals) and m - self.next_backward[stage] < self.cap[stage]:
                if arrivals[m] <= now:
                    key = m * self.period + self.forward_key[stage]
                    if best is None or key < best[0]:
                        best = (key, stage, "F")
                elif upcoming is None or arrivals[m] < upcoming:
                    upcoming = arrivals[m]
            m = self.next_backward[stage]
            arrivals = self.backward_arrival[stage]
            if m < len(arrivals):
                if arrivals[m] <= now:
                    key = m * self.period + self.backward_key[stage]
                    if best is None or key < best[0]:
                        best = (key, stage, "I")
                elif upcoming is None or arrivals[m] < upcoming:
                    upcoming = arrivals[m]
        if best is not None and not self._admits(rank, best[1], best[2]):
            if self._start_weight(rank, now, None):
                return
            best = self._other(rank, now)
        if best is not None:
            self._start(rank, now, best[1], best[2])
            return
        if self.setting.look_ahead:
            upcoming = self._could_arrive(rank, upcoming)
        self._start_weight(rank, now, None if upcoming is None else upcoming - now)

    def _follow(self, rank: int, now: int, script: deque[Action]) -> None:
        """Start the next action of a rank's script, or a W before it."""
        gap = None
        if script:
            stage, kind, m = script[0]
            arrivals = (self.forward_arrival if kind == "F" else self.backward_arrival)[stage]
            if m < len(arrivals) and arrivals[m] <= now:
                wanted = self.need[stage] + self.spare[rank] if kind == "F" else self.growth[stage]
                if wanted <= self.room[rank]:
                    script.popleft()
                    self._start(rank, now, stage, kind)
                    return
            elif m < len(arrivals):
                gap = arrivals[m] - now
            if gap is None and self.setting.look_ahead and m >= len(arrivals):
                arrival = self._could_arrive(rank, None)
                gap = None if arrival is None else arrival - now
        self._start_weight(rank, now, gap)

    def _other(self, rank: int, now: int) -> tuple[int, int, ActionKind] | None:
        """Return the best ready action that memory admits."""
        found: list[tuple[int, int, ActionKind]] = []
        for stage in self.stages_of[rank]:
            m = self.next_backward[stage]
            if m < len(self.backward_arrival[stage]) and self.backward_arrival[stage][m] <= now:
                found.append((m * self.period + self.backward_key[stage], stage, "I"))
            m = self.next_forward[stage]
            ready = m < len(self.forward_arrival[stage]) and self.forward_arrival[stage][m] <= now
            open_ = m - self.next_backward[stage] < self.cap[stage]
            if ready and open_ and self._admits(rank, stage, "F"):
                found.append((m * self.period + self.forward_key[stage], stage, "F"))
        return min(found, default=None)

    def _admits(self, rank: int, stage: int, kind: ActionKind) -> bool:
        """Return whether there is room; a forward leaves what the oldest micro-batch on its rank needs."""
        if kind == "I":
            return self.growth[stage] <= self.room[rank]
        held, need = self.stages_of[rank], self.need
        oldest = self.next_backward[held[0]]  # a micro-batch leaves a rank with the backward of its first stage there
        left = self.room[rank] - need[stage] - self.spare[rank]
        if self.next_forward[stage] == oldest or len(held) == 1:
            return left >= 0
        if not self.reserve:
            return left >= sum(need[other] for other in held if self.next_forward[other] <= oldest)
        # What the oldest holds now is free once it leaves; then the next one must find room for all its stages.
        own = sum(need[other] for other in held if self.next_backward[other] <= oldest < self.next_forward[other])
        return left + own >= sum(need[other] for other in held)

    def _could_arrive(self, rank: int, upcoming: int | None) -> int | None:
        """Return the earliest time a neighbour's next action, though not started, could reach this rank."""
        times = self.times
        last = len(times.rank_of) - 1
        found = [] if upcoming is None else [upcoming]
        for stage in self.stages_of[rank]:
            if stage:
                m, length = self.next_forward[stage], times.forward[stage - 1] + times.forward_transfer[stage - 1]
                found += self._after_neighbour(self.forward_arrival, stage, stage - 1, m, length)
            if stage < last:
                m, length = self.next_backward[stage], times.backward[stage + 1] + times.backward_transfer[stage + 1]
                found += self._after_neighbour(self.backward_arrival, stage, stage + 1, m, length)
        return min(found, default=None)

    def _after_neighbour(self, arrivals: list[list[int]], stage: int, there: int, m: int, length: int) -> list[int]:
        """Return when micro-batch m could come from the stage `there`, if it waits there; else nothing."""
        if m < len(arrivals[stage]) or m >= len(arrivals[there]):
            return []
        return [max(self.free[self.times.rank_of[there]], arrivals[there][m]) + length]

    def _start_weight(self, rank: int, now: int, gap: int | None) -> bool:
        """Start the longest waiting W that fits the gap (any length where None); return whether there was one."""
        best, chosen = -1, -1
        slack = self.setting.slack_eighths
        for stage in self.stages_of[rank]:
            if self.pending[stage]:
                length = self.times.weight[stage]
                assert length is not None
                fits = gap is None or slack is None or 8 * length <= 8 * gap + slack * length
                if fits and length > best:
                    best, chosen = length, stage
        if chosen < 0:
            return False
        m = self.pending[chosen].popleft()
        self.room[rank] += self.after[chosen]
        self._occupy(rank, Action(chosen, "W", m), now + best)
        return True

    def _start(self, rank: int, now: int, stage: int, kind: ActionKind) -> None:
        times = self.times
        if kind == "F":
            m = self.next_forward[stage]
            self.next_forward[stage] += 1
            self.room[rank] -= self.need[stage]
            end, lag = now + times.forward[stage], times.forward_transfer[stage]
            self._occupy(rank, Action(stage, "F", m), end + lag if times.blocking else end)
            if stage + 1 < len(times.rank_of):
                self._arrive(self.forward_arrival, stage + 1, end + lag)
            else:
                self._arrive(self.backward_arrival, stage, end)
            return
        m = self.next_backward[stage]
        self.next_backward[stage] += 1
        whole = times.weight[stage] is None
        self.room[rank] += self.need[stage] - self.after[stage]
        if not whole:
            self.pending[stage].append(m)
        end, lag = now + times.backward[stage], times.backward_transfer[stage]
        self._occupy(rank, Action(stage, "B" if whole else "I", m), end + lag if times.blocking else end)
        if stage:
            self._arrive(self.backward_arrival, stage - 1, end + lag)

    def _occupy(self, rank: int, action: Action, until: int) -> None:
        self.orders[rank].append(action)
        self.free[rank] = until
        heappush(self.events, (until, rank))

    def _arrive(self, arrivals: list[list[int]], stage: int, time: int) -> None:
        arrivals[stage].append(time)
        rank = self.times.rank_of[stage]
        heappush(self.events, (max(time, self.free[rank]), rank))
