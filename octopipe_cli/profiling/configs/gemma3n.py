"""Gemma 3n: several residual streams (AltUp), a low-rank branch beside attention (LAuReL), inputs for each layer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from octopipe_cli.profiling.blocks import Block, Embedding, Linear, Mlp, Norm
from octopipe_cli.profiling.configs.assembly import Model
from octopipe_cli.profiling.configs.common import (
    MAX_DEPTHS,
    Style,
    attention,
    branch,
    decoder,
    every_nth_full,
    hidden_size,
    num_layers,
)
from octopipe_cli.profiling.configs.fields import Fields


def _gemma3n(fields: Fields) -> Model:
    """Return Gemma 3n (E2B, E4B): the last layers use the keys and values of earlier ones.

    All streams and the layers' own inputs cross a boundary.
    """
    count, hidden = num_layers(fields), hidden_size(fields)
    style = Style(tied=True, sandwich="both", qk_norm="head", head_dim=256, soft_cap=True)
    fields.refuse("attention_bias", (False,), "biases in its attention")
    streams, rank = fields.whole("altup_num_inputs", most=MAX_DEPTHS), fields.whole("laurel_rank")
    inputs = fields.whole("hidden_size_per_layer_input")
    reused = fields.whole("num_kv_shared_layers", least=0)
    if isinstance(fields.values.get("intermediate_size"), list):
        widths = fields.wholes("intermediate_size", length=count, least=1)
    else:
        widths = [fields.whole("intermediate_size")] * count
    one = Norm(hidden)
    mixing: tuple[Block, ...] = (
        one,
        Linear(hidden, streams),
        Linear(streams, streams * streams),
        Linear(streams, streams),
        Norm(hidden),
    )
    low_rank: tuple[Block, ...] = (Linear(hidden, rank), Linear(rank, hidden), one)
    own: tuple[Block, ...] = (Linear(hidden, inputs), Linear(inputs, hidden), one)
    layers = []
    for layer, window in enumerate(every_nth_full(5)(fields, count)):
        core = attention(fields, style, window)
        if layer >= count - reused:
            core = replace(core, shares_kv=True, qk_norm_parameters=core.head_dim)
        mixer = branch("attention" if window is None else "sliding_attention", style, hidden, core)
        ffn = branch("mlp", style, hidden, Mlp(hidden, widths[layer]))
        layers.append(
            [replace(mixer, blocks=(*mixing, *mixer.blocks, *low_rank)), replace(ffn, blocks=(*ffn.blocks, *own))]
        )
    model = decoder(fields, style, layers, carried=streams - (-count * inputs // hidden))
    apart = (Linear(hidden, hidden),) * (streams - 1)
    per_layer = fields.whole("vocab_size_per_layer_input")
    embedded = (Embedding(per_layer, count * inputs), Linear(hidden, count * inputs), Norm(inputs))
    return replace(
        model,
        embedding=(*model.embedding, *embedded, *apart),
        final=(*apart, *model.final),
    )


#: Reader by ``model_type``.
READERS: Final[Mapping[str, Callable[[Fields], Model]]] = {"gemma3n_text": _gemma3n}
