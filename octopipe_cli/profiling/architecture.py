"""What a model is made of: layers of kinds, their blocks (`profiling.blocks`), exact parameter counts.

This is the hand-over between the readers of Hugging Face configs (``profiling.configs``), which build an
`Architecture`, and the cost model, which lowers its blocks to operations. Nothing here knows a family, a file or a
hardware.

How to read it:

- `Architecture.layers` is the model in order: the embedding, the decoder layers, the MTP depths, the head, one `Layer`
  each. What a profile calls a kind is a distinct `Layer`: equal names mean equal layers (`Architecture.kinds`).
- `Layer.blocks` run one after another. `Norm` is a block too; what lies between two norms is a residual branch.
  `Parallel` holds branches that read the same input and are summed (attention beside Mamba in Falcon-H1, attention
  beside the MLP in GPT-NeoX). `Shared` wraps blocks whose weights several layers use; only the first, its `owner`,
  counts their parameters. `walk` writes both out.
- Every block has `parameters` (weights it stores, norms and biases inside it with them) and `active_parameters` (those
  a token meets). `Layer.parameters` is what the layer itself stores: a tied head or a shared block met again counts
  nothing, though its work is the same.
- `Layer.carried` is how many tensors of the model's width, a position, cross the boundary behind the layer: 1, but 2
  where the embeddings travel with the hidden states (Zamba2), 1 + depths behind an MTP depth.
- `Architecture.tied` holds groups of layer indices as ``rules.tied`` of a profile takes them, the layer that stores the
  weights first: embedding with tied head, embedding with MTP depths (they embed the next tokens), layers around
  one shared block. A copy costs the first one's whole state there, a little too much where that holds more than what
  is shared (learned positions; Zamba2's Mamba beside its shared block, unless the granularity is ``sublayer``).
- An MTP depth norms, projects and runs a block of its own; its logits are the head's work: ``Head.predictions`` is
  1 + depths.
- `Layer.images` is there for the layers of a vision encoder and its projector, which stand ahead of the embedding:
  their positions are an image's, their width is the encoder's. Where parts are frozen, `Layer.backward` says what of
  the backward is left.
- Widths are in elements, not bytes; ``window`` is how many positions at most a query sees, None for all up to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from octopipe_cli.profiling.blocks import Block, Parallel, Shared

Role = Literal["embedding", "decoder", "mtp", "head"]
#: What a layer's backward computes: both gradients, its input's or its weights' alone, none.
Backward = Literal["full", "input", "weight", "none"]
#: What of a model may be frozen.
VisionPart = Literal["vision", "projector"]
Granularity = Literal["layer", "sublayer"]


@dataclass(frozen=True)
class Images:
    """What images are to a layer of the vision encoder or the projector.

    Parameters
    ----------
    width
        Of the residual stream.
    positions
        Of an image.
    passed
        Elements of an image that cross the boundary behind the layer.
    part
        What the layer belongs to.
    aside
        Whether what it computes goes to the text past the encoder's further layers, which so need no gradient of it.
    """

    width: int
    positions: int
    passed: int
    part: VisionPart = "vision"
    aside: bool = False


@dataclass(frozen=True)
class Layer:
    """A layer: its kind's name, its blocks in order, its role, how many tensors of the model's width it passes on.

    `images` is there where it works on images in place of text.
    """

    kind: str
    blocks: tuple[Block, ...]
    role: Role = "decoder"
    carried: int = 1
    images: Images | None = None
    backward: Backward = "full"

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        return sum(block.parameters for block in self.blocks)

    @property
    def active_parameters(self) -> int:
        """Weights a token meets."""
        return sum(block.active_parameters for block in self.blocks)


@dataclass(frozen=True)
class Architecture:
    """A model: its layers in order, the groups that share weights, and what it was read from.

    Parameters
    ----------
    name, family
        The model, and its ``model_type``.
    """

    name: str
    family: str
    hidden: int
    vocabulary: int
    granularity: Granularity
    layers: tuple[Layer, ...]
    tied: tuple[tuple[int, ...], ...] = ()

    @cached_property
    def kinds(self) -> dict[str, Layer]:
        """The distinct layers by their kind's name, in order of appearance."""
        return {layer.kind: layer for layer in self.layers}

    @property
    def parameters(self) -> int:
        """Weights of the language model; MTP depths are not counted, as published totals do."""
        return sum(layer.parameters for layer in self.layers if layer.role != "mtp" and layer.images is None)

    @property
    def active_parameters(self) -> int:
        """Weights a token of text meets; MTP depths are not counted."""
        return sum(layer.active_parameters for layer in self.layers if layer.role != "mtp" and layer.images is None)

    @property
    def mtp_parameters(self) -> int:
        """Weights of the MTP depths."""
        return sum(layer.parameters for layer in self.layers if layer.role == "mtp")

    @property
    def vision_parameters(self) -> int:
        """Weights of the vision encoder and the projector."""
        return sum(layer.parameters for layer in self.layers if layer.images is not None)


def walk(blocks: Iterable[Block]) -> Iterable[Block]:
    """Yield the blocks that compute, in order: branches of `Parallel` and the inside of `Shared` written out."""
    for block in blocks:
        if isinstance(block, Parallel):
            yield from walk(block.branches)
        elif isinstance(block, Shared):
            yield from walk(block.blocks)
        else:
            yield block
