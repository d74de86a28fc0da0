"""The cluster spec: what each rank can do and how ranks reach each other."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec

from octopipe_cli.conversion import convert
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document, Loaded, Record, check_envelope, digest, read_text, shown_file
from octopipe_cli.markup import parse
from octopipe_cli.profile import Name

SCHEMA: Final = "octopipe.cluster"
MAX_RANKS: Final = 4096

Gibibytes = Annotated[float, msgspec.Meta(ge=0, le=1e6)]
P2P = Literal["overlapped", "blocking"]


class RankGroup(Record, frozen=True, kw_only=True):
    """Ranks that are alike and stand next to each other in the pipeline."""

    hardware: Name
    memory_gib: Gibibytes | None
    count: Annotated[int, msgspec.Meta(ge=1, le=MAX_RANKS)] = 1
    reserved_gib: Gibibytes = 0.0
    speed: Annotated[float, msgspec.Meta(ge=1e-3, le=1e3)] = 1.0
    node: Annotated[int, msgspec.Meta(ge=0, le=10**6)] = 0


class Link(Record, frozen=True, kw_only=True):
    """A way from rank to rank: no bandwidth means no bandwidth term."""

    bandwidth_gb_per_s: Annotated[float, msgspec.Meta(ge=1e-6, le=1e9)] | None = None
    latency_us: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0

    def transfer_ns(self, size_bytes: int) -> int:
        """Return the transfer time of a tensor: nearest ns to latency + size / bandwidth."""
        wide = self.bandwidth_gb_per_s
        return round(self.latency_us * 1e3 + (size_bytes / wide if wide else 0))


class PairLink(Link, frozen=True, kw_only=True):
    """The link from one rank to another, in this direction only."""

    from_rank: Annotated[int, msgspec.Meta(ge=0, le=MAX_RANKS)] = msgspec.field(name="from")
    to_rank: Annotated[int, msgspec.Meta(ge=0, le=MAX_RANKS)] = msgspec.field(name="to")


class Links(Record, frozen=True, kw_only=True):
    """Links within a node, between nodes, and of single pairs, which win."""

    within_node: Link = Link()
    between_nodes: Link = Link()
    pairs: list[PairLink] = []


class Rank(NamedTuple):
    """One rank; `memory_limit_bytes` is None where unlimited."""

    number: int
    hardware: str
    memory_limit_bytes: int | None
    speed: float
    node: int


class Cluster(Record, frozen=True, kw_only=True, dict=True):
    """The ranks in pipeline order and the links between them."""

    schema: Literal["octopipe.cluster"]
    version: Literal[1]
    name: Name
    ranks: Annotated[list[RankGroup], msgspec.Meta(min_length=1)]
    links: Links = Links()
    action_overhead_us: Annotated[float, msgspec.Meta(ge=0, le=1e9)] = 0.0
    p2p: P2P = "overlapped"
    provenance: dict[str, Any] = {}

    @cached_property
    def members(self) -> tuple[Rank, ...]:
        """Every rank, groups expanded."""
        groups = [group for group in self.ranks for _ in range(group.count)]
        return tuple(Rank(r, g.hardware, _limit_bytes(g), g.speed, g.node) for r, g in enumerate(groups))

    @property
    def limited(self) -> bool:
        """Whether the memory of any rank is limited."""
        return any(member.memory_limit_bytes is not None for member in self.members)

    @property
    def num_ranks(self) -> int:
        """How many ranks there are."""
        return len(self.members)

    @property
    def action_overhead_ns(self) -> int:
        """The launch cost of every action, nearest ns."""
        return round(self.action_overhead_us * 1e3)

    @cached_property
    def _pairs(self) -> dict[tuple[int, int], Link]:
        return {(pair.from_rank, pair.to_rank): pair for pair in self.links.pairs}

    def link(self, source: int, target: int) -> Link:
        """Return the link from one rank to another."""
        pair = self._pairs.get((source, target))
        if pair is not None:
            return pair
        near = self.members[source].node == self.members[target].node
        return self.links.within_node if near else self.links.between_nodes

    def transfer_ns(self, size_bytes: int, source: int, target: int) -> int:
        """Return how long a tensor takes from rank to rank; nothing within one."""
        return 0 if source == target else self.link(source, target).transfer_ns(size_bytes)


def _limit_bytes(group: RankGroup) -> int | None:
    if group.memory_gib is None:
        return None
    return math.floor((group.memory_gib - group.reserved_gib) * 2**30)


def cluster_from_document(document: Document, file: str) -> Cluster:
    """Return the cluster of a document whose schema and version are checked; raises InputError."""
    cluster = convert(document, Cluster, file)
    total = sum(group.count for group in cluster.ranks)
    if total > MAX_RANKS:
        raise InputError("too many ranks", file=file, path="$.ranks", found=str(total), expected=f"at most {MAX_RANKS}")
    for index, group in enumerate(cluster.ranks):
        if group.memory_gib is not None and group.reserved_gib >= group.memory_gib:
            raise InputError(
                "nothing is left of the memory",
                file=file,
                path=f"$.ranks[{index}].reserved_gib",
                found=f"{group.reserved_gib:g} reserved of {group.memory_gib:g} GiB",
                expected="less reserved than there is",
            )
    seen: set[tuple[int, int]] = set()
    for index, pair in enumerate(cluster.links.pairs):
        path = f"$.links.pairs[{index}]"
        for key, rank in (("from", pair.from_rank), ("to", pair.to_rank)):
            if rank >= total:
                raise InputError(
                    "no such rank", file=file, path=f"{path}.{key}", found=str(rank), expected=f"0 to {total - 1}"
                )
        ends = (pair.from_rank, pair.to_rank)
        if ends[0] == ends[1]:
            raise InputError("a link from a rank to itself", file=file, path=path, remedy="delete it: it takes no time")
        if ends in seen:
            raise InputError(
                f"the link from {ends[0]} to {ends[1]} stands twice", file=file, path=path, remedy="delete one"
            )
        seen.add(ends)
    return cluster


def load_cluster(file: str) -> Loaded[Cluster]:
    """Return the cluster in a file (JSON, or YAML or TOML by its name), with its digest; raises InputError."""
    document = check_envelope(parse(read_text(file), file), SCHEMA, file)
    file = shown_file(file)
    return Loaded(cluster_from_document(document, file), file, digest(document))
