"""Plain text tables for the benchmarks, and the clusters they run on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from octopipe_cli.cluster import Cluster, cluster_from_document
from octopipe_cli.formats import Document, Loaded, digest


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows under their heads, the first column left, the others right."""
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    for row in [heads, ["-" * width for width in widths], *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        print("  ".join(cells).rstrip(), flush=True)


def plain_cluster(num_ranks: int, memory_gib: float | None = None) -> Loaded[Cluster]:
    """Return equal ranks in one node, transfers free."""
    ranks: list[dict[str, Any]] = [{"count": num_ranks, "hardware": "a100", "memory_gib": memory_gib}]
    document: Document = {"schema": "octopipe.cluster", "version": 1, "name": f"a100-{num_ranks}", "ranks": ranks}
    return Loaded(cluster_from_document(document, "cluster"), "cluster", digest(document))


def milliseconds(ns: float | None) -> str:
    """Return a time in ms for people; a dash where there is none."""
    return "-" if ns is None else f"{ns / 1e6:.2f}"
