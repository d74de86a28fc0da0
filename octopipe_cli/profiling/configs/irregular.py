"""Decoders whose layers differ one by one, or whose local and global attention have widths of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from octopipe_cli.profiling.blocks import Attention, Block, Embedding, Gate, Linear, Mlp, Moe, Norm
from octopipe_cli.profiling.compressed import FactorizedAttention
from octopipe_cli.profiling.configs.assembly import Model, Part
from octopipe_cli.profiling.configs.common import (
    LAYER_TYPES,
    Style,
    attention,
    branch,
    decoder,
    dense,
    hidden_size,
    mlp,
    num_depths,
    num_layers,
)
from octopipe_cli.profiling.configs.dense import QWEN2
from octopipe_cli.profiling.configs.fields import Fields
from octopipe_cli.profiling.configs.moe import by_type, deepseek_moe, mtp_depths

PLAIN: Final = Style()


def _mimo(fields: Fields) -> Model:
    """Return MiMo 7B: Qwen 2's layer, MTP depths of the same."""
    model = dense(fields, replace(QWEN2, qkv_bias=("attention_bias", True)))
    depths = num_depths(fields, "num_nextn_predict_layers")
    return replace(model, mtp=mtp_depths(model.hidden, depths, PLAIN, _blocks(model)))


def _blocks(model: Model) -> list[Block]:
    return [block for part in model.decoder[-1] for block in part.blocks]


def _mimo_v2(fields: Fields) -> Model:
    """Return MiMo V2: sliding layers with heads of their own and sinks, experts by ``moe_layer_freq``, MTP depths.

    Without ``swa_`` keys sliding layers have twice the heads of keys and values, as its class says. An MTP depth has
    sliding attention and a dense MLP (vLLM's mimo_v2_mtp).
    """
    count, hidden = num_layers(fields), hidden_size(fields)
    if fields.has("hybrid_layer_pattern"):
        sliding = [value == 1 for value in fields.wholes("hybrid_layer_pattern", length=count)]
    else:
        kinds = fields.named("layer_types", choices=LAYER_TYPES, length=count)
        sliding = [kind == "sliding_attention" for kind in kinds]
    bias = fields.flag("attention_bias", default=False)
    cores: dict[bool, Attention] = {}
    for is_sliding, prefix, name in ((False, "", "full"), (True, "swa_", "swa")):
        groups = fields.whole("num_key_value_heads")
        cores[is_sliding] = Attention(
            hidden,
            fields.whole(f"{prefix}num_attention_heads", "num_attention_heads"),
            fields.whole(f"{prefix}num_key_value_heads", default=groups * (1 + is_sliding)),
            fields.whole(f"{prefix}head_dim", "head_dim"),
            fields.whole(f"{prefix}v_head_dim", "v_head_dim"),
            window=fields.whole("sliding_window", "sliding_window_size") if is_sliding else None,
            qkv_bias=bias,
            sinks=fields.flag(f"add_{name}_attention_sink_bias", default=is_sliding),
        )
    sparse = by_type(fields, count)
    if sparse is None:
        sparse = [value != 0 for value in fields.wholes("moe_layer_freq", length=count)]
    mixers = {
        False: branch("attention", PLAIN, hidden, cores[False]),
        True: branch("sliding_attention", PLAIN, hidden, cores[True]),
    }
    feeds = {
        True: branch("moe", PLAIN, hidden, deepseek_moe(fields, tells_shared=False)),
        False: branch("mlp", PLAIN, hidden, mlp(fields, PLAIN)),
    }
    layers = [(mixers[a], feeds[b]) for a, b in zip(sliding, sparse, strict=True)]
    depths = num_depths(fields, "num_nextn_predict_layers")
    mtp = mtp_depths(hidden, depths, PLAIN, (*mixers[True].blocks, *feeds[False].blocks))
    return decoder(fields, PLAIN, layers, mtp=mtp)


def _step(fields: Fields) -> Model:
    """Return Step 3.5 and 3.7 Flash: gates and norms a head, more heads in sliding layers, experts, MTP depths."""
    count, hidden = num_layers(fields), hidden_size(fields)
    depths = num_depths(fields, "num_nextn_predict_layers", "num_mtp_layers")
    kinds = fields.named("layer_types", choices=LAYER_TYPES)
    if len(kinds) not in (count, count + depths):
        fields.fail("layer_types", "the list has another length than the model has layers", f"{count} layers")
    kinds = [*kinds, *[kinds[-1]] * (count + depths - len(kinds))]
    gate: Gate = "head" if fields.flag("use_head_wise_attn_gate", default=True) else "none"
    heads = fields.whole("num_attention_heads")
    full = Attention(
        hidden,
        heads,
        fields.whole("num_attention_groups", "num_key_value_heads"),
        fields.whole("head_dim"),
        qkv_bias=fields.flag("attention_bias", default=False),
        output_bias=fields.flag("attention_bias", default=False),
        gate=gate,
    )
    full = replace(full, qk_norm=True, qk_norm_parameters=2 * full.head_dim)
    cores = {"full_attention": branch("attention", PLAIN, hidden, full)}
    if "sliding_attention" in kinds:
        other = fields.below("attention_other_setting") or fields
        local = replace(
            full,
            heads=other.whole("num_sliding_attention_heads", "num_attention_heads", default=heads),
            kv_heads=other.whole("num_attention_groups", "num_key_value_heads", default=full.kv_heads),
            head_dim=other.whole("head_dim", default=full.head_dim),
            window=fields.whole("sliding_window"),
        )
        cores["sliding_attention"] = branch("sliding_attention", PLAIN, hidden, local)
    sparse = _step_sparse(fields, count, depths)
    moe = Moe(
        hidden,
        fields.whole("moe_num_experts", "n_routed_experts", "num_experts"),
        fields.whole("moe_top_k", "num_experts_per_tok"),
        fields.whole("moe_intermediate_size"),
        shared_intermediate=fields.whole("share_expert_dim", "share_expert_dims", least=0),
        correction_bias=fields.flag("use_moe_router_bias", default=True),
    )
    feeds = {True: branch("moe", PLAIN, hidden, moe), False: branch("mlp", PLAIN, hidden, mlp(fields, PLAIN))}
    layers = [(cores[kind], feeds[has]) for kind, has in zip(kinds, sparse, strict=True)]
    mtp = [
        mtp_depths(hidden, 1, PLAIN, [block for part in parts for block in part.blocks])[0] for parts in layers[count:]
    ]
    return decoder(fields, PLAIN, layers[:count], mtp=mtp)


def _step_3(fields: Fields) -> Model:
    """Return Step 3: factorised attention, experts with a shared one in the layers of ``moe_layers_enum``."""
    count, hidden = num_layers(fields), hidden_size(fields)
    fields.refuse("num_attention_groups", (1,), "more than one head of keys")
    core = FactorizedAttention(
        hidden, fields.whole("num_attention_heads"), fields.whole("head_dim"), fields.whole("share_q_dim")
    )
    moe = Moe(
        hidden,
        fields.whole("moe_num_experts"),
        fields.whole("moe_top_k"),
        fields.whole("moe_intermediate_size"),
        shared_intermediate=fields.whole("share_expert_dim", "share_expert_dims", least=0),
    )
    mixer = branch("attention", PLAIN, hidden, core)
    feeds = {True: branch("moe", PLAIN, hidden, moe), False: branch("mlp", PLAIN, hidden, mlp(fields, PLAIN))}
    return decoder(fields, PLAIN, [(mixer, feeds[sparse]) for sparse in _step_sparse(fields, count, 0)])


def _step_sparse(fields: Fields, count: int, depths: int) -> list[bool]:
    """Return which layers, MTP depths behind them, have experts: a list of numbers, also as text with commas."""
    told = fields.values.get("moe_layers_enum")
    if told is None:
        sparse = by_type(fields, count)
        if sparse is None:
            fields.missing(["moe_layers_enum", "mlp_layer_types"])
        return [*sparse, *[False] * depths]
    if isinstance(told, str):
        items = [item.strip() for item in told.split(",") if item.strip()]
        if not all(item.isdecimal() for item in items):
            fields.fail("moe_layers_enum", "not a list of layers", "whole numbers with commas")
        layers = [int(item) for item in items]
    else:
        layers = fields.wholes("moe_layers_enum")
    return [layer in layers for layer in range(count + depths)]


def _gemma4(fields: Fields) -> Model:
    """Return Gemma 4: local and global attention of different widths, experts beside the MLP, inputs for each layer.

    Where every layer has inputs of its own (E2B, E4B) they travel with the hidden states, and the last layers use the
    keys and values of earlier ones.
    """
    count, hidden = num_layers(fields), hidden_size(fields)
    bias = fields.flag("attention_bias", default=False)
    style = Style(
        tied=True, sandwich="both", qkv_bias=bias, output_bias=bias, qk_norm="head", head_dim=256, soft_cap=False
    )
    local = attention(fields, style)
    same = fields.flag("attention_k_eq_v", default=False)
    width = fields.whole("global_head_dim", default=512)
    groups = fields.whole("num_global_key_value_heads", default=local.kv_heads) if same else local.kv_heads
    wide = replace(local, head_dim=width, kv_heads=groups, value_is_key=same, qk_norm_parameters=2 * width)
    if fields.has("layer_types"):
        kinds = fields.named("layer_types", choices=LAYER_TYPES, length=count)
    else:
        kinds = [LAYER_TYPES[(layer + 1) % 6 != 0] for layer in range(count)]
    kinds = [*kinds[:-1], "full_attention"]  # its class makes the last one so
    if "sliding_attention" in kinds:
        local = replace(local, window=fields.whole("sliding_window"))
    reusing = fields.whole("num_kv_shared_layers", default=0, least=0)
    inputs = fields.whole("hidden_size_per_layer_input", default=256, least=0)
    dense_width = fields.whole("intermediate_size")
    doubles = fields.flag("use_double_wide_mlp", default=False)
    layers = []
    for layer, kind in enumerate(kinds):
        shares = layer >= count - reusing
        core = wide if kind == "full_attention" else local
        if shares:
            core = replace(core, shares_kv=True, qk_norm_parameters=core.head_dim)
        name = "attention" if kind == "full_attention" else "sliding_attention"
        ffn = Mlp(hidden, dense_width * (2 if shares and doubles else 1))
        layers.append([branch(name, style, hidden, core), _gemma4_ffn(fields, style, ffn, inputs)])
    model = decoder(fields, style, layers, carried=1 if not inputs else 1 - (-count * inputs // hidden))
    if not inputs:
        return model
    own = (
        Embedding(fields.whole("vocab_size_per_layer_input"), count * inputs),
        Linear(hidden, count * inputs),
        Norm(inputs),
    )
    return replace(model, embedding=(*model.embedding, *own))


def _gemma4_ffn(fields: Fields, style: Style, ffn: Mlp, inputs: int) -> Part:
    """Return the MLP of a layer, with experts beside it and the layer's own input behind it where there are such."""
    hidden, one = ffn.hidden, Norm(ffn.hidden)
    blocks: tuple[Block, ...] = (one, ffn)
    name = "mlp"
    if fields.flag("enable_moe_block", default=False):
        experts = fields.whole("num_experts")
        moe = Moe(
            hidden,
            experts,
            fields.whole("top_k_experts", "num_experts_per_tok"),
            fields.whole("moe_intermediate_size", "expert_intermediate_size"),
            router_scales=hidden + experts,
        )
        name, blocks = "mlp_moe", (*blocks, one, one, moe, one)
    blocks = (*blocks, one)
    if inputs:
        blocks = (*blocks, Linear(hidden, inputs), Linear(inputs, hidden), one)
    return Part(name, blocks)


def _nemotron_nas(fields: Fields) -> Model:
    """Return models cut by neural architecture search from Llama: each layer's attention and MLP has its own size.

    ``block_configs`` tells them: left out (``no_op``), one matrix instead (``replace_with_linear``), or so many heads a
    group, and an MLP so many times two thirds of the width, rounded up to 256.
    """
    count, hidden = num_layers(fields), hidden_size(fields)
    style = Style(
        qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), mlp_bias=("mlp_bias", False)
    )
    if fields.has("num_key_value_heads_per_layer") and not fields.has("block_configs"):
        ffn = branch("mlp", style, hidden, mlp(fields, style))
        base = attention(Fields({**fields.values, "num_key_value_heads": None}, fields.file, fields.family), style)
        groups = fields.wholes("num_key_value_heads_per_layer", length=count, least=1)
        return decoder(
            fields, style, [[branch("attention", style, hidden, replace(base, kv_heads=g)), ffn] for g in groups]
        )
    fields.items("block_configs", length=count)
    base = attention(Fields({**fields.values, "num_key_value_heads": None}, fields.file, fields.family), style)
    layers = []
    for index in range(count):
        block = _item(fields, "block_configs", index)
        layers.append([*_nas_attention(block, style, base), *_nas_ffn(block, style, fields)])
    return decoder(fields, style, layers)


def _item(fields: Fields, key: str, index: int) -> Fields:
    """Return the object at an index of a list."""
    value = fields.values[key][index]
    if not isinstance(value, Mapping):
        fields.fail(key, f"entry {index} is not an object", "a list of objects")
    return Fields(value, fields.file, fields.family, (*fields.place, key, index))


def _nas_attention(block: Fields, style: Style, base: Attention) -> list[Part]:
    inner = block.below("attention")
    if inner is None:
        block.missing(["attention"])
    for key in ("mamba", "llama4", "moe", "num_sink_tokens", "sparsify"):
        inner.refuse(key, (False, 0), key)
    if inner.flag("no_op", default=False):
        return []
    if inner.flag("replace_with_linear", default=False):
        return [branch("linear", style, base.hidden, Linear(base.hidden, base.hidden))]
    group = inner.whole("n_heads_in_group")
    if base.heads % group:
        inner.fail("n_heads_in_group", "not a size of groups of heads", f"a divisor of {base.heads}")
    window = inner.optional("window_length")
    core = replace(base, kv_heads=base.heads // group, window=window)
    return [branch("attention" if window is None else "sliding_attention", style, base.hidden, core)]


def _nas_ffn(block: Fields, style: Style, fields: Fields) -> list[Part]:
    inner, hidden = block.below("ffn"), hidden_size(fields)
    if inner is None:
        block.missing(["ffn"])
    for key in ("moe", "sparsify"):
        inner.refuse(key, (False, 0), key)
    if inner.flag("no_op", default=False):
        return []
    if inner.flag("replace_with_linear", default=False):
        return [branch("linear", style, hidden, Linear(hidden, hidden))]
    width = inner.optional("intermediate_size")
    if width is None:
        width = 256 * -(-int(2 * inner.number("ffn_mult") * hidden / 3) // 256)
    return [branch("mlp", style, hidden, mlp(fields, style, width))]


def _openelm(fields: Fields) -> Model:
    """Return OpenELM: heads and MLP widths grow from layer to layer."""
    hidden, count, head = hidden_size(fields), num_layers(fields), fields.whole("head_dim")
    heads = fields.wholes("num_query_heads", length=count, least=1)
    groups = fields.wholes("num_kv_heads", length=count, least=1)
    multipliers, divisor = fields.items("ffn_multipliers", length=count), fields.whole("ffn_dim_divisor", default=256)
    gated = fields.flag("ffn_with_glu", default=True)
    normed = fields.flag("normalize_qk_projections", default=True)
    layers = []
    for index in range(count):
        core = Attention(
            hidden,
            heads[index],
            groups[index],
            head,
            qk_norm=normed,
            qk_norm_parameters=2 * head * normed,
        )
        times = multipliers[index]
        if isinstance(times, bool) or not isinstance(times, (int, float)) or not 0 < times < 1000:
            fields.fail("ffn_multipliers", "not a list of numbers in range", "numbers over 0")
        ffn = Mlp(hidden, _divisible(times * hidden, divisor), gated)
        layers.append([branch("attention", PLAIN, hidden, core), branch("mlp", PLAIN, hidden, ffn)])
    return replace(decoder(fields, PLAIN, layers), tied=fields.flag("share_input_output_layers", default=True))


def _divisible(value: float, divisor: int) -> int:
    """Return the nearest multiple of a divisor, the next one where that is less than nine tenths of the value."""
    rounded = max(divisor, int(value + divisor / 2) // divisor * divisor)
    return rounded + divisor if rounded < 0.9 * value else rounded


#: Reader by ``model_type``.
READERS: Final[Mapping[str, Callable[[Fields], Model]]] = {
    "mimo": _mimo,
    "mimo_v2_flash": _mimo_v2,
    "step3p5": _step,
    "step3_text": _step_3,
    "gemma4_text": _gemma4,
    "nemotron-nas": _nemotron_nas,
    "openelm": _openelm,
}
