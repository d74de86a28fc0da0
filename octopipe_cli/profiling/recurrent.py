"""Mixers with a state in place of softmax, to operations: Mamba, delta rules, linear attention, convolutions.

Their scans have no W: what little their own weights (decay, skip, convolution) need is counted with I.
"""

from __future__ import annotations

from octopipe_cli.profiling.attention import gate
from octopipe_cli.profiling.blocks import (
    GatedDeltaNet,
    KimiDeltaAttention,
    LinearAttention,
    Mamba1,
    Mamba2,
    ShortConvolution,
)
from octopipe_cli.profiling.kernels import elementwise, norm, projection
from octopipe_cli.profiling.operations import Operation, Work
from octopipe_cli.profiling.setting import ELEMENT, Setting

#: FLOPs of Mamba-1's scan for each position, channel and state: decay, exponential, two multiply-adds, output
#: (2312.00752 section 3.3).
SELECTIVE_FLOPS = 9


def mamba2(block: Mamba2, setting: Setting, keep_input: bool = True) -> list[Operation]:
    """Return a Mamba-2 block: input projection, convolution, chunked scan, gated norm, output projection.

    Chunked scan (2405.21060 section 6): within chunks of Q positions 2 T Q (g N + d) FLOPs, states 4 T d N; the
    chunks' states (fp32) are written and read. Its backward recomputes it and runs each product twice. What is kept
    are the projected inputs alone: the fused kernel recomputes the convolution (state-spaces/mamba,
    mamba_split_conv1d_scan_combined), and the scan's output for the norm.
    """
    degree = setting.tensor_parallel
    inner, heads = block.inner // degree, max(1, block.heads // degree)
    groups = max(1, block.groups // degree)
    channels = inner + 2 * groups * block.state
    projected = inner + channels + heads
    operations = [
        projection(
            setting,
            "input",
            block.hidden,
            projected * degree,
            cut="column",
            bias=block.bias,
            keep_input=keep_input,
        ),
        convolution(setting, channels),
        chunked_scan(
            setting,
            block.chunk,
            inside=groups * block.state + inner,
            across=2 * inner * block.state,
            read=channels + heads,
            written=inner,
            states=inner * block.state,
            kept=projected,
        ),
    ]
    if block.gated_norm:
        operations.append(gated_norm(setting, inner))
    operations.append(projection(setting, "output", block.inner, block.hidden, cut="row", bias=block.bias))
    return operations


def chunked_scan(
    setting: Setting, chunk: int, inside: int, across: int, read: int, written: int, states: int, kept: int
) -> Operation:
    """Return a scan in chunks: for each position 2 x chunk x `inside` + 2 x `across` FLOPs, on this device.

    `read`, `written`, `kept` are elements a position, `states` elements a chunk, in fp32, written once and read once.
    """
    tokens = setting.tokens
    flops = 2 * tokens * (chunk * inside + across)
    moved = ELEMENT * tokens * (read + written) + 8 * -(-tokens // chunk) * states
    forward = (Work("scan", flops // 2), Work("scan", flops - flops // 2), Work("scan_memory", 0, moved, kernels=5))
    backward = (
        Work("scan", flops),
        Work("scan", flops + flops // 2),
        Work("scan_memory", 0, 5 * moved // 2, kernels=10),
    )
    return Operation("scan", forward, backward, kept_bytes=ELEMENT * tokens * kept, workspace_bytes=moved)


def convolution(setting: Setting, channels: int) -> Operation:
    """Return a short depthwise convolution with its activation: channels read and written; bound by memory."""
    size = ELEMENT * setting.tokens * channels
    return elementwise("convolution", size, size, 3 * size)


def gated_norm(setting: Setting, width: int) -> Operation:
    """Return a norm of y * silu(z): y is kept (z is among the kept projected inputs)."""
    size = ELEMENT * setting.tokens * width
    return elementwise("gated norm", 2 * size, size, 5 * size, kept=size, back_kernels=2)


def mamba1(block: Mamba1, setting: Setting, keep_input: bool = True) -> list[Operation]:
    """Return a Mamba-1 block: projections in and out, convolution, projections of dt, B and C, selective scan.

    The scan runs on vector units; its backward recomputes the states (2312.00752 section 3.3.2). x and z are kept, dt
    too.
    """
    degree, tokens = setting.tensor_parallel, setting.tokens
    inner = block.inner // degree
    selected = block.dt_rank + 2 * block.state
    size = ELEMENT * tokens * inner
    flops = SELECTIVE_FLOPS * tokens * inner * block.state
    moved = 4 * size + 2 * ELEMENT * tokens * block.state
    operations = [
        projection(
            setting, "input", block.hidden, 2 * block.inner, cut="column", bias=block.bias, keep_input=keep_input
        ),
        convolution(setting, inner),
        projection(setting, "selection", block.inner, selected, cut="row"),
    ]
    if block.inner_norms:
        operations.append(norm(setting, selected, "selection norm", tokens))
    operations += [
        projection(setting, "dt", block.dt_rank, block.inner, cut="column", keep_input=False, bias=True),
        Operation(
            "scan",
            (Work("vector", flops), Work("scan_memory", 0, moved)),
            (Work("vector", flops * 5 // 2), Work("scan_memory", 0, 3 * moved, kernels=2)),
            kept_bytes=3 * size + ELEMENT * tokens * selected,
        ),
        projection(setting, "output", block.inner, block.hidden, cut="row", bias=block.bias),
    ]
    return operations


def gated_delta_net(block: GatedDeltaNet, setting: Setting, keep_input: bool = True) -> list[Operation]:
    """Return a gated delta net (2412.06464): projections, convolution, chunked delta rule, gated norm.

    Chunked delta rule (2406.06484): for each head and position 2 C (2 k + v) FLOPs inside a chunk of C (scores, the
    inverse of the triangular factor, its products), 6 k v across.
    """
    values = block.value_heads * block.value_dim
    return _delta_rule(
        setting,
        block.hidden,
        block.conv_channels + values + 2 * block.value_heads,
        block.conv_channels,
        block.value_heads,
        block.key_dim,
        block.value_dim,
        block.chunk,
        keep_input,
    )


def kimi_delta_attention(block: KimiDeltaAttention, setting: Setting, keep_input: bool = True) -> list[Operation]:
    """Return Kimi delta attention (2510.26692): a delta rule whose decay is for each channel, from a low rank."""
    width = block.heads * block.head_dim
    rank = 0 if block.full_rank_gate else block.head_dim
    operations = _delta_rule(
        setting,
        block.hidden,
        (3 + block.full_rank_gate) * width + block.heads,
        3 * width,
        block.heads,
        block.head_dim,
        block.head_dim,
        block.chunk,
        keep_input,
    )
    rows = setting.sharded_tokens
    low = block.head_dim + rank
    down = projection(setting, "decay down", block.hidden, low, rows=rows, keep_input=False)
    up = projection(setting, "decay up", low, width, cut="column")
    return [*operations[:1], down, up, *operations[1:]]


def _delta_rule(
    setting: Setting,
    hidden: int,
    projected: int,
    channels: int,
    heads: int,
    key_dim: int,
    value_dim: int,
    chunk: int,
    keep_input: bool,
) -> list[Operation]:
    degree = setting.tensor_parallel
    here = max(1, heads // degree)
    values, wide = here * value_dim, channels // degree
    scan = chunked_scan(
        setting,
        chunk,
        inside=here * (2 * key_dim + value_dim),
        across=3 * here * key_dim * value_dim,
        read=wide + 2 * here,
        written=values,
        states=here * key_dim * value_dim,
        kept=projected // degree + wide,
    )
    return [
        projection(setting, "input", hidden, projected, cut="column", keep_input=keep_input),
        convolution(setting, wide),
        scan,
        gated_norm(setting, values),
        projection(setting, "output", heads * value_dim, hidden, cut="row"),
    ]


def linear_attention(block: LinearAttention, setting: Setting, keep_input: bool = True) -> list[Operation]:
    """Return lightning attention (2401.04658): projections, chunked linear attention, norm, output gate.

    For each head and position 2 C (2 d) FLOPs inside a chunk of C, 4 d^2 across.
    """
    degree, tokens = setting.tensor_parallel, setting.tokens
    heads, kv_heads = max(1, block.heads // degree), max(1, block.kv_heads // degree)
    width, qkv = heads * block.head_dim, (heads + 2 * kv_heads) * block.head_dim
    gated = width if block.output_gate else 0
    scan = chunked_scan(
        setting,
        block.chunk,
        inside=2 * width,
        across=2 * width * block.head_dim,
        read=qkv,
        written=width,
        states=width * block.head_dim,
        kept=qkv,
    )
    operations = [
        projection(
            setting,
            "qkv",
            block.hidden,
            (qkv + gated) * degree,
            cut="column",
            bias=block.qkv_bias,
            keep_input=keep_input,
        ),
        elementwise("activation", ELEMENT * tokens * qkv, ELEMENT * tokens * qkv, 3 * ELEMENT * tokens * qkv),
        scan,
        norm(setting, width, "norm inside", tokens),
    ]
    if gated:
        operations.append(gate(setting, width, gated))
    operations.append(projection(setting, "output", block.heads * block.head_dim, block.hidden, cut="row"))
    return operations


def short_convolution(block: ShortConvolution, setting: Setting, keep_input: bool = True) -> list[Operation]:
    """Return a doubly gated short convolution (LFM2): its three projected streams are kept."""
    width = block.hidden // setting.tensor_parallel
    size = ELEMENT * setting.tokens * width
    return [
        projection(
            setting, "input", block.hidden, 3 * block.hidden, cut="column", bias=block.bias, keep_input=keep_input
        ),
        elementwise("gated convolution", 4 * size, 2 * size, 12 * size, kept=4 * size, kernels=3),
        projection(setting, "output", block.hidden, block.hidden, cut="row", bias=block.bias),
    ]
