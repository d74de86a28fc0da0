"""One micro-batch through one layer: F, then B in one piece, or I and W apart.

I and W are PyTorch's own split, the one its pipelining runtime runs (torch.distributed.pipelining's
stage_backward_input and stage_backward_weight): I keeps the graph and the gradients where weights branch off. A layer
that cannot be split so cannot be split by the runtime either; its I is then autograd.grad for the inputs alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from octopipe_cli.profiling.measure_model import Piece

T = TypeVar("T")
#: How near, relative, the norms of gradients are that differ by the order of sums alone.
SAME = 0.02


@dataclass
class Run:
    """One micro-batch through a layer."""

    piece: Piece
    timer: Callable[[str, Callable[[], Any]], Any]
    input: Any = field(init=False)
    output: Any = field(init=False)
    gradients: Any = field(init=False)

    def __post_init__(self) -> None:
        import torch

        self.input = self.piece.make_input()
        self.output = self.timer("F", lambda: self.piece.run(self.input))
        self.gradients = None if self.piece.role == "head" else [torch.randn_like(self.output)]


def whole_backward(run: Run) -> None:
    """Run B in one piece."""
    import torch

    run.timer("B", lambda: torch.autograd.backward([run.output], run.gradients))


def split_backward(run: Run) -> None:
    """Run I and W as PyTorch's pipelining runtime does."""
    from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight

    weights = run.piece.parameters
    outputs = [run.output]
    _, groups = run.timer("I", lambda: stage_backward_input(outputs, run.gradients, [run.input], iter(weights)))
    run.timer("W", lambda: stage_backward_weight(iter(weights), groups))


def backward_apart(run: Run) -> None:
    """Run the gradient of the input alone, then those of the weights."""
    import torch

    outputs, weights = [run.output], run.piece.parameters
    run.timer("I", lambda: torch.autograd.grad(outputs, [run.input], run.gradients, retain_graph=True))
    run.timer("W", lambda: torch.autograd.grad(outputs, weights, run.gradients, allow_unused=True))


def untimed(_: str, work: Callable[[], T]) -> T:
    """Return what the work returns: a timer that takes no time."""
    return work()


def why_not_split(piece: Piece) -> str:
    """Return why PyTorch cannot split this layer's backward; nothing where it can, or there is nothing to split."""
    if not piece.make_input().requires_grad:
        return ""
    whole = _gradient_sizes(piece, whole_backward)
    try:
        split = _gradient_sizes(piece, split_backward)
    except (RuntimeError, AssertionError) as error:
        cause = error.__cause__ or error
        return (str(cause).strip() or type(cause).__name__).splitlines()[0]
    same = all(abs(one - other) <= SAME * max(one, other) for one, other in zip(whole, split, strict=True))
    return "" if same else "it gives other gradients"


def _gradient_sizes(piece: Piece, backward: Callable[[Run], None]) -> list[float]:
    """Return the norms of the weights' gradients that a backward gives; the gradients are zero after it."""
    import torch

    torch.manual_seed(0)
    backward(Run(piece, untimed))
    sizes = []
    for weight in piece.parameters:
        sizes.append(float(torch.linalg.vector_norm(weight.grad, dtype=torch.float32)))
        weight.grad.zero_()
    return sizes
