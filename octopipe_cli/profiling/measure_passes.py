"""F, I, W and B of one layer: how long they take, what stays in memory between them, what they need while they run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from octopipe_cli.profiling.measure_memory import kept_bytes, workspace_bytes
from octopipe_cli.profiling.measure_model import Piece
from octopipe_cli.profiling.measure_run import Run, backward_apart, split_backward, whole_backward, why_not_split

T = TypeVar("T")
Passes = dict[str, list[float]]
WARMUP = 3


@dataclass(frozen=True)
class Measured:
    """What was measured of one layer.

    Parameters
    ----------
    milliseconds
        For F, I, W and B every repeat's time; I and W are missing where the layer takes no gradient of its input.
    splittable
        Whether PyTorch's split of the backward works; `why` says why not.
    activation_bytes, weight_activation_bytes
        What autograd keeps from F to I, and from I to W (gradients where weights branch off included), without
        weights and what all layers share.
    workspace_bytes
        The most that F, I or B need beyond that.
    parameters
        Weights of the module that was run, as a checkpoint holds them: buffers that no gradient trains with them.
    """

    milliseconds: Passes
    splittable: bool
    why: str
    activation_bytes: int
    weight_activation_bytes: int
    output_bytes: int
    workspace_bytes: int
    parameters: int

    def median(self, name: str) -> float:
        """Return the median time of a pass."""
        return statistics.median(self.milliseconds[name])

    @property
    def spread(self) -> float:
        """The widest pass's interquartile range, relative to its median."""
        return max(spread_of(values) for values in self.milliseconds.values())


def spread_of(values: list[float]) -> float:
    """Return the interquartile range relative to the median; 0 where there are too few values to tell."""
    if len(values) < 4:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return (high - low) / middle if middle > 0 else 0.0


def measure_piece(piece: Piece, device: str, repeats: int) -> Measured:
    """Return what one layer costs on a device."""
    import torch

    for weight in piece.parameters:  # a step adds to gradients that are there
        weight.grad = torch.zeros_like(weight)
    why = why_not_split(piece)
    takes_gradient = piece.make_input().requires_grad
    passes: dict[str, Callable[[Run], None]] = {"B": whole_backward}
    if takes_gradient:
        passes["split"] = split_backward if why == "" else backward_apart
    timer = _Timer(device)
    for turn in range(WARMUP + repeats):
        if turn == WARMUP:
            timer.start()
        for run in passes.values():
            run(Run(piece, timer))
    milliseconds = timer.milliseconds()
    after_forward, after_input, output = kept_bytes(piece, split=takes_gradient and why == "")
    return Measured(
        milliseconds,
        why == "",
        why,
        after_forward,
        after_input,
        0 if piece.role == "head" else output,
        workspace_bytes(piece, device, after_forward, takes_gradient and why == ""),
        sum(tensor.numel() for tensor in piece.module.state_dict().values()),
    )


class _Timer:
    """Times on the device: CUDA events on a GPU, which do not stop its queue, the clock on a CPU."""

    def __init__(self, device: str) -> None:
        self.cuda = device.startswith("cuda")
        self.found: dict[str, list[Any]] = {}
        self.running = False

    def start(self) -> None:
        """Forget the warm-up."""
        self.running = True

    def __call__(self, name: str, work: Callable[[], T]) -> T:
        """Return what the work returns."""
        begin = self._now()
        result = work()
        if self.running:
            self.found.setdefault(name, []).append((begin, self._now()))
        return result

    def _now(self) -> Any:
        if not self.cuda:
            return time.perf_counter_ns()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def milliseconds(self) -> Passes:
        """Return every time taken."""
        if not self.cuda:
            return {name: [(end - begin) / 1e6 for begin, end in pairs] for name, pairs in self.found.items()}
        import torch

        torch.cuda.synchronize()
        return {name: [begin.elapsed_time(end) for begin, end in pairs] for name, pairs in self.found.items()}
