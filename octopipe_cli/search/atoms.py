"""The model as the searches see it: atoms (layers no cut may part), their types, what they cost on each rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import NamedTuple

from octopipe_cli.cluster import Cluster, Rank
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
    times
        For each class and type, the times.
    sizes
        For each type, the bytes.
    lag_ns
        For each atom, the least time its output (or the gradient for it) takes between two different ranks.
    overhead_ns
        Launch cost of every action.
    """

    starts: tuple[int, ...]
    type_of: tuple[int, ...]
    classes: tuple[RankClass, ...]
    class_of: tuple[int, ...]
    times: tuple[tuple[AtomTime, ...], ...]
    sizes: tuple[AtomBytes, ...]
    lag_ns: tuple[int, ...]
    overhead_ns: int

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
        certain = []
        for t, size in enumerate(self.sizes):
            runs = self.overhead_ns + min(times[t].gradient for times in self.times)
            if not runs:
                size = size._replace(largest=0, workspace=0, output=0)
            if not runs + min(times[t].forward for times in self.times):
                size = size._replace(activation=0, inputs=0)
            certain.append(size)
        return tuple(certain)

    def least(self, field: str) -> list[int]:
        """Return for each atom the least, over the classes, of one of its times."""
        by_type = [min(getattr(times[t], field) for times in self.times) for t in range(self.num_types)]
        return [by_type[t] for t in self.type_of]

    def path(self, field: str) -> list[int]:
        """Return A + 1 sums: the least time of one field over the atoms before each."""
        return [0, *accumulate(self.least(field))]

    def atom_of_layer(self) -> list[int]:
        """Return the atom of each layer."""
        return [a for a in range(self.num_atoms) for _ in range(self.starts[a], self.starts[a + 1])]


def build_atoms(profile: Profile, cluster: Cluster, request: Request) -> AtomTable:
    """Return the atoms of a profile on a cluster, with the times the request leaves possible."""
    uncut = set(profile.rules.no_cut_after)
    starts = [0, *(layer for layer in range(1, profile.num_layers) if layer - 1 not in uncut), profile.num_layers]
    keys: dict[tuple[tuple[str, ...], int], int] = {}
    type_of, samples = [], []
    for first, stop in pairwise(starts):
        into = profile.kind_of(first - 1).output_bytes if first else 0
        names = profile.layer_kinds[first:stop]
        if (names, into) not in keys:
            keys[names, into] = len(keys)
            samples.append(([profile.kinds[name] for name in names], into))
        type_of.append(keys[names, into])
    members = [RankClass(r.hardware, r.speed, r.memory_limit_bytes) for r in cluster.members]
    classes = tuple(dict.fromkeys(members))
    links = _links(cluster)
    outputs = [profile.kind_of(stop - 1).output_bytes for stop in starts[1:]]
    return AtomTable(
        tuple(starts),
        tuple(type_of),
        classes,
        tuple(classes.index(member) for member in members),
        tuple(tuple(_time(kinds, rank, request) for kinds, _ in samples) for rank in classes),
        tuple(_size(kinds, into) for kinds, into in samples),
        tuple(min((cluster.transfer_ns(size, a, b) for a, b in links), default=0) for size in outputs),
        cluster.action_overhead_ns,
    )


def _time(kinds: Sequence[Kind], rank: RankClass, request: Request) -> AtomTime:
    times = [layer_times(kind.times[rank.hardware], rank.speed) for kind in kinds]
    forward, into = sum(t.forward for t in times), sum(t.input for t in times)
    weight, whole = sum(t.weight for t in times), sum(t.backward for t in times)
    again = forward if request.recompute == "full" else 0
    if request.backward == "fused" or not all(kind.splittable for kind in kinds):
        gradient, backward = whole, whole
    else:
        gradient, backward = min(into, whole), min(into + weight, whole)
    return AtomTime(forward, gradient + again, backward + again, backward - gradient, sum(t.step for t in times))


def _size(kinds: Sequence[Kind], into: int) -> AtomBytes:
    return AtomBytes(
        state=sum(kind.state_bytes for kind in kinds),
        activation=sum(kind.activation_bytes for kind in kinds),
        weight=sum(kind.weight_activation_bytes for kind in kinds),
        inputs=into + sum(kind.output_bytes for kind in kinds[:-1]),
        largest=max(kind.activation_bytes for kind in kinds),
        workspace=max(kind.workspace_bytes for kind in kinds),
        output=kinds[-1].output_bytes,
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
