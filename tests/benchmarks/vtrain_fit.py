"""Constants of the A100 from vTrain's measured iterations: ``python -m tests.benchmarks.vtrain_fit``.

Fits five constants on the even rows (`vtrain_error` says which) by iteratively reweighted least squares on the
logarithms, towards the least mean absolute error, starting from the shipped file: the share of the peak that matrix
products reach, the shares of the bandwidth that elementwise kernels and the optimizer reach, the host's cost of a
kernel (all in the hardware file), and of an action (`ACTION_OVERHEAD_US`). Everything else stays as its own source
says. Prints them and their errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from octopipe_cli.profiling import memory
from octopipe_cli.profiling.estimate import PASSES, steps_of
from octopipe_cli.profiling.hardware import Figure, Hardware, Share
from octopipe_cli.profiling.lowering import lower
from octopipe_cli.profiling.operations import Exchange, Operation
from octopipe_cli.profiling.roofline import exchange_seconds, pass_time
from octopipe_cli.profiling.stepping import step_seconds
from tests.benchmarks.vtrain_error import (
    ACTION_OVERHEAD_US,
    Row,
    link_of,
    measured_rows,
    row_architecture,
    summarised,
    vtrain_hardware,
)

#: Constant -> the least and the most it may be.
BOUNDS: Final = {
    "gemm": (0.4, 0.95),
    "memory": (0.3, 0.95),
    "optimizer": (0.1, 0.95),
    "host_us": (5.0, 100.0),
    "action_us": (50.0, 3000.0),
}
ROUNDS: Final = 12
#: The weight gradient's rate relative to the forward's (the hardware file says from where).
WEIGHT_RATE: Final = 0.954


def with_constants(hardware: Hardware, constants: dict[str, float]) -> Hardware:
    """Return a hardware with the fitted constants in place."""
    replace = msgspec.structs.replace
    share = {name: Share(value=constants[name], source="being fitted") for name in ("gemm", "memory", "optimizer")}
    efficiency = replace(
        hardware.efficiency,
        gemm_forward=share["gemm"],
        gemm_input=share["gemm"],
        gemm_weight=Share(value=WEIGHT_RATE * constants["gemm"], source="being fitted"),
        memory=share["memory"],
        optimizer=share["optimizer"],
    )
    host = Figure(value=constants["host_us"], source="being fitted")
    return replace(hardware, efficiency=efficiency, host_us=host)


@cache
def _lowered(row: Row) -> dict[str, tuple[list[Operation], list[memory.Weights]]]:
    architecture = row_architecture(row)
    return {
        name: (lower(layer, row.setting, row.hidden), memory.weights_of(layer, row.setting))
        for name, layer in architecture.kinds.items()
    }


def closed_form_ms(row: Row, hardware: Hardware, action_us: float, cache: dict[Row, dict[str, list[float]]]) -> float:
    """Return 1F1B's step time in closed form: one micro-batch's way and back, and M - 1 times the slowest stage.

    `cache` holds the times of layers by shape; it must be a new one for every hardware.
    """
    shape = row._replace(file="", global_batch=0, layers=1, data=1, pipeline=2, measured_ms=0.0)
    kinds = _lowered(shape)
    if shape not in cache:
        cache[shape] = {
            name: [pass_time(steps_of(operations, which), hardware).seconds for which in PASSES]
            for name, (operations, _) in kinds.items()
        }
    times = cache[shape]
    forward, input_, weight = times["layer"]
    stage = row.layers // row.pipeline * (2 * forward + input_ + weight)
    stages = np.full(row.pipeline, stage + 2 * action_us * 1e-6)
    stages[0] += sum(times["embedding"])
    stages[-1] += sum(times["head"])
    link = link_of(row, hardware)
    size = 2 * row.micro_batch * row.length * row.hidden / row.tensor
    transfer = size / (link.bandwidth_gb_per_s.value * link.efficiency.value * 1e9) + link.latency_us.value * 1e-6
    sends = np.full(row.pipeline, 2.0)
    sends[[0, -1]] = 1.0
    way = stages.sum() + 2 * (row.pipeline - 1) * transfer
    slowest = (stages + sends * transfer).max()
    step = {name: step_seconds(weights, row.setting, hardware, row.hidden) for name, (_, weights) in kinds.items()}
    tied = sum(part.dense for part in kinds["embedding"][1]) * row.setting.gradient_element
    embedding = step["embedding"] + exchange_seconds(Exchange("all_reduce", tied, 2, row.tensor * row.data), hardware)
    last = row.layers // row.pipeline * step["layer"] + embedding
    return float(way + (row.num_microbatches - 1) * slowest + last) * 1e3


def residuals(rows: Sequence[Row], hardware: Hardware, constants: dict[str, float]) -> NDArray[np.float64]:
    """Return the logarithms of estimated over measured step times."""
    cache: dict[Row, dict[str, list[float]]] = {}
    changed, action_us = with_constants(hardware, constants), constants["action_us"]
    return np.log([closed_form_ms(row, changed, action_us, cache) / row.measured_ms for row in rows])


def fit(rows: Sequence[Row], hardware: Hardware) -> dict[str, float]:
    """Return the constants of the least mean absolute residual, by damped Gauss-Newton from the shipped ones."""
    names = list(BOUNDS)
    low, high = (np.log([BOUNDS[name][side] for name in names]) for side in (0, 1))
    shares = hardware.efficiency
    figures = (shares.gemm_forward, shares.memory, shares.optimizer, hardware.host_us)
    point = np.log([*(figure.value for figure in figures), ACTION_OVERHEAD_US])

    def at(where: NDArray[np.float64]) -> NDArray[np.float64]:
        return residuals(rows, hardware, dict(zip(names, np.exp(where).tolist(), strict=True)))

    found, damping = at(point), 0.01
    for _ in range(ROUNDS):
        slopes = np.stack([(at(point + 1e-3 * axis) - found) / 1e-3 for axis in np.eye(len(names))], axis=1)
        weights = 1 / np.maximum(np.abs(found), 0.02)
        normal, gradient = slopes.T @ (slopes * weights[:, None]), slopes.T @ (found * weights)
        while damping < 1e3:
            step = -np.linalg.solve(normal + damping * np.diag(np.diag(normal) + 1e-9), gradient)
            tried = np.clip(point + np.clip(step, -0.3, 0.3), low, high)
            value = at(tried)
            if np.abs(value).mean() < np.abs(found).mean():
                point, found, damping = tried, value, max(damping / 3, 1e-4)
                break
            damping *= 4
        else:
            break
    return dict(zip(names, np.exp(point).tolist(), strict=True))


def main() -> None:
    """Print the constants found on the even rows, and the errors of both halves."""
    rows, hardware = measured_rows(), vtrain_hardware()
    constants = fit(rows[::2], hardware)
    print(", ".join(f"{name} {value:.3f}" for name, value in constants.items()))
    for half, chosen in (("even rows (fitted)", rows[::2]), ("odd rows", rows[1::2])):
        errors = summarised((np.exp(residuals(chosen, hardware, constants)) - 1).tolist())
        print(f"{half}: mean {errors.mean:.2%}, 90th percentile {errors.ninetieth:.2%}, bias {errors.bias:.2%}")


if __name__ == "__main__":
    main()
