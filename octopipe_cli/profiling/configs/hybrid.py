"""Decoders with state space blocks: Mamba alone, beside attention in turn, in parallel, or with shared attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from octopipe_cli.profiling.blocks import (
    Attention,
    Block,
    Linear,
    Mamba1,
    Mamba2,
    Mlp,
    Moe,
    Norm,
    Parallel,
    Shared,
)
from octopipe_cli.profiling.configs.assembly import Model, Part, too_many
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

PLAIN: Final = Style()


def mamba2(fields: Fields) -> Mamba2:
    """Return a Mamba-2 block under Bamba's keys; ``mamba_d_head`` auto: the expanded width over the heads."""
    hidden, heads = hidden_size(fields), fields.whole("mamba_n_heads")
    width = fields.whole("mamba_expand", default=2) * hidden
    if fields.values.get("mamba_d_head", "auto") == "auto":
        if width % heads:
            fields.fail("mamba_n_heads", "the heads don't divide the width", f"a divisor of {width}")
        head_dim = width // heads
    else:
        head_dim = fields.whole("mamba_d_head")
    return Mamba2(
        hidden,
        heads,
        head_dim,
        fields.whole("mamba_n_groups", default=1),
        fields.whole("mamba_d_state"),
        fields.whole("mamba_d_conv", default=4),
        fields.whole("mamba_chunk_size", default=256),
        bias=fields.flag("mamba_proj_bias", default=False),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
    )


def _rank(fields: Fields, key: str, hidden: int) -> int:
    """Return the rank of dt: the width over 16, rounded up, where it is ``auto`` or missing."""
    return -(-hidden // 16) if fields.values.get(key, "auto") == "auto" else fields.whole(key)


def _jamba(fields: Fields) -> Model:
    """Return Jamba: attention and experts at a period and an offset each, Mamba-1 with inner norms."""
    count, hidden = num_layers(fields), hidden_size(fields)
    scan = Mamba1(
        hidden,
        fields.whole("mamba_expand", default=2) * hidden,
        fields.whole("mamba_d_state", default=16),
        fields.whole("mamba_d_conv", default=4),
        _rank(fields, "mamba_dt_rank", hidden),
        fields.flag("mamba_proj_bias", default=False),
        fields.flag("mamba_conv_bias", default=True),
        inner_norms=True,
    )
    experts, dense = fields.whole("num_experts"), mlp(fields, PLAIN)
    feeds: list[Part] = [branch("mlp", PLAIN, hidden, dense)]
    if experts > 1:
        moe = Moe(hidden, experts, fields.whole("num_experts_per_tok"), dense.intermediate)
        feeds.append(branch("moe", PLAIN, hidden, moe))
    mixers = {
        True: branch("attention", PLAIN, hidden, attention(fields, PLAIN)),
        False: branch("mamba", PLAIN, hidden, scan),
    }
    heads_at, experts_at = _period(fields, "attn_layer", count), _period(fields, "expert_layer", count)
    layers = [
        (mixers[is_heads], feeds[-1] if is_moe else feeds[0])
        for is_heads, is_moe in zip(heads_at, experts_at, strict=True)
    ]
    return decoder(fields, PLAIN, layers)


def _period(fields: Fields, what: str, count: int) -> list[bool]:
    period, offset = fields.whole(f"{what}_period"), fields.whole(f"{what}_offset", least=0)
    if offset >= period:
        fields.fail(f"{what}_offset", "not an offset within the period", f"0 to {period - 1}")
    return [layer % period == offset for layer in range(count)]


def _bamba(fields: Fields) -> Model:
    """Return Bamba: attention at the given indices, Mamba-2 elsewhere, an MLP in every layer."""
    count, hidden = num_layers(fields), hidden_size(fields)
    style = Style(
        qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), mlp_bias=("mlp_bias", False)
    )
    if fields.has("layer_types"):
        names = ("full_attention", "attention", "linear_attention", "mamba")
        at = [kind.endswith("n") and "linear" not in kind for kind in _kinds(fields, names, count)]
    else:
        at = layers_at(fields, "attn_layer_indices", count)
    heads = branch("attention", style, hidden, attention(fields, style))
    scan = branch("mamba", style, hidden, mamba2(fields))
    ffn = branch("mlp", style, hidden, mlp(fields, style))
    return decoder(fields, style, [(heads if is_heads else scan, ffn) for is_heads in at])


def _kinds(fields: Fields, names: Sequence[str], count: int) -> list[str]:
    return fields.named("layer_types", "layers_block_type", choices=names, length=count)


def _granite_hybrid(fields: Fields) -> Model:
    """Return Granite 4: attention or Mamba-2 by ``layer_types``, then experts with a shared MLP, or that alone."""
    count, hidden = num_layers(fields), hidden_size(fields)
    style = Style(qkv_bias=("attention_bias", False), output_bias=("attention_bias", False))
    kinds = _kinds(fields, ("attention", "mamba", "full_attention", "linear_attention"), count)
    shared = fields.whole("shared_intermediate_size")
    if experts := fields.whole("num_local_experts", least=0):
        moe = Moe(
            hidden,
            experts,
            fields.whole("num_experts_per_tok"),
            fields.whole("intermediate_size"),
            shared_intermediate=shared,
        )
        ffn = branch("moe", style, hidden, moe)
    else:
        ffn = branch("mlp", style, hidden, Mlp(hidden, shared))
    mixers: dict[bool, Part] = {}
    if any(kind in ("attention", "full_attention") for kind in kinds):
        mixers[True] = branch("attention", style, hidden, attention(fields, style))
    if any(kind in ("mamba", "linear_attention") for kind in kinds):
        mixers[False] = branch("mamba", style, hidden, mamba2(fields))
    return decoder(fields, style, [(mixers[kind in ("attention", "full_attention")], ffn) for kind in kinds])


def _falcon_h1(fields: Fields) -> Model:
    """Return Falcon-H1: attention and Mamba-2 side by side in every layer, then an MLP."""
    hidden, count = hidden_size(fields), num_layers(fields)
    style = Style(
        qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), mlp_bias=("mlp_bias", False)
    )
    inner, heads = fields.optional("mamba_d_ssm"), fields.whole("mamba_n_heads")
    head_dim = fields.values.get("mamba_d_head", "auto")
    inner = inner or fields.whole("mamba_expand") * hidden
    if inner % heads or (head_dim != "auto" and inner != heads * fields.whole("mamba_d_head")):
        fields.fail("mamba_n_heads", "heads and head width don't give the inner width", f"{inner} in all")
    scan = Mamba2(
        hidden,
        heads,
        inner // heads,
        fields.whole("mamba_n_groups", default=1),
        fields.whole("mamba_d_state"),
        fields.whole("mamba_d_conv", default=4),
        fields.whole("mamba_chunk_size", default=256),
        bias=fields.flag("mamba_proj_bias", default=False),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        gated_norm=fields.flag("mamba_rms_norm", default=False),
        output_bias=fields.flag("projectors_bias", default=False),
    )
    mixer = branch("attention_mamba", style, hidden, Parallel((attention(fields, style), scan)))
    return decoder(fields, style, [(mixer, branch("mlp", style, hidden, mlp(fields, style)))] * count)


#: Nemotron-H's letters and names of a layer.
NEMOTRON: Final[Mapping[str, str]] = {
    "M": "mamba",
    "*": "attention",
    "-": "mlp",
    "E": "moe",
    "mamba": "mamba",
    "attention": "attention",
    "mlp": "mlp",
    "moe": "moe",
    "linear_attention": "mamba",
    "full_attention": "attention",
}


def _nemotron_kinds(fields: Fields, pattern: str, *lists: str) -> list[str]:
    """Return the kinds of layers a pattern's letters or a list tells."""
    if fields.has(*lists):
        return [NEMOTRON[kind] for kind in fields.named(*lists, choices=[name for name in NEMOTRON if len(name) > 1])]
    letters = fields.text(pattern)
    for position, letter in enumerate(letters):
        if len(letter) != 1 or letter not in NEMOTRON:
            fields.fail(pattern, f"unknown layer {letter!r} at position {position}", "letters M, *, - and E")
    return [NEMOTRON[letter] for letter in letters]


def _nemotron_mixers(fields: Fields, kinds: set[str]) -> dict[str, Block]:
    """Return the blocks of the kinds a Nemotron-H has."""
    hidden, bias = hidden_size(fields), fields.flag("mlp_bias", default=False)
    style = Style(qkv_bias=("attention_bias", False), output_bias=("attention_bias", False), head_dim=128)
    mixers: dict[str, Block] = {}
    if "attention" in kinds:
        mixers["attention"] = attention(fields, style)
    if "mamba" in kinds:
        mixers["mamba"] = Mamba2(
            hidden,
            fields.whole("mamba_num_heads"),
            fields.whole("mamba_head_dim"),
            fields.whole("n_groups", "mamba_n_groups", "mamba_num_groups"),
            fields.whole("ssm_state_size", "mamba_state_dim"),
            fields.whole("conv_kernel", "mamba_d_conv", default=4),
            fields.whole("chunk_size", "mamba_chunk_size", default=128),
            bias=fields.flag("use_bias", default=False),
            conv_bias=fields.flag("use_conv_bias", "mamba_conv_bias", default=True),
        )
    if "mlp" in kinds:
        mixers["mlp"] = Mlp(hidden, fields.whole("intermediate_size"), gated=False, bias=bias)
    if "moe" in kinds:
        mixers["moe"] = Moe(
            hidden,
            fields.whole("n_routed_experts"),
            fields.whole("num_experts_per_tok"),
            fields.whole("moe_intermediate_size"),
            gated=False,
            bias=bias,
            shared_intermediate=fields.whole("moe_shared_expert_intermediate_size", least=0),
            shared_bias=bias,
            latent=fields.optional("moe_latent_size"),
            correction_bias=True,
        )
    return mixers


def _nemotron_h(fields: Fields) -> Model:
    """Return Nemotron-H and Nemotron 3: a layer is one block (Mamba-2, attention, MLP or experts) with its norm."""
    hidden = hidden_size(fields)
    kinds = _nemotron_kinds(fields, "hybrid_override_pattern", "layers_block_type", "layer_types")
    counted = fields.optional("num_hidden_layers")
    if not kinds or (counted is not None and counted != len(kinds)) or too_many(len(kinds)):
        fields.fail("num_hidden_layers", f"the pattern has {len(kinds)} layers", "as many as the pattern, 1 to 4995")
    depths = num_depths(fields, "num_nextn_predict_layers")
    mtp_kinds: list[str] = []
    if depths:
        mtp_kinds = _nemotron_kinds(fields, "mtp_hybrid_override_pattern", "mtp_layers_block_type")
    mixers = _nemotron_mixers(fields, {*kinds, *mtp_kinds})
    one = Norm(hidden)
    inner = [block for kind in mtp_kinds for block in (one, mixers[kind])]
    mtp: list[tuple[Block, ...]] = [(one, one, Linear(2 * hidden, hidden), *inner, one)] * depths
    return decoder(fields, PLAIN, [[Part(kind, (one, mixers[kind]))] for kind in kinds], mtp=mtp)


def _zamba2(fields: Fields) -> Model:
    """Return Zamba2: Mamba-2 layers, some with a shared transformer block before them that reads the embeddings too.

    The shared blocks take turns; each use has low-rank adapters and a projection of its own.
    """
    count, hidden = num_layers(fields), hidden_size(fields)
    bias, groups = fields.flag("add_bias_linear", default=False), fields.whole("num_mem_blocks", default=1)
    heads = fields.whole("num_attention_heads")
    rank, width = fields.whole("adapter_rank", default=128), fields.whole("intermediate_size", "ffn_hidden_size")
    core = Attention(
        hidden,
        heads,
        fields.whole("num_key_value_heads", default=heads),
        fields.optional("attention_head_dim") or 2 * hidden // heads,
        inputs=2 * hidden,
    )
    ffn = Mlp(hidden, width, bias=bias)
    if fields.has("layers_block_type", "layer_types"):
        hybrid = [kind == "hybrid" for kind in _kinds(fields, ("mamba", "hybrid", "linear_attention"), count)]
    else:
        hybrid = layers_at(fields, "hybrid_layer_ids", count)
    shared = (Norm(2 * hidden), core, Norm(hidden), ffn)
    own: tuple[Block, ...] = (Linear(hidden, rank), Linear(rank, 2 * width), Linear(hidden, hidden))
    if fields.flag("use_shared_attention_adapter", default=False):
        inner = core.heads * core.head_dim
        own = (*[Linear(2 * hidden, rank), Linear(rank, inner)] * 3, *own)
    scan = branch("mamba", PLAIN, hidden, _zamba_mamba(fields, bias))
    layers: list[list[Part]] = []
    uses = 0
    for is_hybrid in hybrid:
        parts = [scan]
        if is_hybrid:
            block = Shared(shared, uses % groups, owner=uses < groups)
            parts = [Part("shared_attention_mlp", (block, *own), extra=1), scan]
            uses += 1
        layers.append(parts)
    return decoder(fields, replace(PLAIN, tied=True), layers, carried=2)


def _zamba_mamba(fields: Fields, bias: bool) -> Mamba2:
    hidden, heads = hidden_size(fields), fields.whole("n_mamba_heads")
    width = fields.whole("mamba_expand", default=2) * hidden
    head_dim = fields.optional("mamba_headdim") or width // heads
    if heads * head_dim != width:
        fields.fail("n_mamba_heads", "heads and head width don't give the inner width", f"{width} in all")
    return Mamba2(
        hidden,
        heads,
        head_dim,
        fields.whole("mamba_ngroups", default=1),
        fields.whole("mamba_d_state"),
        fields.whole("mamba_d_conv", default=4),
        fields.whole("chunk_size", default=256),
        bias=bias,
        conv_bias=fields.flag("use_conv_bias", default=True),
    )


def _mamba(fields: Fields) -> Model:
    """Return Mamba and FalconMamba: one Mamba-1 block a layer, embedding and head tied by default."""
    hidden = hidden_size(fields)
    inner = fields.optional("intermediate_size") or fields.whole("expand", default=2) * hidden
    block = Mamba1(
        hidden,
        inner,
        fields.whole("state_size"),
        fields.whole("conv_kernel", default=4),
        _rank(fields, "time_step_rank", hidden),
        fields.flag("use_bias", default=False),
        fields.flag("use_conv_bias", default=True),
    )
    return decoder(fields, Style(tied=True), [[branch("mamba", PLAIN, hidden, block)]] * num_layers(fields))


def _mamba2_alone(fields: Fields) -> Model:
    """Return Mamba-2: one block a layer."""
    hidden, heads = hidden_size(fields), fields.whole("num_heads")
    head_dim = fields.whole("head_dim")
    if heads * head_dim != fields.whole("expand", default=2) * hidden:
        fields.fail("num_heads", "heads and head width don't give the expanded width", "expand x hidden size in all")
    block = Mamba2(
        hidden,
        heads,
        head_dim,
        fields.whole("n_groups"),
        fields.whole("state_size"),
        fields.whole("conv_kernel", default=4),
        fields.whole("chunk_size", default=256),
        bias=fields.flag("use_bias", default=False),
        conv_bias=fields.flag("use_conv_bias", default=True),
    )
    return decoder(fields, PLAIN, [[branch("mamba", PLAIN, hidden, block)]] * num_layers(fields))


def _mamba_ssm(fields: Fields) -> Model:
    """Return Mamba-1 or 2 in the config of the authors' own code (state-spaces/mamba), which has no ``model_type``."""
    hidden, count = fields.whole("d_model"), num_layers(fields)
    inner = fields.below("ssm_cfg") or Fields({}, fields.file, fields.family, fields.place)
    if fields.has("attn_layer_idx") and fields.wholes("attn_layer_idx"):
        fields.fail("attn_layer_idx", "attention between its layers is not known", "an empty list")
    if fields.whole("d_intermediate", default=0, least=0):
        fields.fail("d_intermediate", "an MLP between its layers is not known", "0")
    multiple = fields.whole("pad_vocab_size_multiple", default=8)
    width = inner.whole("expand", default=2) * hidden
    block: Block
    if inner.text("layer", default="Mamba1", choices=("Mamba1", "Mamba2")) == "Mamba1":
        rank = _rank(inner, "dt_rank", hidden)
        block = Mamba1(hidden, width, inner.whole("d_state", default=16), inner.whole("d_conv", default=4), rank)
    else:
        head = inner.whole("headdim", default=64)
        if width % head:
            inner.fail("headdim", "the heads don't divide the width", f"a divisor of {width}")
        groups, state = inner.whole("ngroups", default=1), inner.whole("d_state", default=128)
        chunk = inner.whole("chunk_size", default=256)
        block = Mamba2(hidden, width // head, head, groups, state, inner.whole("d_conv", default=4), chunk)
    renamed = {
        "hidden_size": hidden,
        "vocab_size": multiple * -(-fields.whole("vocab_size") // multiple),
        "tie_word_embeddings": fields.flag("tie_embeddings", default=True),
    }
    same = Fields(renamed, fields.file, fields.family, fields.place)
    style = Style(norm="rms" if fields.flag("rms_norm", default=True) else "layer")
    return decoder(same, style, [[branch("mamba", style, hidden, block)]] * count)


#: Reader by ``model_type``.
READERS: Final[Mapping[str, Callable[[Fields], Model]]] = {
    "jamba": _jamba,
    "bamba": _bamba,
    "granitemoehybrid": _granite_hybrid,
    "falcon_h1": _falcon_h1,
    "nemotron_h": _nemotron_h,
    "zamba2": _zamba2,
    **dict.fromkeys(("mamba", "falcon_mamba"), _mamba),
    "mamba2": _mamba2_alone,
    "mamba_ssm": _mamba_ssm,
}
