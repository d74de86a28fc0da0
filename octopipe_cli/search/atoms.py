"""The model as the searches see it: atoms (layers no cut may part), their types, what they cost on each rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from octopipe_cli.cluster import Cluster, Rank
from octopipe_cli.lengths import MicroBatch, request_lengths, scaled_bytes
from octopipe_cli.pipeline import layer_times
from octopipe_cli.plan import Request
from octopipe_cli.profile import Kind, Profile


class RankClass(NamedTuple):
    """Ranks that are alike, links aside."""

    hardware: str
    speed: float
    limit_bytes: int | None


class AtomTime(NamedTuple):
    """The least times of an atom on a class of ranks, in ns, without overhead.

    `gradient`: until its input gradient is there (I or B, whichever is less and allowed);
    `backward`: its whole backward (I and W, or B); `weight`: its W, 0 where B may take its place.
    """

    forward: int
    gradient: int
    backward: int
    weight: int
    step: int

    def repeated(self, number: int) -> AtomTime:
        """Return the times of so many micro-batches; the optimizer steps once."""
        passes = (number * self.forward, number * self.gradient, number * self.backward, number * self.weight)
        return AtomTime(*passes, self.step)

    def shared(self, number: int) -> AtomTime:
        """Return one micro-batch's share of the times of so many."""
        passes = (self.forward, self.gradient, self.backward, self.weight)
        return AtomTime._make([*(time // number for time in passes), self.step])


class AtomBytes(NamedTuple):
    """The sizes of an atom: `inputs` is what it keeps where recomputed, `largest` its largest layer's activation."""

    state: int
    activation: int
    weight: int
    inputs: int
    largest: int
    workspace: int
    output: int


@dataclass(frozen=True)
class AtomTable:
    """Atoms, their types and costs.

    Attributes
    ----------
    starts
        A + 1 layer indices: atom a holds layers starts[a] .. starts[a + 1] - 1.
    type_of
        The type of each atom; atoms of one type cost the same.
    classes, class_of
        The classes of ranks, and the class of each rank.
    times, totals
        For each class and type, the times: the least of any micro-batch, and the sums over all of them (the
        optimizer's step once).
    sizes
        For each type, the bytes: those of the micro-batch that holds most.
    lag_ns
        For each atom, the least time its output (or the gradient for it) takes between two different ranks.
    overhead_ns
        Launch cost of every action.
    num_microbatches
        How many micro-batches there are.
    apart
        Where micro-batches differ: a table for each that differs, and how many are like it; the largest first.
    """

    starts: tuple[int, ...]
    type_of: tuple[int, ...]
    classes: tuple[RankClass, ...]
    class_of: tuple[int, ...]
    times: tuple[tuple[AtomTime, ...], ...]
    totals: tuple[tuple[AtomTime, ...], ...]
    sizes: tuple[AtomBytes, ...]
    lag_ns: tuple[int, ...]
    overhead_ns: int
    num_microbatches: int
    apart: tuple[tuple[AtomTable, int], ...] = ()

    @property
    def each(self) -> tuple[tuple[AtomTable, int], ...]:
        """A table for each micro-batch that differs from the others, and how many are like it."""
        return self.apart or ((self, self.num_microbatches),)

    @property
    def num_atoms(self) -> int:
        """How many atoms there are."""
        return len(self.type_of)

    @property
    def num_ranks(self) -> int:
        """How many ranks there are."""
        return len(self.class_of)

    @property
    def num_types(self) -> int:
        """How many types of atoms there are."""
        return len(self.sizes)

    @property
    def limited(self) -> bool:
        """Whether a rank's memory is limited."""
        return any(rank.limit_bytes is not None for rank in self.classes)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many atoms of each type there are."""
        return tuple(self.type_of.count(t) for t in range(self.num_types))

    @cached_property
    def class_counts(self) -> tuple[int, ...]:
        """How many ranks of each class there are."""
        return tuple(self.class_of.count(c) for c in range(len(self.classes)))

    @cached_property
    def certain_sizes(self) -> tuple[AtomBytes, ...]:
        """The sizes, those left out that are held for no time at all where an atom's actions take none."""
        if self.apart:
            return self.apart[0][0].certain_sizes
        certain = []
        for t, size in enumerate(self.sizes):
            runs = self.overhead_ns + min(times[t].gradient for times in self.times)
            if not runs:
                size = size._replace(largest=0, workspace=0, output=0)
            if not runs + min(times[t].forward for times in self.times):
                size = size._replace(activation=0, inputs=0)
            certain.append(size)
        return tuple(certain)

    def least(self, field: str, *, total: bool = False) -> list[int]:
        """Return for each atom the least, over the classes, of one of its times, or of their sums."""
        classes = self.totals if total else self.times
        by_type = [min(getattr(times[t], field) for times in classes) for t in range(self.num_types)]
        return [by_type[t] for t in self.type_of]

    def path(self, field: str) -> list[int]:
        """Return A + 1 sums: the least time of one field over the atoms before each."""
        return [0, *accumulate(self.least(field))]

    def atom_of_layer(self) -> list[int]:
        """Return the atom of each layer."""
        return [a for a in range(self.num_atoms) for _ in range(self.starts[a], self.starts[a + 1])]


def build_atoms(profile: Profile, cluster: Cluster, request: Request) -> AtomTable:
    """Return the atoms of a profile on a cluster, with the times the request leaves possible."""
    lengths, number = request_lengths(profile, request), request.num_microbatches
    if lengths is None:
        return _build(profile, cluster, request, {}, number)
    counts = Counter(lengths.distinct())
    apart = [(_build(profile, cluster, request, lengths.microbatches[m], 1), count) for m, count in counts.items()]
    apart.sort(key=lambda entry: -sum(entry[0].sizes[t].activation for t in entry[0].type_of))
    tables = [table for table, _ in apart]
    return replace(
        tables[0],
        times=_over(lambda _, times: min(times), apart),
        totals=_over(lambda counts, times: sum(n * time for n, time in zip(counts, times, strict=True)), apart),
        lag_ns=tuple(map(min, zip(*(table.lag_ns for table in tables), strict=True))),
        num_microbatches=number,
        apart=tuple(apart),
    )


def _over(
    merge: Callable[[Sequence[int], Sequence[int]], int], apart: Sequence[tuple[AtomTable, int]]
) -> tuple[tuple[AtomTime, ...], ...]:
    """Return for each class and type the merged times of micro-batches that differ; `merge` gets counts and times."""
    counts = [count for _, count in apart]
    by_class = zip(*(table.times for table, _ in apart), strict=True)

    def merged(entries: Sequence[AtomTime]) -> AtomTime:
        passes = [merge(counts, times) for times in list(zip(*entries, strict=True))[:-1]]
        return AtomTime._make([*passes, entries[0].step])

    return tuple(tuple(merged(entries) for entries in zip(*types, strict=True)) for types in by_class)


def _build(
    profile: Profile, cluster: Cluster, request: Request, lengths: MicroBatch, num_microbatches: int
) -> AtomTable:
    """Return the atoms for so many micro-batches of the same lengths."""
    uncut = set(profile.rules.no_cut_after)
    starts = [0, *(layer for layer in range(1, profile.num_layers) if layer - 1 not in uncut), profile.num_layers]
    keys: dict[tuple[tuple[str, ...], int, str], int] = {}
    type_of, samples = [], []
    for first, stop in pairwise(starts):
        before = profile.kind_of(first - 1) if first else None
        names = profile.layer_kinds[first:stop]
        into = before.output_bytes if before is not None else 0
        key = (names, into, before.modality if before is not None and into else "")
        if key not in keys:
            keys[key] = len(keys)
            samples.append(([profile.kinds[name] for name in names], before))
        type_of.append(keys[key])
    members = [RankClass(r.hardware, r.speed, r.memory_limit_bytes) for r in cluster.members]
    classes = tuple(dict.fromkeys(members))
    links = _links(cluster)
    outputs = [_scaled(profile.kind_of(stop - 1), "output_bytes", lengths) for stop in starts[1:]]
    times = tuple(tuple(_time(kinds, rank, request, lengths) for kinds, _ in samples) for rank in classes)
    return AtomTable(
        tuple(starts),
        tuple(type_of),
        classes,
        tuple(classes.index(member) for member in members),
        times,
        tuple(tuple(time.repeated(num_microbatches) for time in row) for row in times),
        tuple(_size(kinds, into, lengths) for kinds, into in samples),
        tuple(min((cluster.transfer_ns(size, a, b) for a, b in links), default=0) for size in outputs),
        cluster.action_overhead_ns,
        num_microbatches,
    )


def _scaled(kind: Kind, field: str, lengths: MicroBatch) -> int:
    return scaled_bytes(getattr(kind, field), lengths.get(kind.modality, 1))


def _time(kinds: Sequence[Kind], rank: RankClass, request: Request, lengths: MicroBatch) -> AtomTime:
    times = [
        layer_times(kind.times[rank.hardware], rank.speed).at(kind.quadratic_share, lengths.get(kind.modality, 1))
        for kind in kinds
    ]
    forward, into = sum(t.forward for t in times), sum(t.input for t in times)
    weight, whole = sum(t.weight for t in times), sum(t.backward for t in times)
    again = forward if request.recompute == "full" else 0
    if request.backward == "fused" or not all(kind.splittable for kind in kinds):
        gradient, backward = whole, whole
    else:
        gradient, backward = min(into, whole), min(into + weight, whole)
    return AtomTime(forward, gradient + again, backward + again, backward - gradient, sum(t.step for t in times))


def _size(kinds: Sequence[Kind], before: Kind | None, lengths: MicroBatch) -> AtomBytes:
    def scaled(field: str) -> list[int]:
        return [_scaled(kind, field, lengths) for kind in kinds]

    into = 0 if before is None else _scaled(before, "output_bytes", lengths)
    return AtomBytes(
        state=sum(kind.state_bytes for kind in kinds),
        activation=sum(scaled("activation_bytes")),
        weight=sum(scaled("weight_activation_bytes")),
        inputs=into + sum(scaled("output_bytes")[:-1]),
        largest=max(scaled("activation_bytes")),
        workspace=max(scaled("workspace_bytes")),
        output=scaled("output_bytes")[-1],
    )


def _links(cluster: Cluster) -> list[tuple[int, int]]:
    """Return pairs of ranks, among them one for every link two ranks may use."""
    members: tuple[Rank, ...] = cluster.members
    pairs = [(pair.from_rank, pair.to_rank) for pair in cluster.links.pairs]
    named = set(pairs)
    seen: set[bool] = set()
    for a in members:
        for b in members:
            near = a.node == b.node
            if near not in seen and a.number != b.number and (a.number, b.number) not in named:
                seen.add(near)
                pairs.append((a.number, b.number))
        if len(seen) == 2:
            break
    return pairs
