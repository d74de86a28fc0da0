"""Layers that compute nothing and take the plan's times: sleeps on a CPU, waits of the device on a GPU.

Each stage is ``leave(busy(x) + weights(w))``: I reaches `busy` alone, W `weights` alone, B both. On a CPU the boundary
tensor's first number is the time at which it left; who receives it waits until the transfer would be over.

Only imported where torch is there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

#: Numbers in a boundary tensor on a CPU: the time, and one that is none.
LEAST_SIZE = 2


class Part:
    """What one stage does in the action at hand, in ns; set before each action."""

    def __init__(self, sizes: tuple[int, int], lags_ns: tuple[int, int], device: Device) -> None:
        self.sizes = sizes
        self.lags_ns = lags_ns
        self.device = device
        self.busy_ns = 0
        self.weight_ns = 0


class Device:
    """Takes time, and waits for tensors that are under way: on a CPU."""

    def __init__(self, restart: Callable[[], None]) -> None:
        self.restart = restart

    def take(self, time_ns: int) -> None:
        """Let time pass."""
        if time_ns:
            time.sleep(time_ns / 1e9)

    def stamp(self, tensor: Any) -> Any:
        """Return a tensor that leaves now."""
        tensor[0, 0] = time.monotonic()
        return tensor

    def arrive(self, tensor: Any, lag_ns: int) -> None:
        """Wait until a tensor that left when it says has arrived; the action begins then."""
        if not lag_ns:
            return
        left = float(tensor[0, 0]) + lag_ns / 1e9 - time.monotonic()
        if left > 0:
            time.sleep(min(left, lag_ns / 1e9))  # a first gradient has no time in it
            self.restart()


class Gpu(Device):
    """Takes time on a GPU; links are the machine's own there."""

    def __init__(self, restart: Callable[[], None]) -> None:
        super().__init__(restart)
        cycles = 100_000_000
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(cycles)  # the first one also loads the kernel
        begin.record()
        torch.cuda._sleep(cycles)
        end.record()
        torch.cuda.synchronize()
        self.cycles_per_ns = cycles / (begin.elapsed_time(end) * 1e6)

    def take(self, time_ns: int) -> None:
        """Keep the GPU waiting for so long."""
        if time_ns:
            torch.cuda._sleep(round(time_ns * self.cycles_per_ns))

    def stamp(self, tensor: Any) -> Any:
        """Return the tensor as it is."""
        return tensor

    def arrive(self, tensor: Any, lag_ns: int) -> None:
        """Do nothing: it took its time on the link."""


class _Busy(torch.autograd.Function):
    """F, and I or B."""

    @staticmethod
    def forward(ctx: Any, given: Any, part: Part) -> Any:
        ctx.part = part
        part.device.arrive(given, part.lags_ns[0])
        part.device.take(part.busy_ns)
        return given.new_zeros(1, part.sizes[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        part = ctx.part
        part.device.take(part.busy_ns)
        return part.device.stamp(gradients[0].new_zeros(1, part.sizes[0])), None


class _Weights(torch.autograd.Function):
    """W."""

    @staticmethod
    def forward(ctx: Any, weight: Any, part: Part) -> Any:
        ctx.part = part
        return weight.new_zeros(1, part.sizes[1])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.part.device.take(ctx.part.weight_ns)
        return gradients[0].new_zeros(1), None


class _Leave(torch.autograd.Function):
    """The end of F, and the beginning of I or B."""

    @staticmethod
    def forward(ctx: Any, made: Any, part: Part) -> Any:
        ctx.part = part
        return part.device.stamp(made.clone())

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        ctx.part.device.arrive(gradients[0], ctx.part.lags_ns[1])
        return gradients[0].clone(), None


class TimedStage(torch.nn.Module):
    """The layers of one stage; the first stage has a weight before them, or there would be no gradient to wait for."""

    def __init__(self, part: Part, first: bool) -> None:
        super().__init__()
        self.part = part
        self.weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
        self.embedding = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64)) if first else None

    def forward(self, given: Any) -> Any:
        """Return the boundary tensor of the next stage."""
        if self.embedding is not None:
            given = given + self.embedding
        return _Leave.apply(_Busy.apply(given, self.part) + _Weights.apply(self.weight, self.part), self.part)
