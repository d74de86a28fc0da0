"""Decoders with multi-head latent attention: DeepSeek V2 to V4, Kimi K2, GLM 5, LongCat and those like them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from octopipe_cli.profiling.blocks import Block, Indexer, LatentAttention, Linear, Moe, Norm, Parallel
from octopipe_cli.profiling.compressed import CompressedAttention, HyperConnection
from octopipe_cli.profiling.configs.assembly import Model, Part
from octopipe_cli.profiling.configs.common import Style, branch, decoder, hidden_size, mlp, num_depths, num_layers
from octopipe_cli.profiling.configs.fields import Fields
from octopipe_cli.profiling.configs.moe import after_dense, deepseek_moe, nextn


def latent_attention(fields: Fields, indexer: Indexer | None = None, bias: bool | None = None) -> LatentAttention:
    """Return latent attention under DeepSeek's keys; ``q_lora_rank`` null: queries from the hidden states."""
    if "q_lora_rank" not in fields.values:
        fields.missing(["q_lora_rank"])
    return LatentAttention(
        hidden_size(fields),
        fields.whole("num_attention_heads"),
        fields.optional("q_lora_rank"),
        fields.whole("kv_lora_rank"),
        fields.whole("qk_nope_head_dim", least=0),
        fields.whole("qk_rope_head_dim", least=0),
        fields.whole("v_head_dim"),
        bias=fields.flag("attention_bias", default=False) if bias is None else bias,
        indexer=indexer,
    )


def latent_dense(fields: Fields, style: Style) -> Model:
    """Return a decoder of latent attention and MLP in every layer."""
    hidden = hidden_size(fields)
    layer = (
        branch("attention", style, hidden, latent_attention(fields)),
        branch("mlp", style, hidden, mlp(fields, style)),
    )
    return decoder(fields, style, [layer] * num_layers(fields))


def _indexer(fields: Fields) -> Indexer:
    rank = fields.optional("q_lora_rank")
    if rank is None:
        fields.fail("q_lora_rank", f"a {fields.family} without a query latent is not known", "a rank")
    return Indexer(
        hidden_size(fields),
        rank,
        fields.whole("index_n_heads"),
        fields.whole("index_head_dim"),
        fields.whole("index_topk"),
    )


def _indexed(fields: Fields, count: int) -> list[bool]:
    """Return which layers of a GLM have an indexer of their own (the others use the one before)."""
    if fields.has("indexer_types"):
        return [kind == "full" for kind in fields.named("indexer_types", choices=("full", "shared"), length=count)]
    if fields.has("index_topk_pattern"):
        pattern = fields.values["index_topk_pattern"]
        letters = list(pattern) if isinstance(pattern, str) else fields.items("index_topk_pattern", length=count)
        if len(letters) != count or set(letters) - {"F", "S", "full", "shared"}:
            fields.fail("index_topk_pattern", "not a pattern of the model's layers", f"{count} letters F and S")
        return [letter in ("F", "full") for letter in letters]
    every = fields.whole("index_topk_freq", default=1)
    offset = fields.whole("index_skip_topk_offset", default=2, least=0)
    return [max(layer - offset + 1, 0) % every == 0 for layer in range(count)]


def _deepseek(fields: Fields, version: int, shares_indexer: bool = False) -> Model:
    """Return DeepSeek V2, V3 or V3.2: dense layers first, then experts; V3 has a correction bias and MTP depths."""
    count, hidden, style = num_layers(fields), hidden_size(fields), Style()
    fields.refuse("mlp_bias", (False,), "biases in its MLPs")
    indexed = [False] * count
    if version == 32:
        indexed = _indexed(fields, count) if shares_indexer else [True] * count
    attentions: dict[bool, Part] = {}
    for has in set(indexed):
        block = latent_attention(fields, _indexer(fields) if has else None)
        attentions[has] = branch("attention", style, hidden, block)
    sparse = after_dense(fields, count, default=None if version > 2 else 0)
    moe = branch("moe", style, hidden, deepseek_moe(fields, correction=version > 2))
    dense = None if all(sparse) else branch("mlp", style, hidden, mlp(fields, style))
    layers = [
        [part for part in (attentions[has], moe if is_sparse else dense) if part]
        for has, is_sparse in zip(indexed, sparse, strict=True)
    ]
    last: tuple[Block, ...] = tuple(block for part in layers[-1] for block in part.blocks)
    return replace(decoder(fields, style, layers), mtp=nextn(fields, *last) if version > 2 else ())


def _longcat(fields: Fields) -> Model:
    """Return LongCat Flash: two attentions and two MLPs a layer; experts beside them, added at the layer's end."""
    style, hidden = Style(), hidden_size(fields)
    heads = branch("attention", style, hidden, latent_attention(fields))
    dense = mlp(fields, style, fields.whole("ffn_hidden_size", "intermediate_size"))
    ffn = branch("mlp", style, hidden, dense)
    moe = Moe(
        hidden,
        fields.whole("n_routed_experts"),
        fields.whole("moe_topk"),
        fields.whole("expert_ffn_hidden_size"),
        router_bias=fields.flag("router_bias", default=False),
        correction_bias=True,
        zero_experts=fields.whole("zero_expert_num", default=0, least=0),
    )
    both = replace(branch("mlp_moe", style, hidden, Parallel((dense, moe))), extra=1)
    layer = (heads, both, replace(heads, extra=1), ffn)
    return decoder(fields, style, [layer] * num_layers(fields, "num_layers"))


def _deepseek_4(fields: Fields) -> Model:
    """Return DeepSeek V4: compressed attention by ``compress_ratios``, hyper-connections, experts in every layer.

    A ratio of 4 has an indexer, 128 none; 0 sees the window alone. The first ``num_hash_layers`` pick experts by token,
    so they have no correction bias. ``compress_ratios`` goes on over the MTP depths.
    """
    count, hidden = num_layers(fields), hidden_size(fields)
    depths = num_depths(fields, "num_nextn_predict_layers")
    ratios = fields.wholes("compress_ratios")
    if len(ratios) not in (count, count + depths) or set(ratios) - {0, 4, 128}:
        fields.fail("compress_ratios", "not the ratios of the model's layers", f"{count} of 0, 4 or 128")
    ratios = [*ratios, *[0] * (count + depths - len(ratios))]
    streams = fields.whole("hc_mult")
    plain = CompressedAttention(
        hidden,
        fields.whole("num_attention_heads"),
        fields.whole("head_dim"),
        fields.whole("q_lora_rank"),
        fields.whole("o_groups"),
        fields.whole("o_lora_rank"),
        fields.whole("sliding_window"),
    )
    fields.refuse("num_key_value_heads", (1,), "more than one head of keys")
    fields.refuse("n_shared_experts", (1,), "more than one shared expert")
    fields.refuse("attention_bias", (False,), "biases")
    indexed = {
        "index_heads": fields.whole("index_n_heads"),
        "index_dim": fields.whole("index_head_dim"),
        "top_k": fields.whole("index_topk"),
    }
    named = {
        0: ("sliding_attention", plain),
        4: ("sparse_attention", replace(plain, ratio=4, **indexed)),
        128: ("compressed_attention", replace(plain, ratio=128)),
    }
    moe, hashed = deepseek_moe(fields), fields.whole("num_hash_layers", default=0, least=0)
    mixing, one = HyperConnection(hidden, streams), Norm(hidden)
    layers = []
    for layer, ratio in enumerate(ratios):
        name, core = named[ratio]
        experts = replace(moe, correction_bias=layer >= hashed)
        layers.append([Part(name, (mixing, one, core)), Part("moe", (mixing, one, experts))])
    closing = HyperConnection(hidden, streams, at_head=True)
    mtp = [
        (one, one, Linear(2 * hidden, hidden), *(block for part in parts for block in part.blocks), closing, one)
        for parts in layers[count:]
    ]
    model = decoder(fields, Style(), layers[:count], mtp=mtp, carried=streams)
    return replace(model, final=(closing, *model.final))


#: Reader by ``model_type``.
READERS: Final[Mapping[str, Callable[[Fields], Model]]] = {
    "deepseek_v2": partial(_deepseek, version=2),
    **dict.fromkeys(("deepseek_v3", "kimi_k2"), partial(_deepseek, version=3)),
    "glm4_moe_lite": partial(_deepseek, version=3),
    "mistral4": partial(_deepseek, version=2),
    "deepseek_v32": partial(_deepseek, version=32),
    "deepseek_v4": _deepseek_4,
    "glm_moe_dsa": partial(_deepseek, version=32, shares_indexer=True),
    "longcat_flash": _longcat,
    "youtu_llm": partial(latent_dense, style=Style(tied=True)),
}
