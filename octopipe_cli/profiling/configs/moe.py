"""Decoders with mixtures of experts and ordinary attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from octopipe_cli.profiling.blocks import Block, Linear, Moe, Norm, Parallel
from octopipe_cli.profiling.configs.assembly import Model, Part
from octopipe_cli.profiling.configs.common import (
    MAX_DEPTHS,
    Style,
    Windows,
    all_sliding,
    attention_parts,
    branch,
    decoder,
    every_nth_full,
    hidden_size,
    layers_at,
    mlp,
    norm,
    num_depths,
    num_layers,
    windows_by_type,
)
from octopipe_cli.profiling.configs.dense import BIASED, QWEN3
from octopipe_cli.profiling.configs.dense import READERS as DENSE
from octopipe_cli.profiling.configs.fields import Fields

Reader = Callable[[Fields], Model]


def experts_model(fields: Fields, style: Style, sparse: Sequence[bool], moe: Moe | None) -> Model:
    """Return a decoder whose layers have the experts where `sparse`, the family's MLP elsewhere."""
    hidden = hidden_size(fields)
    attentions = attention_parts(fields, style, len(sparse))
    dense = None if all(sparse) else branch("mlp", style, hidden, mlp(fields, style))
    routed = None if moe is None else branch("moe", style, hidden, moe)
    ffns = [routed if is_sparse else dense for is_sparse in sparse]
    return decoder(fields, style, [[part, ffn] for part, ffn in zip(attentions, ffns, strict=True) if ffn])


def by_type(fields: Fields, count: int) -> list[bool] | None:
    """Return which layers have experts as ``mlp_layer_types`` tells it, None where the key is missing."""
    if not fields.has("mlp_layer_types"):
        return None
    return [kind == "sparse" for kind in fields.named("mlp_layer_types", choices=("dense", "sparse"), length=count)]


def after_dense(fields: Fields, count: int, default: int | None = None) -> list[bool]:
    """Return which layers have experts: each ``moe_layer_freq``-th from ``first_k_dense_replace`` on."""
    if (told := by_type(fields, count)) is not None:
        return told
    first = fields.whole("first_k_dense_replace", default=default, least=0)
    every = fields.whole("moe_layer_freq", default=1)
    return [layer >= first and layer % every == 0 for layer in range(count)]


def qwen_sparse(fields: Fields, count: int) -> list[bool]:
    """Return which layers of a Qwen MoE have experts: each ``decoder_sparse_step``-th but ``mlp_only_layers``."""
    every = fields.whole("decoder_sparse_step", default=1)
    plain = fields.wholes("mlp_only_layers") if fields.has("mlp_only_layers") else []
    experts = fields.whole("num_experts", "num_local_experts", least=0)
    return [experts > 0 and layer not in plain and (layer + 1) % every == 0 for layer in range(count)]


def qwen_moe(fields: Fields, shared: bool) -> Moe:
    """Return the experts of a Qwen MoE, with a gated shared expert or without."""
    width = fields.whole("shared_expert_intermediate_size", least=0) if shared else 0
    return Moe(
        hidden_size(fields),
        fields.whole("num_experts", "num_local_experts"),
        fields.whole("num_experts_per_tok"),
        fields.whole("moe_intermediate_size"),
        shared_intermediate=width,
        shared_gate=width > 0,
    )


def shared_experts(fields: Fields, *keys: str, needed: bool = True) -> int:
    """Return how many shared experts there are: null for none; without the key releases of one class may differ."""
    if needed and not any(key in fields.values for key in keys):
        fields.missing(keys)
    return fields.whole(*keys, default=0, least=0)


def deepseek_moe(fields: Fields, correction: bool = True, tells_shared: bool = True) -> Moe:
    """Return experts under DeepSeek's keys: shared ones as wide as so many routed ones; `tells_shared`: with a key."""
    width = fields.whole("moe_intermediate_size")
    return Moe(
        hidden_size(fields),
        fields.whole("n_routed_experts", "num_experts", "num_local_experts"),
        fields.whole("num_experts_per_tok", "num_experts_per_token"),
        width,
        shared_intermediate=width
        * shared_experts(fields, "n_shared_experts", "num_shared_experts", needed=tells_shared),
        correction_bias=correction,
    )


def nextn(fields: Fields, *block: Block, kind: Style | None = None) -> list[tuple[Block, ...]]:
    """Return the MTP depths of DeepSeek's kind: norms of hidden state and embedding, a projection, a layer, a norm."""
    depths = num_depths(fields, "num_nextn_predict_layers", "num_mtp_layers", "num_mtp_modules")
    return mtp_depths(hidden_size(fields), depths, kind or Style(), block)


def mtp_depths(hidden: int, depths: int, style: Style, block: Sequence[Block]) -> list[tuple[Block, ...]]:
    """Return so many MTP depths with one block each (DeepSeek V3, 2412.19437, section 2.2)."""
    one = norm(style.norm, hidden)
    return [(one, one, Linear(2 * hidden, hidden), *block, one)] * depths


def _mixtral(fields: Fields) -> Model:
    count = num_layers(fields)
    moe = Moe(
        hidden_size(fields),
        fields.whole("num_local_experts"),
        fields.whole("num_experts_per_tok"),
        fields.whole("intermediate_size"),
    )
    return experts_model(fields, Style(windows=all_sliding), [True] * count, moe)


def _minimax_m2(fields: Fields) -> Model:
    """Return MiniMax M2: norms over all heads, a correction bias, MTP modules of the same layer."""
    style = Style(qk_norm="width", qk_norm_flag=("use_qk_norm", True), head_dim=128)
    if fields.has("qk_norm_type"):
        fields.text("qk_norm_type", choices=("per_layer",))
    if fields.has("attn_type_list") and set(fields.wholes("attn_type_list")) != {1}:
        fields.fail("attn_type_list", "a minimax_m2 with linear attention is not known", "a list of 1")
    width = fields.whole("intermediate_size", "moe_intermediate_size")
    moe = Moe(
        hidden_size(fields),
        fields.whole("num_local_experts"),
        fields.whole("num_experts_per_tok"),
        width,
        shared_intermediate=fields.whole("shared_intermediate_size", default=0, least=0),
        correction_bias=fields.flag("use_routing_bias", default=True),
    )
    model = experts_model(fields, style, [True] * num_layers(fields), moe)
    depths = num_depths(fields, "num_mtp_modules") if fields.flag("use_mtp", default=True) else 0
    per_depth = fields.whole("mtp_transformer_layers", default=1, most=MAX_DEPTHS)
    layer = [block for part in model.decoder[-1] for block in part.blocks] * per_depth
    return replace(model, mtp=mtp_depths(model.hidden, depths, style, layer))


def _qwen2_moe(fields: Fields) -> Model:
    style = replace(DENSE["qwen2"].keywords["style"], qkv_bias=("qkv_bias", True))  # type: ignore[attr-defined]
    sparse = qwen_sparse(fields, num_layers(fields))
    return experts_model(fields, style, sparse, qwen_moe(fields, shared=True) if any(sparse) else None)


def _qwen3_moe(fields: Fields) -> Model:
    sparse = qwen_sparse(fields, num_layers(fields))
    style = replace(QWEN3, head_dim=None)
    if fields.has("shared_expert_intermediate_size"):
        fields.refuse("shared_expert_intermediate_size", (0,), "shared experts")
    return experts_model(fields, style, sparse, qwen_moe(fields, shared=False) if any(sparse) else None)


def uniform_experts(fields: Fields, style: Style) -> Model:
    """Return a decoder with experts in every layer, as wide as ``intermediate_size``."""
    moe = Moe(
        hidden_size(fields),
        fields.whole("num_experts"),
        fields.whole("num_experts_per_tok"),
        fields.whole("intermediate_size"),
    )
    return experts_model(fields, style, [True] * num_layers(fields), moe)


def _gpt_oss(fields: Fields) -> Model:
    """Return gpt-oss: biases everywhere, sinks, every other layer with a window."""
    biased = ("attention_bias", True)
    style = Style(qkv_bias=biased, output_bias=biased, head_dim=64, sinks=True, windows=every_nth_full(2))
    moe = Moe(
        hidden_size(fields),
        fields.whole("num_local_experts"),
        fields.whole("num_experts_per_tok", "experts_per_token"),
        fields.whole("intermediate_size"),
        bias=True,
        router_bias=True,
    )
    return experts_model(fields, style, [True] * num_layers(fields), moe)


def _llama4(fields: Fields) -> Model:
    """Return Llama 4: every fourth layer over all, the others in chunks; experts in every nth layer."""
    count, hidden = num_layers(fields), hidden_size(fields)
    if fields.has("layer_types"):
        types = fields.named("layer_types", choices=("chunked_attention", "full_attention"), length=count)
        chunked = [kind == "chunked_attention" for kind in types]
    elif fields.has("no_rope_layers") and fields.items("no_rope_layers"):
        chunked = [value == 1 for value in fields.wholes("no_rope_layers", length=count)]
    else:
        every = fields.whole("no_rope_layer_interval", default=4)
        chunked = [(layer + 1) % every != 0 for layer in range(count)]
    style = Style(
        qkv_bias=("attention_bias", False),
        output_bias=("attention_bias", False),
        qk_norm="plain",
        qk_norm_flag=("use_qk_norm", True),
        head_dim=128,
        windows=lambda fields, count: [None] * count,
    )
    chunk = fields.whole("attention_chunk_size") if any(chunked) else None
    plain = attention_parts(fields, style, count)
    width = fields.whole("intermediate_size")
    every = fields.whole("interleave_moe_layer_step")
    if fields.has("moe_layers"):
        sparse = layers_at(fields, "moe_layers", count)
    else:
        sparse = [(layer + 1) % every == 0 for layer in range(count)]
    moe = Moe(
        hidden, fields.whole("num_local_experts"), fields.whole("num_experts_per_tok"), width, shared_intermediate=width
    )
    ffns = {True: branch("moe", style, hidden, moe)}
    if not all(sparse):
        ffns[False] = branch("mlp", style, hidden, mlp(fields, style, fields.whole("intermediate_size_mlp")))
    layers = []
    for part, is_chunked, is_sparse in zip(plain, chunked, sparse, strict=True):
        first, core = part.blocks
        if is_chunked:
            part = Part("chunked_attention", (first, replace(core, chunk=chunk)))  # type: ignore[type-var]
        layers.append([part, ffns[is_sparse]])
    return decoder(fields, style, layers)


def _glm4_moe(fields: Fields) -> Model:
    """Return GLM 4.5: QKV bias, an optional norm a head, experts after the first dense layers, MTP depths."""
    style = Style(qkv_bias=("attention_bias", False), qk_norm="head", qk_norm_flag=("use_qk_norm", False))
    model = experts_model(fields, style, after_dense(fields, num_layers(fields)), deepseek_moe(fields))
    return replace(model, mtp=nextn(fields, *_last_layer(model)))


def _last_layer(model: Model) -> tuple[Block, ...]:
    """Return the blocks of the last decoder layer: what an MTP depth runs."""
    return tuple(block for part in model.decoder[-1] for block in part.blocks)


def _deepseek_1(fields: Fields) -> Model:
    """Return DeepSeekMoE 16B: ordinary attention, shared experts."""
    return experts_model(
        fields, BIASED, after_dense(fields, num_layers(fields), default=0), deepseek_moe(fields, correction=False)
    )


def _dots1(fields: Fields) -> Model:
    style = replace(BIASED, qk_norm="head", windows=_dots_windows)
    return experts_model(fields, style, after_dense(fields, num_layers(fields)), deepseek_moe(fields))


def _dots_windows(fields: Fields, count: int) -> list[int | None]:
    if fields.has("layer_types"):
        return windows_by_type(fields, count)
    window, first = fields.optional("sliding_window"), fields.whole("max_window_layers", default=count, least=0)
    return [window if layer >= first else None for layer in range(count)]


def _granite_moe(fields: Fields) -> Model:
    """Return Granite's MoE, with an MLP beside the experts where ``shared_intermediate_size`` says so."""
    moe = Moe(
        hidden_size(fields),
        fields.whole("num_local_experts"),
        fields.whole("num_experts_per_tok"),
        fields.whole("intermediate_size"),
        shared_intermediate=(
            fields.whole("shared_intermediate_size", default=0, least=0) if fields.family == "granitemoeshared" else 0
        ),
    )
    return experts_model(fields, BIASED, [True] * num_layers(fields), moe)


def _phimoe(fields: Fields) -> Model:
    style = Style(
        norm="layer",
        qkv_bias=("attention_bias", False),
        output_bias=("attention_bias", False),
        head_bias=("lm_head_bias", False),
        windows=all_sliding,
    )
    moe = Moe(
        hidden_size(fields),
        fields.whole("num_local_experts"),
        fields.whole("num_experts_per_tok"),
        fields.whole("intermediate_size"),
    )
    return experts_model(fields, style, [True] * num_layers(fields), moe)


def _ernie_moe(fields: Fields) -> Model:
    """Return ERNIE 4.5 with experts from a first to a last layer, each so many layers."""
    count = num_layers(fields)
    style = Style(
        tied=True, qkv_bias=("use_bias", False), output_bias=("use_bias", False), mlp_bias=("use_bias", False)
    )
    first = fields.whole("moe_layer_start_index", default=1, least=0)
    last = fields.whole("moe_layer_end_index", default=count - 1, least=-1)
    last = count - 1 if last == -1 else last
    every = fields.whole("moe_layer_interval", default=1)
    told = by_type(fields, count)
    sparse = told or [(layer + 1) % every == 0 and first <= layer <= last for layer in range(count)]
    width, bias = fields.whole("moe_intermediate_size"), fields.flag("use_bias", default=False)
    moe = Moe(
        hidden_size(fields),
        fields.whole("moe_num_experts"),
        fields.whole("moe_k"),
        width,
        bias=bias,
        shared_intermediate=width * shared_experts(fields, "moe_num_shared_experts"),
        shared_bias=bias,
        correction_bias=True,
    )
    return experts_model(fields, style, sparse, moe)


def _bailing(fields: Fields) -> Model:
    """Return Ling and Ring: one matrix for Q, K and V, norms a head in version 2, shared experts, MTP depths."""
    style = Style(
        qkv_bias=("use_qkv_bias", False),
        output_bias=("use_bias", False),
        mlp_bias=("use_bias", False),
        qk_norm="head",
        qk_norm_flag=("use_qk_norm", False),
    )
    width = fields.whole("moe_intermediate_size")
    shared = fields.whole("num_shared_experts", default=0, least=0)
    moe = Moe(
        hidden_size(fields),
        fields.whole("num_experts"),
        fields.whole("num_experts_per_tok"),
        width,
        shared_intermediate=fields.whole("moe_shared_expert_intermediate_size", default=width) * shared,
        correction_bias=fields.flag("moe_router_enable_expert_bias", default=False),
    )
    model = experts_model(fields, style, after_dense(fields, num_layers(fields), default=0), moe)
    return replace(model, mtp=nextn(fields, *_last_layer(model)))


def _dbrx(fields: Fields) -> Model:
    """Return DBRX, whose attention and experts have objects of their own in the config."""
    inner, ffn = fields.below("attn_config"), fields.below("ffn_config")
    if inner is None or ffn is None:
        return fields.missing(["attn_config" if inner is None else "ffn_config"])
    renamed = {
        "hidden_size": hidden_size(fields),
        "num_attention_heads": fields.whole("n_heads"),
        "num_key_value_heads": inner.whole("kv_n_heads", default=1),
        "vocab_size": fields.whole("vocab_size"),
        "num_hidden_layers": fields.whole("n_layers"),
        "tie_word_embeddings": fields.values.get("tie_word_embeddings"),
    }
    same = Fields(renamed, fields.file, fields.family, fields.place)
    moe = Moe(hidden_size(fields), ffn.whole("moe_num_experts"), ffn.whole("moe_top_k"), ffn.whole("ffn_hidden_size"))
    return experts_model(same, Style(norm="layer_no_bias"), [True] * num_layers(same), moe)


def _arctic(fields: Fields) -> Model:
    """Return Arctic: a dense residual MLP as wide as the model beside the experts of every nth layer."""
    fields.refuse("parallel_attn_mlp_res", (True,), "no residual MLP")
    fields.refuse("use_residual", (True,), "no residual MLP")
    fields.refuse("moe_layer_frequency", (1, 2), "experts at another interval")
    style, hidden = Style(qkv_bias=("attention_bias", False), windows=all_sliding), hidden_size(fields)
    count, every = num_layers(fields), fields.whole("moe_layer_frequency", default=2)
    moe = Moe(
        hidden,
        fields.whole("num_local_experts"),
        fields.whole("num_experts_per_tok"),
        fields.whole("intermediate_size"),
    )
    residual = Parallel((mlp(fields, style, hidden), moe))
    ffns = {True: Part("moe", (Norm(hidden), Norm(hidden), residual))}
    if every > 1:
        ffns[False] = branch("mlp", style, hidden, mlp(fields, style))
    attentions = attention_parts(fields, style, count)
    return decoder(fields, style, [[part, ffns[(i + 1) % every == 0]] for i, part in enumerate(attentions)])


def _told_by_type(fields: Fields, style: Style, correction: bool, default: int, windows: Windows) -> Model:
    """Return a model with DeepSeek's experts whose layers ``mlp_layer_types`` tells or ``first_k_dense_replace``."""
    fields.refuse("attention_bias", (False,), "biases in its attention")
    sparse = after_dense(fields, num_layers(fields), default)
    return experts_model(fields, replace(style, windows=windows), sparse, deepseek_moe(fields, correction))


#: Reader by ``model_type``.
READERS: Final[Mapping[str, Reader]] = {
    "mixtral": _mixtral,
    "minimax_m2": _minimax_m2,
    "qwen2_moe": _qwen2_moe,
    "qwen3_moe": _qwen3_moe,
    "qwen3_vl_moe_text": _qwen3_moe,
    "olmoe": partial(uniform_experts, style=replace(BIASED, qk_norm="width")),
    "flex_olmo": partial(uniform_experts, style=replace(BIASED, sandwich="post", qk_norm="width")),
    "gpt_oss": _gpt_oss,
    "llama4_text": _llama4,
    "glm4_moe": _glm4_moe,
    "deepseek": _deepseek_1,
    "dots1": _dots1,
    "granitemoe": _granite_moe,
    "granitemoeshared": _granite_moe,
    "phimoe": _phimoe,
    "ernie4_5_moe": _ernie_moe,
    **dict.fromkeys(("bailing_moe", "bailing_moe_v2"), _bailing),
    "dbrx": _dbrx,
    "arctic": _arctic,
    "solar_open": partial(
        _told_by_type, style=Style(head_dim=128), correction=True, default=0, windows=windows_by_type
    ),
}
