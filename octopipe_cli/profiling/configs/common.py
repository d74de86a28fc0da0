"""What most families share: norm, attention, feed-forward, layer lists, ties; a style says how a family differs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from octopipe_cli.profiling.blocks import Attention, Block, Embedding, Mlp, Norm
from octopipe_cli.profiling.configs.assembly import Model, Part, too_many
from octopipe_cli.profiling.configs.fields import Fields

#: A flag that is always so, or the key that says it with what is meant where the key is missing.
Flag = bool | tuple[str, bool]
NormKind = Literal["rms", "layer", "layer_no_bias", "plain"]
QkNorm = Literal["none", "head", "width", "heads", "plain"]
#: For every layer the window it has, None for full attention.
Windows = Callable[[Fields, int], "list[int | None]"]

#: More MTP depths, layers in one, or residual streams than any model has.
MAX_DEPTHS: Final = 64

LAYER_TYPES: Final = ("full_attention", "sliding_attention")

#: Families whose class has a number of its own for ``num_key_value_heads``: missing, it can't mean as many as heads.
GROUPED: Final = frozenset(
    (
        *("bamba", "cwm", "dots1", "ernie4_5", "ernie4_5_moe", "exaone", "exaone4", "exaone_moe", "falcon_h1", "gemma"),
        *("gemma2", "gemma3_text", "gemma3n_text", "gemma4_text", "glm", "glm4", "glm4_moe", "gpt_oss", "helium"),
        *("hy_v3", "internlm3", "jamba", "lfm2", "lfm2_moe", "llama4_text", "minimax", "minimax_m2", "ministral"),
        *("ministral3", "mistral", "mixtral", "nemotron_h", "phimoe", "qwen2", "qwen2_5_vl_text", "qwen2_moe"),
        *("qwen2_vl_text", "qwen3", "qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "qwen3_next"),
        *("qwen3_vl_moe_text", "qwen3_vl_text", "seed_oss", "smollm3", "solar_open", "stablelm", "starcoder2"),
        "vaultgemma",
    )
)


def flag(fields: Fields, value: Flag) -> bool:
    """Return a flag's value for a config."""
    return value if isinstance(value, bool) else fields.flag(value[0], default=value[1])


def norm(kind: NormKind, width: int) -> Norm:
    """Return a norm of a kind: RMS, layer norm with or without bias, or one without weights."""
    return Norm(width, bias=kind == "layer", scale=kind != "plain")


@dataclass(frozen=True)
class Style:
    """How a family of decoders differs from Llama.

    Parameters
    ----------
    tied
        Whether embedding and head share weights where the config doesn't say (the class default).
    norm
        Of layers and at the end.
    sandwich
        Norms behind attention and MLP too (``both``), or only there (``post``), or before alone (``pre``).
    qkv_bias, output_bias, mlp_bias, head_bias
        Biases.
    qk_norm, qk_norm_flag
        Norm of queries and keys: over a head's width (``head``), one such for each head (``heads``), over the whole
        width, or one without weights (``plain``); and what says that there is one.
    head_dim
        Where the config doesn't say: None, the hidden width over the heads.
    gated
        Three matrices in the MLP, not two.
    windows
        Which layers see how far; by default what `windows_by_type` reads.
    sinks
        A learned logit a head in the softmax.
    soft_cap
        Whether logits are soft-capped where ``final_logit_softcapping`` is missing (null: not); None: never.
    """

    tied: bool = False
    norm: NormKind = "rms"
    sandwich: Literal["pre", "post", "both"] = "pre"
    qkv_bias: Flag = False
    output_bias: Flag = False
    mlp_bias: Flag = False
    head_bias: Flag = False
    qk_norm: QkNorm = "none"
    qk_norm_flag: Flag = True
    head_dim: int | None = None
    gated: bool = True
    windows: Windows | None = None
    sinks: bool = False
    soft_cap: bool | None = None


def hidden_size(fields: Fields) -> int:
    """Return the model's width."""
    return fields.whole("hidden_size", "n_embd", "d_model", "model_dim")


def num_layers(fields: Fields, *first: str) -> int:
    """Return how many decoder layers the config counts, under the usual keys or one that comes `first`."""
    keys = (*first, "num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_transformer_layers")
    count = fields.whole(*keys)
    if too_many(count):
        key = next(key for key in keys if fields.has(key))
        fields.fail(key, "too many layers", "at most 4995")
    return count


def num_depths(fields: Fields, *keys: str) -> int:
    """Return how many MTP depths the config counts, 0 where no key is there."""
    return fields.whole(*keys, default=0, least=0, most=MAX_DEPTHS)


def layers_at(fields: Fields, key: str, count: int) -> list[bool]:
    """Return which layers a list of indices names; one behind the last layer is an error."""
    indices = fields.wholes(key)
    if any(index >= count for index in indices):
        fields.fail(key, "an index behind the last layer", f"0 to {count - 1}")
    return [layer in indices for layer in range(count)]


def is_tied(fields: Fields, default: bool) -> bool:
    """Return whether embedding and head share weights: the text config's key, the outer one's, the class default.

    Ministral 3 comes tied (3B) and untied (8B, 14B), so there the key is needed.
    """
    for place in (fields, fields.outer):
        if place is not None and place.has("tie_word_embeddings"):
            return place.flag("tie_word_embeddings")
    if fields.outer is not None and fields.family == "ministral3":
        fields.missing(["tie_word_embeddings"])
    return default


def windows_by_type(fields: Fields, count: int) -> list[int | None]:
    """Return every layer's window as ``layer_types`` tells it, all full where the key is missing."""
    if not fields.has("layer_types"):
        return [None] * count
    types = fields.named("layer_types", choices=LAYER_TYPES, length=count)
    if "sliding_attention" not in types:
        return [None] * count
    window = fields.whole("sliding_window")
    return [window if kind == "sliding_attention" else None for kind in types]


def all_sliding(fields: Fields, count: int) -> list[int | None]:
    """Return every layer's window where ``sliding_window`` alone says that all layers have it."""
    if fields.has("layer_types"):
        return windows_by_type(fields, count)
    return [fields.optional("sliding_window")] * count


def every_nth_full(pattern: int, *keys: str) -> Windows:
    """Return the rule that every nth layer sees everything and the others a window, where no ``layer_types`` say."""

    def windows(fields: Fields, count: int) -> list[int | None]:
        if fields.has("layer_types"):
            return windows_by_type(fields, count)
        every = fields.whole(*keys, "sliding_window_pattern", "_sliding_window_pattern", default=pattern)
        window = fields.whole("sliding_window")
        return [window if (layer + 1) % every else None for layer in range(count)]

    return windows


def attention(fields: Fields, style: Style, window: int | None = None) -> Attention:
    """Return the attention of a layer, its dimensions under the usual keys."""
    hidden = hidden_size(fields)
    heads = fields.whole("num_attention_heads", "n_head", "n_heads")
    kv_heads = fields.whole("num_key_value_heads", default=None if fields.family in GROUPED else heads)
    width = fields.optional("head_dim", "attention_head_dim", "kv_channels") or style.head_dim
    if width is None:
        if hidden % heads:
            fields.fail("num_attention_heads", "the heads don't divide the hidden size", f"a divisor of {hidden}")
        width = hidden // heads
    if heads % kv_heads:
        fields.fail("num_key_value_heads", "not a number of groups of heads", f"a divisor of {heads}")
    has_norm = style.qk_norm != "none" and flag(fields, style.qk_norm_flag)
    weights = {"none": 0, "head": 2 * width, "plain": 0}.get(style.qk_norm, (heads + kv_heads) * width)
    return Attention(
        hidden,
        heads,
        kv_heads,
        width,
        window=window,
        qkv_bias=flag(fields, style.qkv_bias),
        output_bias=flag(fields, style.output_bias),
        qk_norm=has_norm,
        qk_norm_parameters=weights if has_norm else 0,
        sinks=style.sinks,
    )


def mlp(fields: Fields, style: Style, intermediate: int | None = None) -> Mlp:
    """Return the feed-forward block of a dense layer."""
    if intermediate is None:
        intermediate = fields.whole("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size")
    return Mlp(hidden_size(fields), intermediate, style.gated, flag(fields, style.mlp_bias))


def branch(name: str, style: Style, hidden: int, *blocks: Block) -> Part:
    """Return a part with the norms of its family around it."""
    before = (norm(style.norm, hidden),) if style.sandwich != "post" else ()
    after = (norm(style.norm, hidden),) if style.sandwich != "pre" else ()
    return Part(name, (*before, *blocks, *after))


def attention_parts(fields: Fields, style: Style, count: int) -> list[Part]:
    """Return the attention of every layer."""
    windows = (style.windows or windows_by_type)(fields, count)
    hidden = hidden_size(fields)
    names = {True: "attention", False: "sliding_attention"}
    return [branch(names[window is None], style, hidden, attention(fields, style, window)) for window in windows]


def decoder(
    fields: Fields,
    style: Style,
    layers: Sequence[Sequence[Part]],
    mtp: Sequence[tuple[Block, ...]] = (),
    carried: int | Sequence[int] = 1,
) -> Model:
    """Return a model of the given layers with the usual embedding, final norm and head."""
    hidden, vocabulary = hidden_size(fields), fields.whole("vocab_size")
    return Model(
        hidden,
        vocabulary,
        (Embedding(vocabulary, hidden),),
        layers,
        (norm(style.norm, hidden),),
        is_tied(fields, style.tied),
        flag(fields, style.head_bias),
        mtp=mtp,
        carried=carried,
        soft_capped=_soft_capped(fields, style),
    )


def _soft_capped(fields: Fields, style: Style) -> bool:
    """Return whether the logits are soft-capped: null says no, a missing key the class default."""
    key = "final_logit_softcapping"
    if style.soft_cap is None or key not in fields.values:
        return bool(style.soft_cap)
    return fields.has(key) and fields.number(key) > 0


def dense(fields: Fields, style: Style) -> Model:
    """Return a decoder of attention and MLP in every layer."""
    count, hidden = num_layers(fields), hidden_size(fields)
    ffn = branch("mlp", style, hidden, mlp(fields, style))
    return decoder(fields, style, [(part, ffn) for part in attention_parts(fields, style, count)])
