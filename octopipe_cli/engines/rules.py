"""The rules of the engines, one function each, and which engine has which."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from octopipe_cli.engines import model_rules
from octopipe_cli.engines.facts import Facts, Found, Rule
from octopipe_cli.engines.megatron_orders import (
    group_size_of,
    interleaved_1f1b,
    least_group_size,
    legal_group_size,
    one_f_one_b,
)
from octopipe_cli.plan import Orders


def no_empty_stage(facts: Facts) -> Found:
    """Every stage holds a layer."""
    for number, stage in enumerate(facts.plan.stages):
        if stage.layers[0] == stage.layers[1]:
            yield f"$.stages[{number}].layers", f"stage {number} holds no layer, which only Megatron takes"


def every_rank_has_a_stage(facts: Facts) -> Found:
    """Every rank holds a stage: PyTorch's runtime builds a schedule from the stages of each rank."""
    for rank, stages in enumerate(facts.stages_of):
        if not stages:
            yield "$.stages", f"rank {rank} holds no stage"


def last_forwards_ascend(facts: Facts) -> Found:
    """The last stage runs its forwards in ascending order: the runtime looks losses up by their place in it."""
    last = facts.num_stages - 1
    rank = facts.plan.stages[last].rank
    forwards = [m for stage, kind, m in facts.orders[rank] if (stage, kind) == (last, "F")]
    for before, after in pairwise(forwards):
        if after < before:
            yield (
                f"$.orders[{rank}]",
                f"the last stage runs {last}F{before} before {last}F{after}, and must run its forwards in ascending "
                "order: with its micro-batches renumbered the plan is as fast and can be run",
            )
            return


def first_stage_whole(facts: Facts) -> Found:
    """The first stage runs B: its I does nothing in the runtime, and its W the whole backward."""
    if 0 in facts.split_stages:
        yield (
            f"$.orders[{facts.plan.stages[0].rank}]",
            "stage 0 runs I and W, but the runtime leaves out its I and runs all of the backward in its W: use B",
        )


def recomputed_whole(facts: Facts) -> Found:
    """A stage that recomputes runs B: the runtime's W runs the forward again for every group of parameters."""
    for number in facts.split_stages:
        if facts.plan.stages[number].recompute:
            yield (
                f"$.stages[{number}].recompute",
                f"stage {number} recomputes and runs W, which would run its forward again for every group of "
                "parameters: it must run B",
            )


def titan_placement(facts: Facts) -> Found:
    """Stages are cyclic on the ranks, or run down and up them once."""
    ranks, stages = facts.num_ranks, facts.num_stages
    rank_of = [stage.rank for stage in facts.plan.stages]
    if rank_of == [*range(ranks), *reversed(range(ranks))]:
        return
    yield from cyclic_placement(facts)
    if stages == 2 * ranks and rank_of[:ranks] == list(range(ranks)) and rank_of[ranks] == ranks - 1:
        yield "$.stages", f"with stage {ranks} on rank {ranks - 1} it would have to be a V: stage i on rank 2 P - 1 - i"


def cyclic_placement(facts: Facts) -> Found:
    """Stage i is on rank i mod P, and every rank has the same number of stages."""
    ranks, stages = facts.num_ranks, facts.num_stages
    if stages % ranks:
        yield "$.stages", f"{stages} stages are not the same number on each of {ranks} ranks"
        return
    for number, stage in enumerate(facts.plan.stages):
        if stage.rank != number % ranks:
            yield (
                f"$.stages[{number}].rank",
                f"stage {number} is on rank {stage.rank}, and must be on rank {number % ranks}: placement is cyclic, "
                "stage i on rank i mod P",
            )
            return


def one_stage_a_rank(facts: Facts) -> Found:
    """Stage i is on rank i, and there is no other."""
    if [stage.rank for stage in facts.plan.stages] != list(range(facts.num_ranks)):
        yield "$.stages", f"{facts.num_stages} stages, and stage i must be on rank i, one stage a rank"


def backward_fused(facts: Facts) -> Found:
    """The backward runs in one piece."""
    if facts.split_stages:
        listed = ", ".join(map(str, facts.split_stages[:8])) + (" and more" if len(facts.split_stages) > 8 else "")
        yield "$.orders", f"the backward is split in I and W (stages {listed}), and must run in one piece, B"


def group_size(facts: Facts) -> Found:
    """Interleaving has two ranks at the least and a legal group size: P <= N <= M, M mod N = 0 or >= P."""
    ranks, count = facts.num_ranks, facts.num_microbatches
    if facts.stages_per_rank == 1:
        return
    if ranks == 1:
        yield "$.ranks", f"{facts.num_stages} stages on one rank, and interleaving needs two ranks: use one stage"
        return
    size = group_size_of(facts.orders[0])
    if not legal_group_size(size, ranks, count):
        least = least_group_size(ranks, count)
        legal = f"{least} would be legal" if least else f"use at least {ranks} micro-batches"
        yield (
            "$.orders[0]",
            f"micro-batches go in groups of N = {size}, and with P = {ranks}, M = {count} it must be P <= N <= M and "
            f"M mod N = 0 or >= P: {legal}",
        )


def megatron_order(facts: Facts) -> Found:
    """The orders are 1F1B's, or those of Megatron-LM's interleaved table."""
    ranks, count, per_rank = facts.num_ranks, facts.num_microbatches, facts.stages_per_rank
    if per_rank == 1:
        yield from _same_orders(facts, one_f_one_b(ranks, count), "1F1B")
    else:
        size = group_size_of(facts.orders[0])
        expected = interleaved_1f1b(ranks, count, per_rank, size)
        yield from _same_orders(facts, expected, f"interleaved 1F1B in groups of {size}")


def deepspeed_order(facts: Facts) -> Found:
    """The orders are 1F1B's."""
    yield from _same_orders(facts, one_f_one_b(facts.num_ranks, facts.num_microbatches), "1F1B")


def _same_orders(facts: Facts, expected: Orders, name: str) -> Found:
    for rank, (found, right) in enumerate(zip(facts.orders, expected, strict=True)):
        if found != right:
            at = next(at for at, (one, other) in enumerate(zip(found, right, strict=True)) if one != other)
            yield (
                f"$.orders[{rank}]",
                f"action {at} of rank {rank} is {found[at]}, and {right[at]} under {name}, the only order that runs",
            )
            return


def megatron_p2p(facts: Facts) -> Found:
    """Transfers block under 1F1B and overlap under interleaving; where none takes time it is all one."""
    if not any(stage.transfer_ns.forward or stage.transfer_ns.backward for stage in facts.plan.stages):
        return
    name, expected = ("1F1B", "blocking") if facts.stages_per_rank == 1 else ("interleaved 1F1B", "overlapped")
    if facts.plan.p2p != expected:
        yield "$.p2p", f"transfers are {facts.plan.p2p} in the plan, and {expected} in Megatron-LM's {name}"


def recompute_uniform(facts: Facts) -> Found:
    """All stages recompute, or none."""
    filled = [(n, stage.recompute) for n, stage in enumerate(facts.plan.stages) if stage.layers[0] < stage.layers[1]]
    for number, recompute in filled:
        if recompute != filled[0][1]:
            does, other = ("recomputes", "does not") if recompute else ("does not recompute", "does")
            yield (
                f"$.stages[{number}].recompute",
                f"stage {number} {does} and stage {filled[0][0]} {other}: the switches are for all stages alike",
            )
            return


_TORCH: Final = (
    Rule("every-rank", every_rank_has_a_stage),
    Rule("empty-stage", no_empty_stage),
    Rule("last-forwards", last_forwards_ascend),
    Rule("first-whole", first_stage_whole),
    Rule("recomputed-whole", recomputed_whole),
)
TORCH_RULES: Final = _TORCH
TORCHTITAN_RULES: Final = (Rule("placement", titan_placement), *_TORCH)
MEGATRON_RULES: Final = (
    Rule("placement", cyclic_placement),
    Rule("fused", backward_fused),
    Rule("group-size", group_size, ("placement", "fused")),
    Rule("order", megatron_order, ("placement", "fused", "group-size")),
    Rule("p2p", megatron_p2p, ("placement",)),
    Rule("recompute", recompute_uniform),
    Rule("layer-order", model_rules.layers_in_order),
    Rule("embedding", model_rules.embedding_first, ("layer-order",)),
    Rule("head", model_rules.head_last, ("layer-order",)),
    Rule("mtp", model_rules.mtp_together, ("layer-order", "placement")),
    Rule("kinds", model_rules.kinds_have_symbols),
)
DEEPSPEED_RULES: Final = (
    Rule("placement", one_stage_a_rank),
    Rule("empty-stage", no_empty_stage),
    Rule("fused", backward_fused),
    Rule("order", deepspeed_order, ("placement", "fused")),
    Rule("recompute", recompute_uniform),
)
