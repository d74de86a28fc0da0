"""Candidates for the rows: one schedule, one way to cut, one number of stages a rank, simulated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from octopipe_cli.classic.partition import Balancer, equal_cuts, legal_cuts
from octopipe_cli.cluster import P2P, Cluster
from octopipe_cli.lengths import Lengths
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Action
from octopipe_cli.profile import Kind, Profile
from octopipe_cli.schedules import ClassicSchedule
from octopipe_cli.simulate import Timeline, simulate

Partition = Literal["equal", "balanced"]

#: Most stages a rank that are tried where a schedule sets no limit.
MOST_STAGES_PER_RANK: Final = 4
#: How often a partition that misses a memory limit is cut anew, the limit lowered by what it missed.
TRIES: Final = 4
#: The same, where there are more than so many forwards.
LARGE_TRIES: Final = 2
MANY_FORWARDS: Final = 10_000


class Case(NamedTuple):
    """A simulated candidate."""

    assignment: Assignment
    timeline: Timeline


class Study:
    """Candidates for one profile, cluster and number of micro-batches."""

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        num_microbatches: int,
        p2p: P2P | None = None,
        lengths: Lengths | None = None,
    ) -> None:
        self.profile = profile
        self.cluster = cluster
        self.num_microbatches = num_microbatches
        self.p2p = p2p
        self.lengths = lengths
        self.legal = legal_cuts(profile)
        self._known: dict[tuple[str, Assignment], Case] = {}
        self._balancers: dict[tuple[bool, bool], Balancer] = {}
        self._kinds = [profile.kind_of(layer) for layer in range(profile.num_layers)]
        self._sums = _byte_sums(self._kinds)

    def cases(
        self, schedule: ClassicSchedule, partition: Partition, stages_per_rank: int, recomputed: Sequence[bool]
    ) -> Iterator[Case]:
        """Yield what there is to choose from; recomputation after none only where none fitted or memory slows it."""
        ranks = schedule.ranks_of_stages(self.cluster.num_ranks, stages_per_rank)
        for again in recomputed:
            settled = False
            for case in self._cut(schedule, partition, ranks, again):
                settled = settled or (case.timeline.fits and self._deep(schedule, case))
                yield case
            if settled:
                return

    def _cut(
        self, schedule: ClassicSchedule, partition: Partition, ranks: tuple[int, ...], again: bool
    ) -> Iterator[Case]:
        if partition == "equal":
            cuts = equal_cuts(self.profile.num_layers, len(ranks), self.legal)
        else:
            cuts = self._balancer(schedule.split, again).cuts(ranks)
        case = self._case(schedule, cuts, ranks, again)
        if case is None:
            return
        yield case
        if partition == "balanced" and not (case.timeline.fits and self._deep(schedule, case)):
            yield from self._under_limit(schedule, ranks, again, case)

    def _deep(self, schedule: ClassicSchedule, case: Case) -> bool:
        """Return whether orders that adapt to memory hold enough to keep all ranks at work: else memory slows them.

        Enough is what 1F1B holds with one stage a rank, and half of ZB-V's and one more in a V.
        """
        if not schedule.split:
            return True
        orders, stages = case.timeline.orders, len(case.assignment.ranks)
        most = self.num_microbatches * stages // len(orders)
        in_v = stages > len(orders)
        wanted = [len(orders) + 1 if in_v else len(orders) - rank for rank in range(len(orders))]
        return all(_in_flight(actions) >= min(count, most) for actions, count in zip(orders, wanted, strict=True))

    def _under_limit(
        self, schedule: ClassicSchedule, ranks: tuple[int, ...], again: bool, case: Case
    ) -> Iterator[Case]:
        """Yield balanced partitions that should fit.

        Orders of a split backward adapt to what memory there is. Their partitions are made for what they hold where
        it is plenty, then for less and less, until two have led to something that fits; or one to anything, where
        schedules are large.
        """
        if not schedule.split:
            yield from self._lowering(schedule, ranks, again, case, [_in_flight(a) for a in case.timeline.orders])
            return
        wanted = 1 if self._large(ranks) else 2
        for counts in _depths(self.cluster.num_ranks, len(ranks)):
            held = [min(n, self.num_microbatches * len(ranks) // self.cluster.num_ranks) for n in counts]
            found = list(self._lowering(schedule, ranks, again, case, held))
            yield from found
            wanted -= bool(found) if self._large(ranks) else any(case.timeline.fits for case in found)
            if not wanted:
                return

    def _large(self, ranks: tuple[int, ...]) -> bool:
        return len(ranks) * self.num_microbatches > MANY_FORWARDS

    def _lowering(
        self, schedule: ClassicSchedule, ranks: tuple[int, ...], again: bool, case: Case, counts: Sequence[int]
    ) -> Iterator[Case]:
        """Yield partitions for so many activations a rank; after a miss the limits are lowered by it."""
        limits = [member.memory_limit_bytes for member in self.cluster.members]
        for _ in range(LARGE_TRIES if self._large(ranks) else TRIES):
            within = [self._within(ranks.count(r), counts[r], limits[r], again, schedule.split) for r in ranks]
            cuts = self._balancer(schedule.split, again).cuts(ranks, within)
            if cuts is None:
                return
            if cuts != case.assignment.cuts:
                found = self._case(schedule, cuts, ranks, again)
                if found is None:
                    return
                yield found
                case = found
            if case.timeline.fits:
                return
            for rank, peak in enumerate(case.timeline.peak_memory_bytes):
                given, real = limits[rank], case.timeline.pipeline.limit_bytes[rank]
                if given is not None and real is not None:
                    limits[rank] = given - max(0, peak - real)

    def _case(
        self, schedule: ClassicSchedule, cuts: tuple[int, ...] | None, ranks: tuple[int, ...], again: bool
    ) -> Case | None:
        """Return a simulated candidate; None where there are no such cuts or they break a rule."""
        if cuts is None:
            return None
        assignment = Assignment(cuts, ranks, (again,) * len(ranks))
        rank_of_layer = [rank for stage, rank in enumerate(ranks) for _ in assignment.layers(stage)]
        if any(len({rank_of_layer[layer] for layer in group}) > 1 for group in self.profile.rules.same_rank):
            return None
        key = (schedule.name, assignment)
        if key not in self._known:
            pipeline = build_pipeline(
                self.profile, self.cluster, assignment, self.num_microbatches, self.p2p, self.lengths
            )
            self._known[key] = Case(assignment, simulate(pipeline, schedule.orders(pipeline)))
        return self._known[key]

    def forget(self) -> None:
        """Drop what was simulated: a schedule's cases are no use to the next one."""
        self._known.clear()

    def _balancer(self, split: bool, again: bool) -> Balancer:
        key = (split, again)
        if key not in self._balancers:
            self._balancers[key] = Balancer(self.profile, self.cluster, self.legal, split, again)
        return self._balancers[key]

    def _within(
        self, stages: int, in_flight: int, limit: int | None, again: bool, split: bool
    ) -> Callable[[int, int], bool]:
        """Return whether a stage of layers a .. b - 1 stays within its share of a rank of so many stages."""
        if limit is None:
            return lambda a, b: True
        sums, kinds = self._sums, self._kinds
        held = sums["input" if again else "activation"]
        state, weight = sums["state"], sums["weight"]

        def fits(a: int, b: int) -> bool:
            each = held[b] - held[a]
            growth = max(0, weight[b] - weight[a] - (0 if again else each)) if split else 0
            at_work = max(kind.workspace_bytes + (kind.activation_bytes if again else 0) for kind in kinds[a:b])
            return (state[b] - state[a]) * stages + each * in_flight + growth + at_work <= limit

        return fits


def _byte_sums(kinds: Sequence[Kind]) -> dict[str, list[int]]:
    """Return, for each sort of bytes, those of the layers before each layer; inputs are what recomputation keeps."""
    inputs = [0, *(kind.output_bytes for kind in kinds[:-1])]
    return {
        "state": [0, *accumulate(kind.state_bytes for kind in kinds)],
        "weight": [0, *accumulate(kind.weight_activation_bytes for kind in kinds)],
        "activation": [0, *accumulate(kind.activation_bytes for kind in kinds)],
        "input": [0, *accumulate(inputs)],
    }


def _depths(num_ranks: int, num_stages: int) -> Iterator[list[int]]:
    """Yield activations in flight on each rank, from plenty to one stage's each.

    With one stage a rank they fall with the rank, as in 1F1B; in a V they are alike everywhere.
    """
    yield [num_stages] * num_ranks
    deepest = num_stages
    while deepest >= 1:
        yield [min(deepest, num_ranks - r) if num_stages == num_ranks else deepest for r in range(num_ranks)]
        deepest -= max(1, deepest // 8)


def _in_flight(actions: Sequence[Action]) -> int:
    """Return the most stage activations a rank's order holds at once, each from F to W (or B)."""
    held = accumulate({"F": 1, "W": -1, "B": -1, "I": 0}[action.kind] for action in actions)
    return max(held, default=0)
