"""Decoders before Llama: learned positions, biases, attention beside the MLP (GPT-2, OPT, BLOOM, NeoX, Falcon, ...)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from octopipe_cli.profiling.blocks import Attention, Embedding, Mlp, Norm, Parallel
from octopipe_cli.profiling.configs.assembly import Model, Part
from octopipe_cli.profiling.configs.common import (
    NormKind,
    Style,
    branch,
    decoder,
    hidden_size,
    is_tied,
    norm,
    num_layers,
)
from octopipe_cli.profiling.configs.dense import parallel
from octopipe_cli.profiling.configs.fields import Fields


def _heads(fields: Fields, kv_heads: int | None = None, qkv_bias: bool = True, output_bias: bool = True) -> Attention:
    """Return attention whose heads share out the hidden width."""
    hidden, heads = hidden_size(fields), fields.whole("num_attention_heads", "n_head", "n_heads")
    if hidden % heads:
        fields.fail(None, f"{heads} heads don't divide the hidden size {hidden}")
    width = hidden // heads
    return Attention(hidden, heads, kv_heads or heads, width, qkv_bias=qkv_bias, output_bias=output_bias)


def _sequential(
    fields: Fields, heads: Attention, ffn: Mlp, tied: bool, kind: NormKind = "layer", positions: int = 0
) -> Model:
    """Return a decoder that runs attention, then an MLP of two matrices, with learned positions or without."""
    hidden, style = hidden_size(fields), Style(tied=tied, norm=kind)
    layer = (branch("attention", style, hidden, heads), branch("mlp", style, hidden, ffn))
    model = decoder(fields, style, [layer] * num_layers(fields))
    return replace(model, embedding=(Embedding(model.vocabulary, hidden, positions),))


def _gpt2(fields: Fields) -> Model:
    """Return GPT-2, or StarCoder 1 (gpt_bigcode) with one head of keys and values."""
    fields.refuse("add_cross_attention", (False,), "cross attention")
    hidden = hidden_size(fields)
    single = fields.family == "gpt_bigcode" and fields.flag("multi_query", default=True)
    ffn = Mlp(hidden, fields.whole("n_inner", "intermediate_size", default=4 * hidden), gated=False, bias=True)
    positions = fields.whole("n_positions", "max_position_embeddings", "n_ctx")
    return _sequential(fields, _heads(fields, 1 if single else None), ffn, tied=True, positions=positions)


def _bloom(fields: Fields) -> Model:
    """Return BLOOM: a norm on the embeddings, ALiBi, an MLP four times as wide."""
    hidden = hidden_size(fields)
    model = _sequential(fields, _heads(fields), Mlp(hidden, 4 * hidden, gated=False, bias=True), tied=True)
    return replace(model, embedding=(*model.embedding, Norm(hidden, bias=True)))


def _opt(fields: Fields) -> Model:
    """Return OPT: two positions more than the longest text, optionally a narrower embedding with projections."""
    hidden, bias = hidden_size(fields), fields.flag("enable_bias", default=True)
    affine = fields.flag("layer_norm_elementwise_affine", default=True)
    ffn = Mlp(hidden, fields.whole("ffn_dim"), gated=False, bias=bias)
    heads = _heads(fields, qkv_bias=bias, output_bias=bias)
    positions = fields.whole("max_position_embeddings") + 2
    model = _sequential(fields, heads, ffn, tied=True, kind="layer" if affine else "plain", positions=positions)
    width = fields.whole("word_embed_proj_dim", default=hidden)
    before = fields.flag("do_layer_norm_before", default=True)
    keeps = before and not fields.flag("_remove_final_layer_norm", default=False)
    return replace(
        model,
        embedding=(Embedding(model.vocabulary, hidden, positions, width),),
        final=model.final if keeps else (),
        head_width=width,
    )


def _neox(fields: Fields) -> Model:
    """Return GPT-NeoX and Pythia: two norms of the same input, attention beside the MLP unless told not to."""
    hidden, bias = hidden_size(fields), fields.flag("attention_bias", default=True)
    heads = _heads(fields, qkv_bias=bias, output_bias=bias)
    ffn = Mlp(hidden, fields.whole("intermediate_size"), gated=False, bias=True)
    if not fields.flag("use_parallel_residual", default=True):
        return _sequential(fields, heads, ffn, tied=False)
    return _side_by_side(fields, Style(norm="layer"), heads, ffn, norms=2)


def _side_by_side(fields: Fields, style: Style, heads: Attention, ffn: Mlp, norms: int = 1) -> Model:
    hidden = hidden_size(fields)
    part = Part("attention_mlp", (*[norm(style.norm, hidden)] * norms, Parallel((heads, ffn))))
    return decoder(fields, style, [[part]] * num_layers(fields))


def _falcon(fields: Fields) -> Model:
    """Return Falcon 7B, 40B and 180B (attention beside the MLP) and the older RW models (one after the other)."""
    hidden, bias = hidden_size(fields), fields.flag("bias", default=False)
    new = fields.flag("new_decoder_architecture", default=False)
    heads = fields.whole("num_attention_heads", "n_head")
    kv_heads = heads
    if new:
        kv_heads = fields.whole("num_kv_heads", "n_head_kv", default=heads)
    elif fields.flag("multi_query", default=True):
        kv_heads = 1
    core = _heads(fields, kv_heads, bias, bias)
    ffn = Mlp(hidden, fields.whole("ffn_hidden_size", default=4 * hidden), gated=False, bias=bias)
    if not (fields.flag("parallel_attn", default=True) or new):
        return _sequential(fields, core, ffn, tied=True)
    norms = fields.whole("num_ln_in_parallel_attn", default=2 if new else 1)
    return _side_by_side(fields, Style(tied=True, norm="layer"), core, ffn, min(norms, 2))


def _mpt(fields: Fields) -> Model:
    """Return MPT: norms and matrices without bias, ALiBi or learned positions, keys and values optionally grouped."""
    hidden = hidden_size(fields)
    fields.refuse("no_bias", (True,), "biases")
    inner = fields.below("attn_config") or Fields({}, fields.file, fields.family, fields.place)
    inner.refuse("qk_ln", (False,), "norms of queries and keys")
    kind = inner.text(
        "attn_type",
        default="multihead_attention",
        choices=("multihead_attention", "multiquery_attention", "grouped_query_attention"),
    )
    kv_heads = {"multihead_attention": None, "multiquery_attention": 1}.get(kind)
    if kind == "grouped_query_attention":
        kv_heads = inner.whole("kv_n_heads")
    core = _heads(fields, kv_heads, False, False)
    width = int(fields.number("expansion_ratio", default=4) * hidden)
    learned = fields.flag("learned_pos_emb", default=True) and not inner.flag("alibi", default=True)
    positions = fields.whole("max_seq_len") if learned else 0
    return _sequential(fields, core, Mlp(hidden, width, gated=False), True, "layer_no_bias", positions)


def _phi(fields: Fields) -> Model:
    """Return Phi 1 and 2: biases everywhere, one norm, attention beside the MLP."""
    style = Style(
        norm="layer",
        qkv_bias=True,
        output_bias=True,
        mlp_bias=True,
        head_bias=True,
        gated=False,
    )
    fields.refuse("qk_layernorm", (False,), "norms of queries and keys")
    return parallel(fields, style)


def _gptj(fields: Fields) -> Model:
    """Return GPT-J and CodeGen: biases in the MLP and the head alone, one norm, attention beside the MLP."""
    hidden = hidden_size(fields)
    ffn = Mlp(hidden, fields.whole("n_inner", default=4 * hidden), gated=False, bias=True)
    core = _heads(fields, qkv_bias=False, output_bias=False)
    return _side_by_side(fields, Style(norm="layer", head_bias=True), core, ffn)


def _persimmon(fields: Fields) -> Model:
    """Return Persimmon and Fuyu's text model: biases everywhere, layer norms a head on queries and keys."""
    hidden = hidden_size(fields)
    core = _heads(fields)
    if fields.flag("qk_layernorm", default=True):
        core = replace(core, qk_norm=True, qk_norm_parameters=4 * core.head_dim)
    ffn = Mlp(hidden, fields.whole("intermediate_size"), gated=False, bias=True)
    return _sequential(fields, core, ffn, tied=is_tied(fields, False))


#: Reader by ``model_type``.
READERS: Final[Mapping[str, Callable[[Fields], Model]]] = {
    **dict.fromkeys(("gpt2", "gpt_bigcode"), _gpt2),
    "bloom": _bloom,
    "opt": _opt,
    "gpt_neox": _neox,
    "falcon": _falcon,
    "mpt": _mpt,
    "phi": _phi,
    **dict.fromkeys(("gptj", "codegen"), _gptj),
    "persimmon": _persimmon,
}
