"""Clusters in a line: ``8xh100-sxm``, ``2x(4xa100-80gb)@25GB/s``, written out to the cluster they stand for."""

from octopipe_cli.cluster_shorthand.expand import cluster_document
from octopipe_cli.cluster_shorthand.grammar import EXAMPLES, GRAMMAR, looks_like, parse

__all__ = ["EXAMPLES", "GRAMMAR", "cluster_document", "looks_like", "parse"]
