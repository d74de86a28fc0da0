"""A run's losses and gradients beside those of one process."""

from __future__ import annotations

from octopipe_cli.run.job import Check
from octopipe_cli.run.workload import Gradients


def compared(losses: list[float], gradients: Gradients, expected_loss: float, expected: Gradients) -> Check:
    """Return how losses of the micro-batches and gradients by name compare with what is expected.

    A gradient's difference is relative to the largest entry of the expected one, so that entries near zero do not
    count for more than they weigh.
    """
    worst, where = 0.0, ""
    for name in sorted(gradients.keys() & expected.keys()):
        one, other = gradients[name].double(), expected[name].cpu().double()
        largest = float(other.abs().max()) if other.numel() else 0.0
        difference = float((one - other).abs().max()) if other.numel() else 0.0
        relative = difference / largest if largest else difference
        if not relative <= worst:  # a NaN is worse than any number
            worst, where = relative, name
    missing = tuple(sorted(gradients.keys() ^ expected.keys()))
    loss = sum(losses) / len(losses) if losses else float("nan")
    return Check(loss, expected_loss, len(gradients.keys() & expected.keys()), worst, where, missing)
