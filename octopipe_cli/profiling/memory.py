"""Bytes on one device: weights with their training states, what a micro-batch keeps, workspace, boundary tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from octopipe_cli.profiling.architecture import Layer
from octopipe_cli.profiling.blocks import (
    Block,
    DepthAttention,
    Embedding,
    Head,
    LatentAttention,
    Linear,
    Moe,
    Norm,
    Parallel,
    Shared,
)
from octopipe_cli.profiling.compressed import CompressedAttention, FactorizedAttention, HyperConnection
from octopipe_cli.profiling.image_blocks import LayerScale, PatchEmbedding
from octopipe_cli.profiling.operations import Operation
from octopipe_cli.profiling.setting import ELEMENT, Optimizer, Setting

#: Bytes of optimizer state a weight: an fp32 copy, and two moments (Adam), one (momentum; Muon's matrices).
STATE_BYTES: Final[dict[Optimizer, int]] = {"adam": 12, "sgd": 8, "muon": 8}


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights of a layer on one device: `dense` ones, which all replicas hold, and `expert` ones.

    `matrices` says whether Muon trains them (hidden matrices), or Adam (embedding, head, norms).
    """

    dense: int = 0
    expert: int = 0
    matrices: bool = True


def weights_of(layer: Layer, setting: Setting) -> list[Weights]:
    """Return the weights of a layer's blocks on one device; shared blocks count where the layer owns them."""
    found = []
    for block in _stored(layer.blocks):
        if isinstance(block, Moe):
            apart = setting.expert_parallel * setting.tensor_parallel
            expert = block.experts * block.expert.parameters
            shared = block.shared.parameters if block.shared else 0
            dense = block.always - shared + -(-shared // setting.tensor_parallel)
            found.append(Weights(dense, -(-expert // apart)))
        else:
            whole = _whole(block)
            dense = whole + -(-(block.parameters - whole) // setting.tensor_parallel)
            found.append(
                Weights(dense, 0, not isinstance(block, Embedding | Head | Norm | PatchEmbedding | LayerScale))
            )
    return found


def _stored(blocks: Iterable[Block]) -> Iterable[Block]:
    """Yield the blocks whose weights are stored here."""
    for block in blocks:
        if isinstance(block, Parallel):
            yield from _stored(block.branches)
        elif isinstance(block, Shared):
            if block.owner:
                yield from _stored(block.blocks)
        else:
            yield block


def _whole(block: Block) -> int:
    """Return how many weights every tensor-parallel device has whole: norms, positions, projections down to latents."""
    if isinstance(block, Norm | Linear | DepthAttention | HyperConnection | PatchEmbedding | LayerScale):
        return block.parameters
    if isinstance(block, Embedding):
        return block.positions * block.hidden
    if isinstance(block, CompressedAttention):
        return block.hidden * (block.query_rank + block.head_dim) + (block.ratio > 0) * block.compressor(block.head_dim)
    if isinstance(block, FactorizedAttention):
        return block.hidden * (block.query_rank + 2 * block.head_dim) + block.query_rank
    if isinstance(block, LatentAttention):
        return block.hidden * ((block.query_rank or 0) + block.kv_rank + block.rope_dim)
    return 0


def state_bytes(weights: Iterable[Weights], setting: Setting, trained: bool = True) -> int:
    """Return the bytes of weights, gradients and optimizer states; of the weights alone where they are not trained.

    bf16 weights 2, gradients 4 or 2, Adam's fp32 copy and moments 12: 18 bytes a weight; with a distributed optimizer
    (ZeRO 1) 6 + 12 / replicas (1910.02054; Megatron-LM's README, "distributed optimizer"). ZeRO 2 cuts the gradients,
    ZeRO 3 the weights too.
    """
    total = 0
    for part in weights:
        optimizer = 12 if setting.optimizer == "muon" and not part.matrices else STATE_BYTES[setting.optimizer]
        for count, replicas in ((part.dense, replicas_of(setting)), (part.expert, replicas_of(setting, experts=True))):
            for size, cut_from in ((ELEMENT, 3), (setting.gradient_element, 2), (optimizer, 1))[: 3 if trained else 1]:
                total += -(-count * size // (replicas if setting.zero >= cut_from else 1))
    return total


def replicas_of(setting: Setting, experts: bool = False) -> int:
    """Return how many devices hold the same weights: data x context parallel, experts / expert parallel."""
    replicas = setting.data_parallel * setting.context_parallel
    return replicas // setting.expert_parallel if experts else replicas


def activation_bytes(operations: Iterable[Operation]) -> int:
    """Return what a micro-batch keeps from F to I (or B)."""
    return sum(operation.kept_bytes for operation in operations)


def weight_activation_bytes(operations: Iterable[Operation]) -> int:
    """Return what a micro-batch keeps from I to W in PyTorch's split backward.

    I keeps the graph before any weights and adds the gradient of every output of an operation with weights. It frees
    what has no weights behind it, the loss: the head keeps its inputs and the gradients of norm and logits
    (torch.distributed.pipelining's stage_backward_input; measured).
    """
    return sum(operation.kept_bytes - operation.freed_bytes + operation.gradient_bytes for operation in operations)


def least_weight_activation_bytes(operations: Iterable[Operation]) -> int:
    """Return what W cannot do without: the inputs of its matrix products and their outputs' gradients."""
    return sum(operation.weight_bytes + operation.gradient_bytes for operation in operations if operation.weight)


def workspace_bytes(operations: Sequence[Operation]) -> int:
    """Return the most that one operation of a layer holds only while it runs."""
    return max((operation.workspace_bytes for operation in operations), default=0)


def output_bytes(layer: Layer, setting: Setting, hidden: int) -> int:
    """Return the boundary tensors behind a layer; sequence parallelism cuts them (2205.05198)."""
    if layer.images is not None:
        cut = setting.tensor_parallel if setting.sequence_parallel else 1
        return ELEMENT * setting.micro_batch_size * layer.images.passed // cut
    return 0 if layer.role == "head" else layer.carried * ELEMENT * setting.sharded_tokens * hidden
