"""Attention with softmax, lowered to operations on one device."""

from __future__ import annotations

from octopipe_cli.profiling.blocks import Attention, Indexer, LatentAttention
from octopipe_cli.profiling.compressed import CompressedAttention, FactorizedAttention
from octopipe_cli.profiling.kernels import attention_core, elementwise, norm, projection, visible_keys
from octopipe_cli.profiling.operations import Operation, Work
from octopipe_cli.profiling.setting import ELEMENT, Setting


def attention(block: Attention, setting: Setting, keep_input: bool = True) -> list[Operation]:
    """Return grouped-query attention: projections, norms and rotation of queries and keys, core, gate.

    Key heads fewer than the tensor-parallel degree are computed on several devices (Megatron and TensorRT-LLM do so).
    """
    degree, tokens = setting.tensor_parallel, setting.tokens
    inputs = block.hidden if block.inputs is None else block.inputs
    heads, kv_heads = max(1, block.heads // degree), max(1, block.kv_heads // degree)
    projected = heads * block.head_dim + kv_heads * block.head_dim + block.gate_width // degree
    projected += 0 if block.value_is_key else kv_heads * block.value_dim
    if block.shares_kv:
        projected = heads * block.head_dim + block.gate_width // degree
    operations = [
        projection(setting, "qkv", inputs, projected * degree, cut="column", bias=block.qkv_bias, keep_input=keep_input)
    ]
    rotated = (heads + kv_heads) * block.head_dim
    if block.qk_norm:
        operations.append(norm(setting, rotated, "qk norm", tokens))
    if setting.rotary and block.rotary:
        size = ELEMENT * tokens * rotated
        operations.append(elementwise("rotary", size, size, 2 * size, kernels=2))
    dims = (block.head_dim, block.value_dim)
    core = attention_core(setting, heads, kv_heads, *dims, block.window, block.chunk, causal=block.causal)
    operations.append(core)
    width = heads * block.value_dim
    if block.gate_width:
        operations.append(gate(setting, width, block.gate_width // degree))
    operations.append(
        projection(setting, "output", block.heads * block.value_dim, block.hidden, cut="row", bias=block.output_bias)
    )
    return operations


def gate(setting: Setting, width: int, gate_width: int) -> Operation:
    """Return a sigmoid gate on `width` elements a position: both factors kept; the product is the next input."""
    size = ELEMENT * setting.tokens
    read, written = size * (width + gate_width), size * width
    return elementwise("gate", read, written, 2 * read + written, kept=read, back_kernels=2)


def latent_attention(block: LatentAttention, setting: Setting, keep_input: bool = True) -> list[Operation]:
    """Return multi-head latent attention (2405.04434) as trained: latents expanded to every head's keys and values.

    The projections down to the latents are whole on every device (Megatron's rule), those up are cut by heads.
    """
    degree, tokens = setting.tensor_parallel, setting.tokens
    heads = max(1, block.heads // degree)
    rows = setting.sharded_tokens
    latent = block.kv_rank + block.rope_dim
    width = block.heads * block.head_dim
    operations: list[Operation] = []
    if block.query_rank is None:
        operations.append(projection(setting, "query", block.hidden, width, cut="column", keep_input=keep_input))
    else:
        operations.append(
            projection(setting, "query down", block.hidden, block.query_rank, rows=rows, keep_input=keep_input)
        )
        operations.append(norm(setting, block.query_rank, "query norm"))
        operations.append(projection(setting, "query up", block.query_rank, width, cut="column"))
    operations.append(projection(setting, "latent down", block.hidden, latent, rows=rows, keep_input=False))
    operations.append(norm(setting, block.kv_rank, "latent norm"))
    expanded = block.heads * (block.nope_dim + block.value_dim)
    operations.append(projection(setting, "latent up", block.kv_rank, expanded, cut="column"))
    size = ELEMENT * tokens * heads
    rotated, joined = size * block.rope_dim, size * 2 * block.head_dim
    operations.append(elementwise("rotary", rotated + joined, rotated + joined, 2 * (rotated + joined), kernels=4))
    if block.indexer is not None:
        operations += indexer(block.indexer, setting)
    window = block.indexer.top_k if block.indexer else None
    operations.append(attention_core(setting, heads, heads, block.head_dim, block.value_dim, window))
    if block.output_gate:
        operations.append(
            projection(setting, "gate", block.hidden, block.heads * block.value_dim, cut="column", keep_input=False)
        )
        operations.append(gate(setting, heads * block.value_dim, heads * block.value_dim))
    operations.append(projection(setting, "output", block.heads * block.value_dim, block.hidden, cut="row"))
    return operations


def factorized_attention(block: FactorizedAttention, setting: Setting, keep_input: bool = True) -> list[Operation]:
    """Return Step 3's attention (2507.19427): low-rank queries expanded to all heads, which share one key and value.

    The narrow projection down to queries, key and value is whole on every device, the wide ones are cut by heads.
    """
    heads, width = max(1, block.heads // setting.tensor_parallel), block.heads * block.head_dim
    down, rows = block.query_rank + 2 * block.head_dim, setting.sharded_tokens
    size = ELEMENT * setting.tokens * (heads + 1) * block.head_dim
    return [
        projection(setting, "qkv down", block.hidden, down, rows=rows, keep_input=keep_input),
        norm(setting, block.query_rank, "query norm"),
        projection(setting, "query up", block.query_rank, width, cut="column"),
        elementwise("rotary", size, size, 2 * size, kernels=2),
        attention_core(setting, heads, 1, block.head_dim, block.head_dim),
        projection(setting, "output", width, block.hidden, cut="row"),
    ]


def indexer(block: Indexer, setting: Setting, ratio: int = 1) -> list[Operation]:
    """Return the lightning indexer (DeepSeek V3.2): projections, a score for every pair, `ratio` positions a key.

    It is trained on its own loss, which its scores' backward is counted for as for any product: 2 x its forward.
    """
    rows, tokens = setting.sharded_tokens, setting.tokens
    pairs = tokens * visible_keys(setting.sequence_length, None, None) / ratio
    flops = int(2 * pairs * block.heads * block.head_dim)
    moved = ELEMENT * tokens * (block.heads + 1) * block.head_dim + int(ELEMENT * pairs)
    length = setting.sequence_length
    return [
        projection(setting, "index query", block.query_rank, block.heads * block.head_dim, rows=rows, keep_input=False),
        projection(setting, "index key", block.hidden, block.head_dim + block.heads, rows=rows, keep_input=False),
        Operation(
            "index scores",
            (Work("attention_forward", flops, moved, length=length),),
            (Work("attention_backward", 2 * flops, 2 * moved, length=length),),
            kept_bytes=ELEMENT * tokens * (block.heads + 1) * block.head_dim,
        ),
    ]


def compressed_attention(block: CompressedAttention, setting: Setting, keep_input: bool = True) -> list[Operation]:
    """Return attention over a window and compressed positions (DeepSeek V4): one head of keys that are the values too.

    A position sees its window and, of the s / (2 x ratio) compressed ones before it on average, all or the indexer's
    choice. The compressors pool projected keys and gates; the output goes through a latent for each group of heads.
    """
    degree, rows = setting.tensor_parallel, setting.sharded_tokens
    heads, width = max(1, block.heads // degree), block.heads * block.head_dim
    pooled = block.head_dim * (2 if block.index_heads else 1) if block.ratio else 0
    index = 2 * block.index_dim if block.index_heads else 0
    keys = block.head_dim + 2 * (pooled + index)
    operations = [
        projection(setting, "query down", block.hidden, block.query_rank, rows=rows, keep_input=keep_input),
        norm(setting, block.query_rank, "query norm"),
        projection(setting, "query up", block.query_rank, width, cut="column"),
        projection(setting, "keys", block.hidden, keys, rows=rows, keep_input=False),
    ]
    size = ELEMENT * setting.tokens * (heads * block.head_dim + keys)
    operations.append(elementwise("rotary and pooling", size, size, 2 * size, kernels=4))
    beyond = setting.sequence_length / (2 * block.ratio) if block.ratio else 0.0
    if block.index_heads:
        chooser = Indexer(block.hidden, block.query_rank, block.index_heads, block.index_dim, block.top_k)
        operations += indexer(chooser, setting, block.ratio)
        beyond = min(beyond, block.top_k)
    core = attention_core(setting, heads, 1, block.head_dim, block.head_dim, block.window, beyond=beyond)
    latents = block.output_groups * block.output_rank
    return [
        *operations,
        core,
        projection(setting, "output down", width // block.output_groups, latents, cut="column"),
        projection(setting, "output up", latents, block.hidden, cut="row"),
    ]
