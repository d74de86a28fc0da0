"""What a run computes: the modules of stages, their inputs, and what one process alone would get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from octopipe_cli.plan import Action

#: A loss and gradients by the names of parameters.
Gradients = dict[str, Any]


class Workload(Protocol):
    """The layers of a run; everything is called on the ranks, after the processes have started."""

    def start(self, device: str, restart: Callable[[], None]) -> None:
        """Get ready on a device; `restart` is to be called where an action had to wait before it could begin."""

    def module(self, stage: int) -> Any:
        """Return the module of a stage, its weights drawn the same way on every rank."""

    def examples(self, stage: int) -> tuple[Any, Any]:
        """Return tensors like a stage's input and output, for one micro-batch; both may be asked for gradients."""

    def batch(self) -> Any:
        """Return the input of the first stage: all micro-batches, along the first dimension."""

    def before(self, action: Action) -> None:
        """Get ready for an action of this rank."""

    def after(self, action: Action) -> None:
        """Do what follows an action before the rank may go on."""

    def loss(self, output: Any, target: Any) -> Any:
        """Return the loss of one micro-batch from the last stage's output."""

    def gradients(self, stage: int, module: Any) -> Gradients:
        """Return the gradients of a stage's parameters, by names that no other stage has."""

    def reference(self) -> tuple[float, Gradients]:
        """Return mean loss and gradients of a run in this process alone."""
