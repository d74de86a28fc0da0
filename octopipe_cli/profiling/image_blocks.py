"""Blocks of vision encoders and projectors beside those they share with language models."""

from __future__ import annotations

from dataclasses import dataclass

from octopipe_cli.profiling.blocks import Dense


@dataclass(frozen=True)
class PatchEmbedding(Dense):
    """The projection of an image's patches, with learned positions and vectors beside the patches (a class token).

    Parameters
    ----------
    inputs
        Values of a patch: channels x frames x height x width.
    learned
        Vectors of the encoder's width that are learned: one a position, and those of extra tokens.
    """

    inputs: int
    width: int
    bias: bool = True
    learned: int = 0

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        return self.width * (self.inputs + self.bias + self.learned)


@dataclass(frozen=True)
class LayerScale(Dense):
    """A learned factor for each element of a branch's output (2103.17239)."""

    width: int

    @property
    def parameters(self) -> int:
        """Weights it stores."""
        return self.width


@dataclass(frozen=True)
class Regroup(Dense):
    """Patches averaged or put side by side: `patches` of `width` elements are read for each position passed on."""

    width: int
    patches: int
    average: bool = False

    @property
    def parameters(self) -> int:
        """Weights it stores: none."""
        return 0


@dataclass(frozen=True)
class Activation(Dense):
    """An activation between two projections of a projector."""

    width: int

    @property
    def parameters(self) -> int:
        """Weights it stores: none."""
        return 0


@dataclass(frozen=True)
class Placing(Dense):
    """The features of images put among the embeddings of the text."""

    width: int

    @property
    def parameters(self) -> int:
        """Weights it stores: none."""
        return 0


ImageBlock = PatchEmbedding | LayerScale | Regroup | Activation | Placing
