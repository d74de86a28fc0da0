"""The packing bound: hand-checked cases, and never above what an assignment of all layers costs."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import pytest

from octopipe_cli.plan import Request
from octopipe_cli.search.atoms import AtomTable, build_atoms
from octopipe_cli.search.packing import packing_ns

from ..instances import loaded_cluster
from .test_relaxation import layered


def table(layers: list[Any], ranks: list[dict[str, Any]], request: Request, **kinds: Any) -> AtomTable:
    cluster = {"schema": "octopipe.cluster", "version": 1, "name": "c", "ranks": ranks}
    return build_atoms(layered(layers, **kinds), loaded_cluster(cluster).value, request)


def test_whole_layers_cannot_be_shared_evenly() -> None:
    """Five layers of 3 ns on two ranks: one of them has three, after a start at 0, the other starts after one F."""
    request = Request(num_microbatches=10)
    atoms = table(
        [{"repeat": 5, "of": ["a"]}],
        [{"count": 2, "hardware": "gpu", "memory_gib": None}],
        request,
        a={"ns": (1, 1, 1)},
    )
    assert packing_ns(atoms, request, 75, 120, span=True, budget=1.0) == 90
    assert packing_ns(atoms, request, 75, 120, span=False, budget=1.0) == 90


def test_a_start_counts() -> None:
    """Six such layers: both ranks have three, and the second starts 1 ns later."""
    request = Request(num_microbatches=10)
    atoms = table(
        [{"repeat": 6, "of": ["a"]}],
        [{"count": 2, "hardware": "gpu", "memory_gib": None}],
        request,
        a={"ns": (1, 1, 1)},
    )
    assert packing_ns(atoms, request, 90, 120, span=False, budget=1.0) == 91
    assert packing_ns(atoms, request, 90, 120, span=True, budget=1.0) == 90


def test_memory_leaves_fewer_configurations() -> None:
    """A rank of 6 bytes holds two layers of 3: the other one has four."""
    request = Request(num_microbatches=10, recompute="none")
    small, large = ({"hardware": "gpu", "memory_gib": size / 2**30} for size in (6, 100))
    kind = {"ns": (1, 1, 1), "state_bytes": 2, "activation_bytes": 1}
    atoms = table([{"repeat": 6, "of": ["a"]}], [small, large], request, a=kind)
    assert packing_ns(atoms, request, 90, 200, span=True, budget=1.0) == 120


@pytest.mark.parametrize("seed", range(12))
def test_never_above_an_assignment(seed: int) -> None:
    """Of all assignments of layers to ranks, each rank from its earliest start on, none is faster."""
    rng = Random(seed)
    names = ["a", "b", "c"]
    kinds: Any = {name: {"ns": tuple(rng.randint(0, 9) for _ in range(3))} for name in names}
    layers = [rng.choice(names) for _ in range(rng.randint(3, 6))]
    count, number = rng.randint(2, 3), rng.randint(1, 5)
    request = Request(num_microbatches=number)
    speeds = [rng.choice((1, 2)) for _ in range(count)]
    atoms = table(
        layers, [{"hardware": "gpu", "speed": speed, "memory_gib": None} for speed in speeds], request, **kinds
    )
    best = 1 << 40
    for ranks in product(range(count), repeat=len(layers)):
        if len(set(ranks)) < count:
            continue
        loads, starts = [0] * count, [-1] * count
        path = 0
        for layer, rank in enumerate(ranks):
            time = atoms.times[atoms.class_of[rank]][atoms.type_of[layer]]
            starts[rank] = path if starts[rank] < 0 else starts[rank]
            loads[rank] += number * (time.forward + time.backward) + time.step
            path += time.forward
        best = min(best, max(start + load for start, load in zip(starts, loads, strict=True)))
    assert packing_ns(atoms, request, 0, 2 * best, span=False, budget=1.0) <= best
