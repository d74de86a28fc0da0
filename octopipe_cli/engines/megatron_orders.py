"""The orders Megatron-LM runs, 1F1B and interleaved 1F1B, and which of them an order is.

Its rules: megatron/core/pipeline_parallel/schedules.py; the interleaved order is a table of groups of micro-batches.
"""

from __future__ import annotations

from collections.abc import Iterable

from octopipe_cli.errors import InputError
from octopipe_cli.plan import Action, Orders


def one_f_one_b(num_ranks: int, num_microbatches: int) -> Orders:
    """Return 1F1B's orders: rank r runs min(P - 1 - r, M) forwards, then forward and backward by turns."""
    orders = []
    for rank in range(num_ranks):
        forward = [Action(rank, "F", m) for m in range(num_microbatches)]
        backward = [Action(rank, "B", m) for m in range(num_microbatches)]
        orders.append(_by_turns(forward, backward, min(num_ranks - 1 - rank, num_microbatches)))
    return tuple(orders)


def interleaved_1f1b(
    num_ranks: int, num_microbatches: int, stages_per_rank: int, group_size: int | None = None
) -> Orders:
    """Return Megatron-LM's interleaved 1F1B: micro-batches pass a rank's stages in groups of `group_size`.

    Stage i sits on rank i mod P. The group size is the number of ranks unless given.

    Raises
    ------
    InputError
        Where there are fewer than two ranks or stages a rank, or where the group size breaks
        P <= N <= M with M mod N = 0 or >= P.
    """
    size = num_ranks if group_size is None else group_size
    for name, value in (("ranks", num_ranks), ("stages a rank", stages_per_rank)):
        if value < 2:
            raise InputError(f"interleaved 1F1B with too few {name}", found=str(value), expected="at least 2")
    if not legal_group_size(size, num_ranks, num_microbatches):
        other = least_group_size(num_ranks, num_microbatches)
        raise InputError(
            f"interleaved 1F1B cannot run {num_microbatches} micro-batches on {num_ranks} ranks in groups of {size}",
            found=f"group size N = {size}, M mod N = {num_microbatches % max(size, 1)}",
            expected=f"P <= N <= M and M mod N = 0 or >= P, with P = {num_ranks} and M = {num_microbatches}",
            remedy=f"use a group size of {other}" if other else f"use at least {num_ranks} micro-batches",
        )
    forward_table = [
        (microbatch, chunk)
        for first in range(0, num_microbatches, size)
        for chunk in range(stages_per_rank)
        for microbatch in range(first, min(first + size, num_microbatches))
    ]
    orders = []
    for rank in range(num_ranks):
        forward = [Action(rank + chunk * num_ranks, "F", m) for m, chunk in forward_table]
        backward = [Action(rank + (stages_per_rank - 1 - chunk) * num_ranks, "B", m) for m, chunk in forward_table]
        warm_up = 2 * (num_ranks - 1 - rank) + (stages_per_rank - 1) * size
        orders.append(_by_turns(forward, backward, min(warm_up, len(forward))))
    return tuple(orders)


def legal_group_size(size: int, num_ranks: int, num_microbatches: int) -> bool:
    """Return whether Megatron-LM runs interleaved groups of that size."""
    if not num_ranks <= size <= num_microbatches:
        return False
    rest = num_microbatches % size
    return rest == 0 or rest >= num_ranks


def least_group_size(num_ranks: int, num_microbatches: int) -> int | None:
    """Return the smallest legal group size (the number of ranks where that is legal); None where M < P."""
    sizes = range(num_ranks, num_microbatches + 1)
    return next((size for size in sizes if legal_group_size(size, num_ranks, num_microbatches)), None)


def _by_turns(forward: list[Action], backward: list[Action], warm_up: int) -> tuple[Action, ...]:
    """Return `warm_up` forwards, then forward and backward by turns, then the backwards left."""
    order = forward[:warm_up]
    for ahead, behind in zip(forward[warm_up:], backward, strict=False):
        order += (ahead, behind)
    return (*order, *backward[len(forward) - warm_up :])


def group_size_of(order: Iterable[Action]) -> int:
    """Return the group size the first rank is interleaved by: the forwards of stage 0 before another stage's."""
    size = 0
    for stage, kind, _ in order:
        if kind == "F":
            if stage:
                break
            size += 1
    return size
