"""Decoders that mix attention with linear attention, delta rules or short convolutions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from octopipe_cli.profiling.blocks import (
    Block,
    DepthAttention,
    GatedDeltaNet,
    KimiDeltaAttention,
    Linear,
    LinearAttention,
    Moe,
    Norm,
    Shared,
    ShortConvolution,
)
from octopipe_cli.profiling.configs.assembly import Model, Part
from octopipe_cli.profiling.configs.common import (
    Style,
    attention,
    branch,
    decoder,
    hidden_size,
    layers_at,
    mlp,
    num_depths,
    num_layers,
)
from octopipe_cli.profiling.configs.fields import Fields
from octopipe_cli.profiling.configs.latent import latent_attention
from octopipe_cli.profiling.configs.moe import after_dense, by_type, deepseek_moe, qwen_moe, qwen_sparse

PLAIN: Final = Style()
MIXED: Final = ("full_attention", "linear_attention")


def _full(fields: Fields, count: int, every: int = 4) -> list[bool]:
    """Return which layers have full attention: by ``layer_types``, else each ``full_attention_interval``-th."""
    if fields.has("layer_types"):
        return [kind == "full_attention" for kind in fields.named("layer_types", choices=MIXED, length=count)]
    every = fields.whole("full_attention_interval", default=every)
    return [(layer + 1) % every == 0 for layer in range(count)]


def _qwen_next(fields: Fields, experts: bool) -> Model:
    """Return Qwen3-Next and Qwen 3.5: gated delta net and gated attention in turn, experts or an MLP.

    An MTP layer is one full attention layer; the projection and the norms around it are shared by all of them.
    """
    count, hidden = num_layers(fields), hidden_size(fields)
    style = Style(
        qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), qk_norm="head", head_dim=256
    )
    fields.refuse("attn_output_gate", (True,), "no output gate")
    core = replace(attention(fields, style), gate="element")
    core = replace(core, extra_parameters=core.gate_width if core.qkv_bias else 0)
    heads = branch("attention", style, hidden, core)
    net = GatedDeltaNet(
        hidden,
        fields.whole("linear_num_key_heads"),
        fields.whole("linear_num_value_heads"),
        fields.whole("linear_key_head_dim"),
        fields.whole("linear_value_head_dim"),
        fields.whole("linear_conv_kernel_dim", default=4),
    )
    delta = branch("linear_attention", style, hidden, net)
    sparse = qwen_sparse(fields, count) if experts else [False] * count
    feeds: dict[bool, Part] = {}
    if any(sparse):
        feeds[True] = branch("moe", style, hidden, qwen_moe(fields, shared=True))
    if not all(sparse):
        feeds[False] = branch("mlp", style, hidden, mlp(fields, style))
    layers = [
        (heads if is_full else delta, feeds[is_sparse])
        for is_full, is_sparse in zip(_full(fields, count), sparse, strict=True)
    ]
    depths = num_depths(fields, "mtp_num_hidden_layers", "num_nextn_predict_layers")
    if depths:
        fields.refuse("mtp_use_dedicated_embeddings", (False,), "embeddings of the MTP's own")
    one = Norm(hidden)
    around = (one, one, Linear(2 * hidden, hidden), one)
    mtp = [(Shared(around, -1, owner=depth == 0), *heads.blocks, *feeds[any(sparse)].blocks) for depth in range(depths)]
    return decoder(fields, style, layers, mtp=mtp)


def _lightning(fields: Fields) -> Model:
    """Return MiniMax-Text-01 and M1: lightning attention and full attention in turn, experts in every layer."""
    count, hidden = num_layers(fields), hidden_size(fields)
    if fields.has("layer_types"):
        full = _full(fields, count)
    else:
        full = [kind == 1 for kind in fields.wholes("attn_type_list", length=count)]
    core = attention(fields, PLAIN)
    width = core.heads * core.head_dim
    linear = LinearAttention(hidden, core.heads, core.heads, core.head_dim, norm_width=width)
    experts = fields.whole("num_local_experts")
    moe = Moe(
        hidden,
        experts,
        fields.whole("num_experts_per_tok"),
        fields.whole("intermediate_size"),
        shared_intermediate=fields.whole("shared_intermediate_size", default=0, least=0),
    )
    mixers = {
        True: branch("attention", PLAIN, hidden, core),
        False: branch("linear_attention", PLAIN, hidden, linear),
    }
    ffn = branch("moe", PLAIN, hidden, moe)
    return decoder(fields, PLAIN, [(mixers[is_full], ffn) for is_full in full])


def _kimi_linear(fields: Fields) -> Model:
    """Return Kimi Linear and K3: Kimi delta attention and latent attention without positions in turn, experts.

    K3 reads a softmax over the outputs of earlier blocks of layers in place of the residual stream (Block AttnRes): so
    many tensors cross a boundary as blocks have begun before it, and the embeddings.
    """
    count, hidden = num_layers(fields), hidden_size(fields)
    inner = fields.below("linear_attn_config") or Fields(
        {
            "num_heads": fields.values.get("linear_num_heads"),
            "head_dim": fields.values.get("linear_head_dim"),
            "short_conv_kernel_size": fields.values.get("linear_conv_kernel_dim"),
        },
        fields.file,
        fields.family,
        fields.place,
    )
    delta = KimiDeltaAttention(
        hidden,
        inner.whole("num_heads"),
        inner.whole("head_dim"),
        inner.whole("short_conv_kernel_size"),
        full_rank_gate=inner.flag("use_full_rank_gate", default=False),
    )
    latent = replace(latent_attention(fields), output_gate=fields.flag("mla_use_output_gate", default=False))
    mixers: dict[bool, tuple[str, Block]] = {True: ("attention", latent), False: ("linear_attention", delta)}
    routed = replace(deepseek_moe(fields), latent=fields.optional("routed_expert_hidden_size"))
    routed = replace(routed, latent_norm=bool(routed.latent) and fields.flag("latent_moe_use_norm", default=False))
    sparse = after_dense(fields, count, default=1)
    feeds: dict[bool, tuple[str, Block]] = {True: ("moe", routed)}
    if not all(sparse):
        feeds[False] = ("mlp", mlp(fields, PLAIN))
    fields.refuse("num_nextn_predict_layers", (0,), "MTP depths")
    block = fields.optional("attn_res_block_size")
    layers, carried = [], []
    for layer, (is_full, is_sparse) in enumerate(zip(_kimi_full(fields, inner, count), sparse, strict=True)):
        sources = 1 if block is None else 2 + layer // block
        reads = () if block is None else (DepthAttention(hidden, sources),)
        layers.append(
            [Part(name, (*reads, Norm(hidden), mixer)) for name, mixer in (mixers[is_full], feeds[is_sparse])]
        )
        carried.append(sources)
    model = decoder(fields, PLAIN, layers, carried=carried)
    if block is None:
        return model
    return replace(model, final=(DepthAttention(hidden, 2 + (count - 1) // block), *model.final))


def _kimi_full(fields: Fields, inner: Fields, count: int) -> list[bool]:
    """Return which layers of a Kimi have latent attention: ``layer_types``, else lists that count from 1."""
    if fields.has("layer_types"):
        return _full(fields, count)
    full, delta = inner.wholes("full_attn_layers", least=1), inner.wholes("kda_layers", least=1)
    if sorted([*full, *delta]) != list(range(1, count + 1)):
        inner.fail("kda_layers", "not every layer is in one of the two lists", f"1 to {count}, each once")
    return [layer in full for layer in range(1, count + 1)]


def _lfm2(fields: Fields) -> Model:
    """Return LFM2: short convolutions and attention with normed heads in turn, an MLP or experts."""
    count, hidden = num_layers(fields), hidden_size(fields)
    style = replace(PLAIN, tied=True, qk_norm="head")
    if fields.has("layer_types"):
        kinds = fields.named("layer_types", choices=("full_attention", "conv"), length=count)
        full = [kind == "full_attention" for kind in kinds]
    else:
        full = layers_at(fields, "full_attn_idxs", count)
    conv = ShortConvolution(hidden, fields.whole("conv_L_cache", default=3), fields.flag("conv_bias", default=False))
    mixers = {
        True: branch("attention", style, hidden, attention(fields, style)),
        False: branch("convolution", style, hidden, conv),
    }
    feeds = {False: branch("mlp", style, hidden, mlp(fields, style, _lfm2_width(fields)))}
    sparse = [False] * count
    if fields.family == "lfm2_moe":
        moe = Moe(
            hidden,
            fields.whole("num_experts"),
            fields.whole("num_experts_per_tok"),
            fields.whole("moe_intermediate_size"),
            correction_bias=fields.flag("use_expert_bias", default=True),
        )
        feeds[True] = branch("moe", style, hidden, moe)
        first = fields.whole("num_dense_layers", least=0)
        sparse = by_type(fields, count) or [layer >= first for layer in range(count)]
    layers = [(mixers[a], feeds[b]) for a, b in zip(full, sparse, strict=True)]
    return decoder(fields, style, layers)


def _lfm2_width(fields: Fields) -> int:
    """Return the MLP's width, which LFM2 takes two thirds of and rounds up, unless told not to."""
    width = fields.whole("intermediate_size", "block_ff_dim")
    if fields.family == "lfm2_moe" or not fields.flag("block_auto_adjust_ff_dim", default=True):
        return width
    width = int(fields.number("block_ffn_dim_multiplier", default=1.0) * int(2 * width / 3))
    multiple = fields.whole("block_multiple_of", default=256)
    return multiple * -(-width // multiple)


#: Reader by ``model_type``.
READERS: Final[Mapping[str, Callable[[Fields], Model]]] = {
    "qwen3_next": partial(_qwen_next, experts=True),
    "qwen3_5_text": partial(_qwen_next, experts=False),
    "qwen3_5_moe_text": partial(_qwen_next, experts=True),
    **dict.fromkeys(("minimax_text_01", "minimax", "minimax_m1"), _lightning),
    "kimi_linear": _kimi_linear,
    **dict.fromkeys(("lfm2", "lfm2_moe"), _lfm2),
}
