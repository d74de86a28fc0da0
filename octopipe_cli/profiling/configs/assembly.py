"""From a model's parts to its layers: granularity, names of kinds, ties, MTP depths, the head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from octopipe_cli.profile import MAX_LAYERS
from octopipe_cli.profiling.architecture import Architecture, Granularity, Images, Layer, Role
from octopipe_cli.profiling.blocks import Block, Head, Shared


@dataclass(frozen=True)
class Part:
    """A residual branch of a decoder layer with its norms: what is a layer of its own where sublayers are counted.

    Parameters
    ----------
    name
        Its kind's name: ``attention``, ``mamba``, ``mlp``, ``moe``, ...
    blocks
        What it runs, in order.
    extra
        Tensors that cross a boundary behind it beside those that cross it behind the whole layer.
    """

    name: str
    blocks: tuple[Block, ...]
    extra: int = 0


@dataclass(frozen=True)
class Model:
    """A model before its layers are numbered.

    Parameters
    ----------
    embedding, final
        Blocks of the embedding, and those between the last layer and the output projection (the final norm).
    decoder
        For every decoder layer its parts.
    carried
        For every decoder layer the tensors that cross the boundary behind it; one number for all.
    mtp
        For every MTP depth its blocks.
    tied, head_bias, head_width, soft_capped
        Of the output projection and its logits.
    """

    hidden: int
    vocabulary: int
    embedding: tuple[Block, ...]
    decoder: Sequence[Sequence[Part]]
    final: tuple[Block, ...]
    tied: bool
    head_bias: bool = False
    head_width: int | None = None
    mtp: Sequence[tuple[Block, ...]] = ()
    carried: int | Sequence[int] = 1
    soft_capped: bool = False


class KindNames:
    """Kind names: a second kind of the same name gets a number."""

    def __init__(self) -> None:
        self.taken: dict[str, Layer] = {}

    def layer(
        self, name: str, blocks: tuple[Block, ...], role: Role, carried: int, images: Images | None = None
    ) -> Layer:
        """Return a layer whose kind has a name that no other kind has."""
        number = 1
        while True:
            layer = Layer(name if number == 1 else f"{name}_{number}", blocks, role, carried, images)
            if self.taken.setdefault(layer.kind, layer) == layer:
                return layer
            number += 1


def assemble(model: Model, name: str, family: str, granularity: Granularity) -> Architecture:
    """Return a model's architecture: its layers numbered, named and tied."""
    names = KindNames()
    carried = [model.carried] * len(model.decoder) if isinstance(model.carried, int) else list(model.carried)
    first_carried = model.carried if isinstance(model.carried, int) else 1
    layers = [names.layer("embedding", model.embedding, "embedding", first_carried)]
    for parts, count in zip(model.decoder, carried, strict=True):
        layers += _decoder_layers(parts, count, granularity, names)
    mtp = [len(layers) + depth for depth in range(len(model.mtp))]
    for depth, blocks in enumerate(model.mtp):
        layers.append(names.layer("mtp", blocks, "mtp", 2 + depth))
    head = Head(
        model.vocabulary,
        model.hidden,
        model.tied,
        model.head_bias,
        1 + len(model.mtp),
        model.head_width,
        model.soft_capped,
    )
    layers.append(names.layer("head", (*model.final, head), "head", 1))
    sharing = [0, *mtp, *([len(layers) - 1] if model.tied else [])]
    tied = ([tuple(sharing)] if len(sharing) > 1 else []) + _shared_groups(layers)
    return Architecture(name, family, model.hidden, model.vocabulary, granularity, tuple(layers), tuple(tied))


def too_many(count: int) -> bool:
    """Return whether so many decoder layers may be more than a profile holds, counted as sublayers."""
    return 2 * count + 10 > MAX_LAYERS


def _decoder_layers(parts: Sequence[Part], carried: int, granularity: Granularity, names: KindNames) -> list[Layer]:
    parts = [part for part in parts if part.blocks]
    if granularity == "layer" or not parts:
        blocks = tuple(block for part in parts for block in part.blocks)
        return [names.layer("_".join(part.name for part in parts) or "nothing", blocks, "decoder", carried)]
    return [names.layer(part.name, part.blocks, "decoder", carried + part.extra) for part in parts]


def _shared_groups(layers: Sequence[Layer]) -> list[tuple[int, ...]]:
    """Return for every group of decoder layers with shared blocks their indices, the owner first."""
    groups: dict[int, list[int]] = {}
    for index, layer in enumerate(layers):
        if layer.role == "decoder":
            for block in layer.blocks:
                if isinstance(block, Shared):
                    groups.setdefault(block.group, []).append(index)
    return [tuple(group) for group in groups.values() if len(group) > 1]
