"""What a layer does, operation by operation: work, exchanges between devices, bytes kept for the backward.

An operation has three passes: F, I (gradient of its input) and W (gradients of its weights). Attention cores, scans,
norms and elementwise kernels have no W worth a pass of its own: the gradients of norms' and biases' few weights come
with I.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Literal, NamedTuple, TypeAlias

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "ring"]


class Product(NamedTuple):
    """The shape of `batch` matrix products: m x k times k x n."""

    batch: int
    m: int
    n: int
    k: int


@dataclass(frozen=True, slots=True)
class Work:
    """One or several kernels.

    Parameters
    ----------
    efficiency
        Which share of the hardware's peaks they get: a field of `hardware.Efficiency`.
    flops, bytes
        What they compute and move: two FLOPs a multiply-add, bytes read and written in device memory.
    product
        The shape, where it is a matrix product.
    length
        How many positions a query sees, where it is attention.
    kernels
        How many there are.
    """

    efficiency: str
    flops: int = 0
    bytes: int = 0
    product: Product | None = None
    length: int | None = None
    kernels: int = 1


@dataclass(frozen=True, slots=True)
class Exchange:
    """A collective of `ranks` devices that stand `stride` apart, over a tensor of `bytes` (whole, not its shard).

    Where `hidden`, it runs beside the work of its pass and counts only where it takes longer.
    """

    collective: Collective
    bytes: int
    ranks: int
    stride: int = 1
    hidden: bool = False


Step: TypeAlias = "Work | Exchange"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a layer.

    Parameters
    ----------
    forward, input, weight
        Its passes.
    kept_bytes
        What it newly keeps from F to I (or B): a tensor that two operations need is counted once.
    weight_bytes
        How much of that only W needs, in the end: the inputs of its matrix products.
    freed_bytes
        How much of that I frees: all of what lies behind the last weights of a pipeline, the loss.
    gradient_bytes
        The gradient of its output, which W needs too; 0 where it has no weights.
    workspace_bytes
        What it holds only while it runs.
    quadratic
        Whether its FLOPs grow with the square of a sequence's length: attention to all positions.
    """

    name: str
    forward: tuple[Step, ...] = ()
    input: tuple[Step, ...] = ()
    weight: tuple[Step, ...] = ()
    kept_bytes: int = 0
    weight_bytes: int = 0
    freed_bytes: int = 0
    gradient_bytes: int = 0
    workspace_bytes: int = 0
    quadratic: bool = False


def product_work(product: Product, efficiency: str, element_bytes: int, result_bytes: int | None = None) -> Work:
    """Return the work of a matrix product: 2 m n k FLOPs; both factors read, the result written.

    `result_bytes` are the bytes moved for each element of the result where it isn't just written once (an accumulated
    gradient is read and written).
    """
    batch, m, n, k = product
    moved = element_bytes * batch * (m * k + k * n)
    moved += batch * m * n * (element_bytes if result_bytes is None else result_bytes)
    return Work(efficiency, 2 * prod(product), moved, product)


def moving(efficiency: str, bytes_: int, kernels: int = 1) -> Work:
    """Return work that only moves bytes."""
    return Work(efficiency, 0, bytes_, kernels=kernels)


def flops_of(steps: Iterable[Step]) -> int:
    """Return the FLOPs of a pass."""
    return sum(step.flops for step in steps if isinstance(step, Work))
