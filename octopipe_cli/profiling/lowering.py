"""A layer's blocks to operations on one device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from octopipe_cli.errors import InputError
from octopipe_cli.profiling import attention, recurrent
from octopipe_cli.profiling.architecture import Layer
from octopipe_cli.profiling.blocks import (
    Attention,
    Block,
    DepthAttention,
    Embedding,
    GatedDeltaNet,
    Head,
    KimiDeltaAttention,
    LatentAttention,
    Linear,
    LinearAttention,
    Mamba1,
    Mamba2,
    Mlp,
    Moe,
    Norm,
    Parallel,
    Shared,
    ShortConvolution,
)
from octopipe_cli.profiling.compressed import CompressedAttention, FactorizedAttention, HyperConnection
from octopipe_cli.profiling.image_blocks import ImageBlock
from octopipe_cli.profiling.image_lowering import image_block
from octopipe_cli.profiling.kernels import elementwise, norm, projection, residual
from octopipe_cli.profiling.operations import Collective, Exchange, Operation, moving
from octopipe_cli.profiling.setting import ELEMENT, Setting


def lower(layer: Layer, setting: Setting, hidden: int) -> list[Operation]:
    """Return the operations of a layer in order; `hidden` is the model's width."""
    return list(_lowered(layer.blocks, setting, hidden))


def _lowered(blocks: tuple[Block, ...], setting: Setting, hidden: int) -> Iterator[Operation]:
    for block in blocks:
        yield from _block(block, setting, hidden)
        if isinstance(block, _BRANCHES):
            yield residual(setting, hidden)


def _block(block: Block, setting: Setting, hidden: int, keep_input: bool = True) -> Iterator[Operation]:
    if isinstance(block, Parallel):
        for index, branch in enumerate(block.branches):
            yield from _block(branch, setting, hidden, keep_input=index == 0)
            if index:
                yield residual(setting, hidden)
    elif isinstance(block, Shared):
        yield from _lowered(block.blocks, setting, hidden)
    elif isinstance(block, Norm):
        yield norm(setting, block.width * block.parts)
    elif isinstance(block, Linear):
        rows = setting.sharded_tokens
        yield projection(setting, "projection", block.inputs, block.outputs, rows=rows, bias=block.bias)
    elif isinstance(block, DepthAttention):
        size = ELEMENT * setting.sharded_tokens * block.hidden
        yield elementwise("depth attention", block.sources * size, size, (2 * block.sources + 1) * size, kernels=3)
    elif isinstance(block, HyperConnection):
        yield from hyper_connection(block, setting)
    elif isinstance(block, ImageBlock):
        yield image_block(block, setting)
    elif isinstance(block, Embedding):
        yield from embedding(block, setting)
    elif isinstance(block, Head):
        yield from head(block, setting)
    else:
        lowering = _LOWERINGS.get(type(block))
        if lowering is None:
            raise InputError(f"no cost model for a block of kind {type(block).__name__}")
        yield from lowering(block, setting, keep_input)


def hyper_connection(block: HyperConnection, setting: Setting) -> list[Operation]:
    """Return the mixing of residual streams to a branch's input and back (2409.19606); at the head only in.

    The streams are read for the weights, the input and the way back, and written; they are kept.
    """
    rows, streams = setting.sharded_tokens, block.streams
    size = ELEMENT * rows * block.hidden
    back = 0 if block.at_head else streams
    weights = streams if block.at_head else streams * (2 + streams)
    moved, kept = streams + back + 1, streams * size
    return [
        projection(setting, "mixing weights", streams * block.hidden, weights, rows=rows, keep_input=False),
        elementwise("mixing", moved * size, (1 + back) * size, 2 * (moved + 1 + back) * size, kept=kept, kernels=3),
    ]


def mlp(
    block: Mlp, setting: Setting, keep_input: bool = True, rows: int | None = None, experts: int = 0
) -> list[Operation]:
    """Return a feed-forward block: up (and gate) projection, activation, down projection.

    The activation keeps its input, both halves where gated (a fused kernel computes it again backward), and its
    result is the down projection's: 8 s b h + 8 s b h bytes at f = 4 h (2205.05198 section 4.1).
    """
    streams = 2 if block.gated else 1
    width = -(-block.intermediate // setting.tensor_parallel)
    size = ELEMENT * (setting.tokens if rows is None else rows) * width
    common: dict[str, Any] = {"rows": rows, "experts": experts, "bias": block.bias}
    return [
        projection(
            setting, "up", block.hidden, streams * block.intermediate, cut="column", keep_input=keep_input, **common
        ),
        elementwise("activation", streams * size, size, (2 * streams + 1) * size, kept=streams * size),
        projection(setting, "down", block.intermediate, block.hidden, cut="row", **common),
    ]


def moe(block: Moe, setting: Setting, keep_input: bool = True) -> list[Operation]:
    """Return a mixture of experts: router, dispatch, experts as grouped products, combination, shared experts.

    Every device has 1 / expert-parallel of the experts and, balanced, `active` rows for each of its own positions.
    Dispatch and combination permute the rows and pass them by all-to-all within the expert-parallel group
    (2006.16668); the router works in fp32 on every device's shard of the sequence.

    Kept beside what the experts keep, T positions on the device with k experts each: the experts' outputs, 2 T k h
    bytes, since the combination weighs them with the router's probabilities, whose gradient is their product with the
    sum's; of the routing the fp32 softmax, 4 bytes an expert, and for every row its weight in fp32, as chosen and
    permuted, and four indices of 8 bytes: the expert chosen, the permutation and back, the row's position (measured).
    """
    spread = setting.expert_parallel
    rows = setting.tokens * block.active
    width = block.hidden if block.latent is None else block.latent
    sharded = setting.sharded_tokens
    own = block.experts // spread
    routed = 4 * sharded * (block.experts + block.zero_experts) + (2 * 4 + 4 * 8) * sharded * block.active
    operations = [
        projection(
            setting,
            "router",
            block.hidden,
            block.experts + block.zero_experts,
            rows=sharded,
            bias=block.router_bias,
            keep_input=keep_input,
        ),
        elementwise(
            "routing",
            8 * sharded * block.experts,
            8 * sharded * block.experts,
            16 * sharded * block.experts,
            kept=routed,
            kernels=6,
        ),
    ]
    if block.latent is not None:
        operations.append(projection(setting, "latent down", block.hidden, width, rows=sharded, keep_input=False))
    dispatched = ELEMENT * sharded * block.active * width
    apart = setting.tensor_parallel * setting.context_parallel
    passed = (Exchange("all_to_all", dispatched, spread, apart),) if spread > 1 else ()
    permuted = (moving("permute", 2 * dispatched, 2),)
    operations.append(Operation("dispatch", (*permuted, *passed), (*passed, *permuted)))
    operations += mlp(block.expert, setting, True, rows, max(1, own))
    operations.append(Operation("combine", (*passed, *permuted), (*permuted, *passed), kept_bytes=dispatched))
    if block.latent is not None:
        operations.append(projection(setting, "latent up", width, block.hidden, rows=sharded))
    if block.shared is not None:
        operations += mlp(block.shared, setting, keep_input=False)
        operations.append(residual(setting, block.hidden))
    return operations


def embedding(block: Embedding, setting: Setting) -> list[Operation]:
    """Return the token embedding: rows gathered; W adds the gradient's rows to the table's; no I.

    The vocabulary is cut over the tensor-parallel devices: the rows are all-reduced, or scattered (2205.05198).
    """
    size = ELEMENT * setting.tokens * block.hidden
    forward = [moving("embedding", 2 * size, 3)]
    weight = [moving("embedding", 2 * size + 2 * setting.gradient_element * setting.tokens * block.hidden, 3)]
    degree = setting.tensor_parallel
    scattered: Collective = "reduce_scatter" if setting.sequence_parallel else "all_reduce"
    exchange = (Exchange(scattered, size, degree),) if degree > 1 else ()
    gather = (Exchange("all_gather", size, degree),) if degree > 1 and setting.sequence_parallel else ()
    kept = 8 * setting.tokens  # the indices
    operations = [
        Operation(
            "embedding",
            (*forward, *exchange),
            (),
            (*gather, *weight),
            kept_bytes=kept,
            weight_bytes=kept,
            gradient_bytes=ELEMENT * setting.sharded_tokens * block.hidden,
        )
    ]
    if block.width is not None and block.width != block.hidden:
        operations.append(projection(setting, "widening", block.width, block.hidden))
    if setting.dropout:
        elements = setting.sharded_tokens * block.hidden
        operations.append(elementwise("dropout", 2 * elements, 3 * elements, 5 * elements, kept=elements))
    return operations


def head(block: Head, setting: Setting) -> list[Operation]:
    """Return output projection and cross-entropy for every prediction of a position.

    Logits are cut over the vocabulary and turned into fp32, whose softmax is kept: 4 s b v bytes (2205.05198 section
    4.1, Megatron's vocab-parallel cross-entropy). Loss, forward: convert, maximum, subtract, exponential and sum,
    divide: 30 bytes a logit; backward: subtract and scale, convert back: 18. I frees the softmax: it leaves W the
    projection's input and the gradient of its logits, 2 bytes each.
    """
    tokens, degree = setting.tokens * block.predictions, setting.tensor_parallel
    width = block.hidden if block.width is None else block.width
    logits = tokens * -(-block.vocabulary // degree)
    # scaled, tanh, scaled back: its result is kept; backward multiply, tanh's, scale
    capping = elementwise(
        "soft cap", 6 * logits, 6 * logits, 14 * logits, kept=ELEMENT * logits, kernels=3, freed=ELEMENT * logits
    )
    narrowing = [] if width == block.hidden else [projection(setting, "narrowing", block.hidden, width)]
    reduced = (Exchange("all_reduce", 4 * tokens, degree),) if degree > 1 else ()
    loss = Operation(
        "loss",
        (moving("loss", 30 * logits, 8), *reduced, *reduced, *reduced),
        (moving("loss", 18 * logits, 4),),
        kept_bytes=4 * logits,
        freed_bytes=4 * logits,
        workspace_bytes=(4 + ELEMENT) * logits,
    )
    return [
        *narrowing,
        projection(
            setting, "logits", width, block.vocabulary, cut="column", rows=tokens, bias=block.bias, vocabulary=True
        ),
        *([capping] if block.soft_capped else []),
        loss,
    ]


_BRANCHES: Final = (
    Attention,
    LatentAttention,
    LinearAttention,
    GatedDeltaNet,
    KimiDeltaAttention,
    Mamba1,
    Mamba2,
    ShortConvolution,
    Mlp,
    Moe,
    Parallel,
    CompressedAttention,
    FactorizedAttention,
)
_LOWERINGS: Final[dict[type[Any], Callable[[Any, Setting, bool], list[Operation]]]] = {
    Attention: attention.attention,
    CompressedAttention: attention.compressed_attention,
    FactorizedAttention: attention.factorized_attention,
    LatentAttention: attention.latent_attention,
    LinearAttention: recurrent.linear_attention,
    GatedDeltaNet: recurrent.gated_delta_net,
    KimiDeltaAttention: recurrent.kimi_delta_attention,
    Mamba1: recurrent.mamba1,
    Mamba2: recurrent.mamba2,
    ShortConvolution: recurrent.short_convolution,
    Mlp: mlp,
    Moe: moe,
}
