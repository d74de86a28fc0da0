"""More decoders with mixtures of experts: Trinity, EXAONE MoE, Hunyuan, Grok 1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from octopipe_cli.profiling.blocks import Attention, Block, Moe
from octopipe_cli.profiling.configs.assembly import Model, Part
from octopipe_cli.profiling.configs.common import Style, every_nth_full, hidden_size, num_layers
from octopipe_cli.profiling.configs.dense import BIASED, exaone_windows
from octopipe_cli.profiling.configs.fields import Fields
from octopipe_cli.profiling.configs.moe import (
    Reader,
    after_dense,
    by_type,
    deepseek_moe,
    experts_model,
    nextn,
    uniform_experts,
)


def _afmoe(fields: Fields) -> Model:
    """Return AFMoE (Trinity): gated attention, norms a head and around each branch, dense layers first."""
    style = replace(
        BIASED,
        sandwich="both",
        qk_norm="head",
        head_dim=128,
        windows=every_nth_full(4, "global_attn_every_n_layers"),
    )
    count, first = num_layers(fields), fields.whole("num_dense_layers", least=0)
    model = experts_model(fields, style, [layer >= first for layer in range(count)], deepseek_moe(fields))
    return replace(model, decoder=[_gated(parts) for parts in model.decoder])


def _gated(parts: Sequence[Part]) -> list[Part]:
    """Return a layer's parts with a gate for each element on its attention."""

    def gate(block: Block) -> Block:
        return replace(block, gate="element") if isinstance(block, Attention) else block

    return [replace(part, blocks=tuple(gate(block) for block in part.blocks)) for part in parts]


def _exaone_moe(fields: Fields) -> Model:
    """Return EXAONE MoE (K-EXAONE): norms a head, three local layers and a global one, MTP depths of a dense layer."""
    style = Style(qk_norm="head", windows=exaone_windows)
    count = num_layers(fields)
    if by_type(fields, count) is None and fields.has("is_moe_layer"):
        sparse = [value is True or value == 1 for value in fields.items("is_moe_layer", length=count)]
    else:
        sparse = after_dense(fields, count, default=1)
    model = experts_model(fields, style, sparse, deepseek_moe(fields))
    last = [block for part in model.decoder[-1] for block in part.blocks]
    return replace(model, mtp=nextn(fields, *last))


def _hy_v3(fields: Fields) -> Model:
    """Return Hunyuan 3: norms a head, a shared expert, dense layers first."""
    style = replace(BIASED, qk_norm="head", head_dim=128)
    fields.refuse("mlp_bias", (False,), "biases in its MLPs")
    sparse = after_dense(fields, num_layers(fields), default=1)
    model = experts_model(fields, style, sparse, deepseek_moe(fields))
    return replace(model, mtp=nextn(fields, *(block for part in model.decoder[-1] for block in part.blocks)))


def _hunyuan_moe(fields: Fields) -> Model:
    """Return Hunyuan Large and A13B: an MLP beside the experts; per-layer lists must be uniform to be known here.

    With cross-layer attention (``use_cla``, 2405.12981) the keys and values of every ``cla_share_factor``-th layer
    serve the layers behind it too, so they travel with the hidden states.
    """
    count, hidden = num_layers(fields), hidden_size(fields)
    style = replace(BIASED, qk_norm="head", qk_norm_flag=("use_qk_norm", fields.family != "hunyuan"))

    def same(*keys: str, default: int | None = None) -> int:
        key = next((key for key in keys if isinstance(fields.values.get(key), list)), None)
        if key is None:
            return fields.whole(*keys, default=default)
        values = fields.wholes(key, length=count)
        if len(set(values)) > 1:
            fields.fail(key, f"a {fields.family} whose layers differ is not known", "one number")
        return values[0]

    moe = Moe(
        hidden,
        same("num_experts"),
        same("moe_topk", "num_experts_per_tok", default=1),
        same("moe_intermediate_size", default=fields.whole("intermediate_size")),
        shared_intermediate=fields.whole("intermediate_size") * same("num_shared_expert", default=1),
    )
    if fields.has("use_mixed_mlp_moe") and not fields.flag("use_mixed_mlp_moe"):
        moe = replace(moe, shared_intermediate=0)
    model = experts_model(fields, style, [True] * count, moe)
    if not fields.flag("use_cla", default=False):
        return model
    every = fields.whole("cla_share_factor")
    layers = [_sharing(parts) if layer % every else parts for layer, parts in enumerate(model.decoder)]
    core = next(block for block in model.decoder[0][0].blocks if isinstance(block, Attention))
    travelling = 1 - (-core.kv_heads * 2 * core.head_dim // hidden)
    carried = [travelling if (layer + 1) % every and layer + 1 < count else 1 for layer in range(count)]
    return replace(model, decoder=layers, carried=carried)


def _sharing(parts: Sequence[Part]) -> list[Part]:
    """Return a layer's parts with an attention that uses the keys and values of an earlier layer."""

    def share(block: Block) -> Block:
        return replace(block, shares_kv=True) if isinstance(block, Attention) else block

    return [replace(part, blocks=tuple(share(block) for block in part.blocks)) for part in parts]


def _grok_1(fields: Fields) -> Model:
    """Return Grok 1: norms around each branch, gated experts in every layer; whether it is tied must be told."""
    return uniform_experts(fields, Style(sandwich="both", tied=fields.flag("tie_word_embeddings")))


#: Reader by ``model_type``.
READERS: Final[Mapping[str, Reader]] = {
    "afmoe": _afmoe,
    "exaone_moe": _exaone_moe,
    "hy_v3": _hy_v3,
    **dict.fromkeys(("hunyuan_v1_moe", "hunyuan"), _hunyuan_moe),
    "grok-1": _grok_1,
}
