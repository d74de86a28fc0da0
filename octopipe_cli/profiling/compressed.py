"""The blocks of DeepSeek V4: attention over compressed positions, hyper-connections; exact parameter counts."""

from __future__ import annotations

from dataclasses import dataclass

from octopipe_cli.profiling.blocks import Dense


@dataclass(frozen=True)
class FactorizedAttention(Dense):
    """Factorised attention (Step 3, 2507.19427): queries from a low rank, one head of keys and values."""

    hidden: int
    heads: int
    head_dim: int
    query_rank: int

    @property
    def parameters(self) -> int:
        """Weights it stores, the norm of the queries' low rank with them."""
        width = self.heads * self.head_dim
        down = self.hidden * (self.query_rank + 2 * self.head_dim)
        return down + self.query_rank * (1 + width) + width * self.hidden


@dataclass(frozen=True)
class CompressedAttention(Dense):
    """Attention with one head of keys that are the values too, over a window and over compressed positions behind it.

    Parameters
    ----------
    query_rank, output_groups, output_rank
        Queries come from a latent; the output of each group of heads goes through a latent of its own.
    window
        Positions seen as they are.
    ratio
        Positions that become one behind the window, 0 for none seen there.
    index_heads, index_dim, top_k
        Of the indexer that picks compressed positions (its own compressor with it), 0 for none: all are seen. Its
        compressors look at two stretches at once, so they have twice the width.
    """

    hidden: int
    heads: int
    head_dim: int
    query_rank: int
    output_groups: int
    output_rank: int
    window: int
    ratio: int = 0
    index_heads: int = 0
    index_dim: int = 0
    top_k: int = 0

    def compressor(self, head_dim: int) -> int:
        """Return the weights of a compressor to keys of a width: values, gates, position biases, norm."""
        width = head_dim * (2 if self.index_heads else 1)
        return width * (2 * self.hidden + self.ratio) + head_dim

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        width = self.heads * self.head_dim
        query = self.query_rank * (self.hidden + 1 + width)
        keys = self.hidden * self.head_dim + self.head_dim
        output = self.output_rank * (width + self.output_groups * self.hidden)
        total = query + keys + output + self.heads
        if self.ratio:
            total += self.compressor(self.head_dim)
        if self.index_heads:
            scores = self.query_rank * self.index_heads * self.index_dim + self.hidden * self.index_heads
            total += self.compressor(self.index_dim) + scores
        return total


@dataclass(frozen=True)
class HyperConnection(Dense):
    """The mixing of `streams` residual streams to a branch's input and back (2409.19606); at the head only in."""

    hidden: int
    streams: int
    at_head: bool = False

    @property
    def parameters(self) -> int:
        """Weights it stores: a projection of all streams to the mixing weights, their biases and scales."""
        weights = self.streams if self.at_head else self.streams * (2 + self.streams)
        return weights * (self.streams * self.hidden + 1) + (1 if self.at_head else 3)
