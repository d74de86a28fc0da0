"""Breadth-first schedules with the backward in one piece, as orders that depend on counts alone: GPipe and looped."""

from __future__ import annotations

from octopipe_cli.plan import Action, Orders


def gpipe(num_ranks: int, num_microbatches: int) -> Orders:
    """Return GPipe's orders: all forwards, then all backwards, one stage a rank (arXiv 1811.06965)."""
    return looped_bfs(num_ranks, num_microbatches, 1)


def looped_bfs(num_ranks: int, num_microbatches: int, stages_per_rank: int) -> Orders:
    """Return breadth-first looped orders: every micro-batch through one stage before the next (arXiv 2211.05953).

    Stage i sits on rank i mod P. Backwards run in the order of the forwards, from the last stage down.
    """
    orders = []
    for rank in range(num_ranks):
        stages = [rank + chunk * num_ranks for chunk in range(stages_per_rank)]
        forward = [Action(stage, "F", m) for stage in stages for m in range(num_microbatches)]
        backward = [Action(stage, "B", m) for stage in reversed(stages) for m in range(num_microbatches)]
        orders.append((*forward, *backward))
    return tuple(orders)
