"""Layer kinds in Megatron's letters: what a kind's name says of it.

Symbols of hybrid patterns: megatron/core/ssm/mamba_hybrid_layer_allocation.py. A kind may stand for more than one: a
whole transformer layer is ``*-``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

#: The symbols and what they stand for; E, the embedding of a layout string, is a mixture of experts here.
NAMES: Final[Mapping[str, str]] = {
    "M": "mamba-2",
    "G": "gated-delta-net",
    "*": "attention",
    "D": "sparse-attention",
    "+": "latent-attention",
    "-": "mlp",
    "E": "moe",
}

#: What the parts of a kind's name stand for; names of more parts join them: ``mamba_moe``.
_PARTS: Final[Mapping[str, str]] = {
    "mamba": "M",
    "mamba2": "M",
    "attention": "*",
    "mlp": "-",
    "moe": "E",
    "transformer": "*-",
}
_FEED_FORWARD_NAMES: Final = ("mlp", "moe", "ffn", "feed", "experts")


def layer_symbols(kind: str, symbols: Mapping[str, str]) -> str | None:
    """Return the symbols of a layer kind, those given before those its name suggests; None where it suggests none."""
    if kind in symbols:
        return symbols[kind]
    parts = [_PARTS.get(part) for part in _parts(kind)]
    known = [part for part in parts if part is not None]
    return "".join(known) if known and len(known) == len(parts) else None


def whole_layer(kind: str) -> bool:
    """Return whether a kind may be one layer of a GPT model: neither half of one by its name nor a Mamba layer."""
    parts = _parts(kind)
    if any(part.startswith(("mamba", "ssm")) for part in parts):
        return False
    halves = {part in _FEED_FORWARD_NAMES for part in parts if part == "attention" or part in _FEED_FORWARD_NAMES}
    return len(halves) != 1


def _parts(kind: str) -> list[str]:
    """Return the words of a kind's name in lower case, without the number of a second kind of that name."""
    name = re.sub(r"_\d+\Z", "", kind.lower())
    return [part for part in re.split(r"[_\W]+", name) if part]
