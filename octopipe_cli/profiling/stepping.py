"""What a device does after its last action: gradients are reduced over the replicas, the optimizer steps."""

from __future__ import annotations

from collections.abc import Iterable

from octopipe_cli.profiling.hardware import Hardware
from octopipe_cli.profiling.memory import STATE_BYTES, Weights, replicas_of
from octopipe_cli.profiling.operations import Exchange, Work, moving
from octopipe_cli.profiling.roofline import exchange_seconds, pass_time
from octopipe_cli.profiling.setting import ELEMENT, Setting

#: Muon's Newton-Schulz iterations a step (its authors' default).
NEWTON_SCHULZ_STEPS = 5


def step_seconds(weights: Iterable[Weights], setting: Setting, hardware: Hardware, hidden: int) -> float:
    """Return how long the gradient reduction and the optimizer step of a layer take.

    Without ZeRO the gradients are all-reduced; with it they are reduce-scattered, the updated weights gathered
    (1910.02054; with ZeRO 3 they are gathered where they are used). Nothing is overlapped with the backward: in a
    pipeline a rank's last gradient is complete only at its last action.
    """
    total = 0.0
    for part in weights:
        for count, experts in ((part.dense, False), (part.expert, True)):
            if count:
                total += reduction_seconds(count, setting, hardware, experts)
                total += _optimizer_seconds(count, part.matrices, setting, hardware, hidden, experts)
    return total


def reduction_seconds(count: int, setting: Setting, hardware: Hardware, experts: bool = False) -> float:
    """Return how long the gradients of so many weights take to be reduced over their replicas."""
    replicas = replicas_of(setting, experts)
    stride = setting.tensor_parallel * (setting.expert_parallel if experts else 1)
    gradients = count * setting.gradient_element
    if setting.zero == 0:
        return exchange_seconds(Exchange("all_reduce", gradients, replicas, stride), hardware)
    seconds = exchange_seconds(Exchange("reduce_scatter", gradients, replicas, stride), hardware)
    if setting.zero < 3:
        seconds += exchange_seconds(Exchange("all_gather", ELEMENT * count, replicas, stride), hardware)
    return seconds


def _optimizer_seconds(
    count: int, matrices: bool, setting: Setting, hardware: Hardware, hidden: int, experts: bool
) -> float:
    """Return the optimizer's time, bound by memory but for Muon's products.

    Bytes a weight: the states read and written, the gradient read twice (norm, update), the 16-bit weight written.
    Muon: 5 iterations of 2 (2 m^2 n) + 2 m^3 FLOPs for an m x n matrix, at most 6 m a weight, m taken as the model's
    width.
    """
    if setting.zero >= 1:
        count = -(-count // replicas_of(setting, experts))
    name = "adam" if setting.optimizer == "muon" and not matrices else setting.optimizer
    moved = count * (2 * STATE_BYTES[name] + 2 * setting.gradient_element + ELEMENT)
    steps = [moving("optimizer", moved)]
    if name == "muon":
        steps.append(Work("gemm_forward", NEWTON_SCHULZ_STEPS * 6 * hidden * count))
    return pass_time(steps, hardware).seconds
