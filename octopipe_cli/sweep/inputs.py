"""The inputs of a sweep's points: the cluster with another memory, bandwidth or number of ranks."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, cast

import msgspec

from octopipe_cli.cluster import Cluster, cluster_from_document
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Document, Loaded, digest
from octopipe_cli.plan import Request
from octopipe_cli.sweep.quantities import BANDWIDTH, MEMORY, MICROBATCHES, RANKS, STAGES, Quantity


def cluster_document(cluster: Cluster) -> Document:
    """Return a cluster as a document: keys in the order of the format, defaults left out."""
    return cast(Document, msgspec.to_builtins(cluster))


def cluster_at(cluster: Loaded[Cluster], quantity: Quantity, value: Decimal) -> Loaded[Cluster]:
    """Return the cluster of a point, with the digest of its own document; the same one where it is not what changes.

    Memory is set on every rank, its reserve stays. Bandwidth is that of the links between nodes, or within the node
    where there is one alone; links of single pairs stay. Ranks are the first ones, which must all be alike.

    Raises
    ------
    InputError
        Where the cluster cannot be changed so.
    """
    change = _CHANGES.get(quantity)
    if change is None:
        return cluster
    document = cluster_document(cluster.value)
    change(document, cluster, value)
    document["name"] = f"{cluster.value.name[:150]}, {quantity.name} {quantity.text(value)}"
    made = cluster_from_document(document, cluster.file)
    return Loaded(made, cluster.file, digest(cluster_document(made)))


def request_at(request: Request, quantity: Quantity, value: Decimal) -> Request:
    """Return the request of a point."""
    field = {MICROBATCHES: "num_microbatches", STAGES: "max_stages_per_rank"}.get(quantity)
    return request if field is None else msgspec.structs.replace(request, **{field: int(value)})


def _set_memory(document: Any, cluster: Loaded[Cluster], value: Decimal) -> None:
    for group in document["ranks"]:
        group["memory_gib"] = float(value)


def _set_bandwidth(document: Any, cluster: Loaded[Cluster], value: Decimal) -> None:
    nodes = {member.node for member in cluster.value.members}
    which = "between_nodes" if len(nodes) > 1 else "within_node"
    document.setdefault("links", {}).setdefault(which, {})["bandwidth_gb_per_s"] = float(value)


def _take_ranks(document: Any, cluster: Loaded[Cluster], value: Decimal) -> None:
    members, wanted = cluster.value.members, int(value)
    if wanted > len(members):
        raise InputError(
            "the cluster has not so many ranks",
            file=cluster.file,
            path="$.ranks",
            found=f"{len(members)} ranks",
            expected=f"{wanted}, of which --ranks takes the first ones",
            remedy="give a cluster of as many ranks as the largest value",
        )
    first = members[0]
    other = next((m for m in members if m._replace(number=0, node=first.node) != first), None)
    if other is not None:
        raise InputError(
            "--ranks takes the first ranks of a cluster whose ranks are all alike: of others it would matter which",
            file=cluster.file,
            path="$.ranks",
            found=f"rank {other.number} is not like rank 0 (hardware, memory or speed)",
            remedy="write a cluster file for each number of ranks, and plan with each",
        )
    kept, left = [], wanted
    for group in document["ranks"]:
        count = min(group.get("count", 1), left)
        if count:
            kept.append({**group, "count": count})
        left -= count
    document["ranks"] = kept
    pairs = document.get("links", {}).get("pairs")
    if pairs:
        document["links"]["pairs"] = [pair for pair in pairs if max(pair["from"], pair["to"]) < wanted]


_CHANGES: Final[dict[Quantity, Callable[[Any, Loaded[Cluster], Decimal], None]]] = {
    MEMORY: _set_memory,
    BANDWIDTH: _set_bandwidth,
    RANKS: _take_ranks,
}
