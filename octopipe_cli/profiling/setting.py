"""What a profile is estimated for: lengths, parallel degrees, number formats, optimizer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from octopipe_cli.errors import InputError

Dtype = Literal["bf16", "fp8"]
GradDtype = Literal["fp32", "bf16"]
Optimizer = Literal["adam", "sgd", "muon"]

#: Bytes of an activation's element; under fp8 only matrix products' factors are smaller.
ELEMENT = 2


@dataclass(frozen=True, slots=True)
class Setting:
    """How the model is trained.

    Parameters
    ----------
    data_parallel
        Replicas of what is not an expert; experts have `data_parallel` / `expert_parallel` (Megatron's rule).
    sequence_parallel
        Whether norms, residuals and stage boundaries are cut along the sequence over the tensor-parallel devices
        (2205.05198).
    zero
        What is cut over the replicas: 0 nothing, 1 optimizer states, 2 and gradients, 3 and weights (1910.02054).
    flash_attention
        Whether attention scores stay on the chip (2205.14135).
    dropout
        Whether masks of attention, attention output and feed-forward output are kept, as GPT-3 trained; today's
        models use none.
    rotary
        Whether queries and keys are rotated.
    images
        Images of a micro-batch, all its samples together, where the model has a vision encoder.
    """

    sequence_length: int
    micro_batch_size: int
    tensor_parallel: int = 1
    context_parallel: int = 1
    expert_parallel: int = 1
    data_parallel: int = 1
    sequence_parallel: bool = True
    zero: int = 1
    dtype: Dtype = "bf16"
    grad_dtype: GradDtype = "fp32"
    optimizer: Optimizer = "adam"
    flash_attention: bool = True
    dropout: bool = False
    rotary: bool = True
    images: int = 1

    def __post_init__(self) -> None:
        if self.sequence_length % (self.context_parallel * (self.tensor_parallel if self.sequence_parallel else 1)):
            raise InputError(
                "the sequence cannot be cut evenly",
                found=f"{self.sequence_length} positions for context parallel {self.context_parallel}, tensor parallel"
                f" {self.tensor_parallel}" + (" with sequence parallel" if self.sequence_parallel else ""),
                remedy="choose a length they divide",
            )
        if self.data_parallel % self.expert_parallel:
            raise InputError(
                "experts are spread over the data-parallel replicas",
                found=f"data parallel {self.data_parallel}, expert parallel {self.expert_parallel}",
                expected="a data-parallel degree that the expert-parallel degree divides",
                remedy="give --data-parallel the number of all replicas of the dense part",
            )

    def of_images(self, positions: int) -> Setting:
        """Return the setting of layers that work on images of so many positions each: an image is a sequence.

        Devices that cut a sample's text among them each have all its images. Without an even cut of an image's
        positions there is no sequence parallelism.
        """
        return replace(
            self,
            sequence_length=positions,
            micro_batch_size=self.images,
            context_parallel=1,
            data_parallel=self.data_parallel * self.context_parallel,
            sequence_parallel=self.sequence_parallel and positions % self.tensor_parallel == 0,
        )

    @property
    def tokens(self) -> int:
        """Positions of a micro-batch on one device."""
        return self.micro_batch_size * self.sequence_length // self.context_parallel

    @property
    def sharded_tokens(self) -> int:
        """Positions where sequence parallelism cuts: norms, residuals, boundaries."""
        return self.tokens // (self.tensor_parallel if self.sequence_parallel else 1)

    @property
    def factor_bytes(self) -> int:
        """Bytes of an element that enters a matrix product."""
        return 1 if self.dtype == "fp8" else ELEMENT

    @property
    def gradient_element(self) -> int:
        """Bytes of a weight's gradient."""
        return 4 if self.grad_dtype == "fp32" else 2
