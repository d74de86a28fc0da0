"""What an engine keeps in memory beyond the plan."""

from __future__ import annotations

from collections.abc import Sequence

from octopipe_cli.plan import Engine, StageBytes

#: Engines that run PyTorch's pipelining runtime.
_TORCH: tuple[Engine, ...] = ("torch", "torchtitan")


def engine_memory(
    stages: Sequence[StageBytes], rank_of: Sequence[int], num_ranks: int, num_microbatches: int, engine: Engine
) -> tuple[int, ...]:
    """Return, for each rank, the bytes that an engine keeps beyond what a plan counts.

    PyTorch's runtime keeps the boundary tensors of all micro-batches to the end of the step
    (torch/distributed/pipelining/stage.py and schedules.py): a stage's receive buffers are made once, for activations
    (`_setup_forward_recv_info`) and for gradients (`_create_grad_recv_info`); what it sends, activations and
    gradients, is held by the sends it waits for last (`_step_microbatches`). That is up to 4 M boundary tensors a
    stage. Between stages of one rank the tensor itself is handed on, and its gradient kept: 2 M. An upper bound: a
    boundary tensor that the plan counts while it waits is counted here again. Sharded weights (FSDP) and the
    allocator's fragments are not modelled; other engines keep nothing that a plan does not count.

    Parameters
    ----------
    stages
        Bytes of each stage: `input` and `output` are its boundary tensors, 0 at the ends.
    rank_of
        The rank of each stage.
    """
    kept = [0] * num_ranks
    if engine not in _TORCH:
        return tuple(kept)
    last = len(stages) - 1
    for number, stage in enumerate(stages):
        rank = rank_of[number]
        if number:  # activation received or taken over, and the gradient sent back
            kept[rank] += 2 * num_microbatches * stage.input
        if number < last and rank_of[number + 1] != rank:  # activation sent, and the gradient received
            kept[rank] += 2 * num_microbatches * stage.output
    return tuple(kept)
