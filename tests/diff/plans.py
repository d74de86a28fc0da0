"""A small hybrid model on two ranks, and plans of it that differ in one thing each."""

from __future__ import annotations

from typing import Any

import msgspec

from octopipe_cli.conversion import convert
from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import Action, Orders, Plan, plan_document, sealed
from tests.editing import edited
from tests.instances import Instance, plan_from

GIB = 2**30
LAYERS = ("embedding", "mamba", "mlp", "mamba", "mlp", "attention", "mlp", "mamba", "mlp", "head")
TIMES = {"embedding": (1, 1, 1), "mamba": (2, 2, 1), "mlp": (3, 3, 2), "attention": (4, 4, 3), "head": (5, 5, 4)}
ROLES = {"embedding": "embedding", "head": "head"}


def profile(layers: tuple[str, ...] = LAYERS, **changes: Any) -> dict[str, Any]:
    """Return the model: `changes` replaces values at paths, dots written as two underscores."""
    kinds = {
        kind: {
            "state_bytes": GIB,
            "activation_bytes": GIB // 8,
            "weight_activation_bytes": GIB // 16,
            "output_bytes": GIB // 64,
            "role": ROLES.get(kind, "decoder"),
            "times": {"a100": dict(zip(("forward_ms", "backward_input_ms", "backward_weight_ms"), times, strict=True))},
        }
        for kind, times in TIMES.items()
    }
    document = {"schema": "octopipe.profile", "version": 1, "name": "hybrid", "kinds": kinds, "layers": list(layers)}
    return edited(document, {path.replace("__", "."): value for path, value in changes.items()})


def cluster(num_ranks: int = 2, **changes: Any) -> dict[str, Any]:
    """Return the cluster, a group for each rank."""
    ranks = [{"hardware": "a100", "memory_gib": 16, "node": 0} for _ in range(num_ranks)]
    document = {"schema": "octopipe.cluster", "version": 1, "name": "pair", "ranks": ranks}
    return edited(document, {path.replace("__", "."): value for path, value in changes.items()})


def all_forward_first(ranks: tuple[int, ...], num_microbatches: int, split: bool = False) -> Orders:
    """Return GPipe's orders for any placement: stage after stage forward, and back again; W right after I."""
    orders: list[list[Action]] = [[] for _ in range(max(ranks) + 1)]
    for stage, rank in enumerate(ranks):
        orders[rank] += [Action(stage, "F", m) for m in range(num_microbatches)]
    for stage, rank in reversed(list(enumerate(ranks))):
        for m in range(num_microbatches):
            orders[rank] += [Action(stage, "I", m), Action(stage, "W", m)] if split else [Action(stage, "B", m)]
    return tuple(map(tuple, orders))


def plan(
    *,
    model: dict[str, Any] | None = None,
    machine: dict[str, Any] | None = None,
    cuts: tuple[int, ...] = (0, 3, 5, 8, 10),
    ranks: tuple[int, ...] = (0, 1, 0, 1),
    recompute: tuple[bool, ...] | None = None,
    num_microbatches: int = 3,
    orders: Orders | None = None,
    edits: dict[str, Any] | None = None,
    **request: Any,
) -> Plan:
    """Return a plan with the figures of its orders; `edits` replaces values of its document after that."""
    instance = Instance(
        model or profile(),
        machine or cluster(),
        Assignment(cuts, ranks, recompute or (False,) * len(ranks)),
        orders or all_forward_first(ranks, num_microbatches),
        num_microbatches,
    )
    made = msgspec.structs.replace(plan_from(instance, **request), created_by="octopipe 0.1.0")
    return convert(edited(plan_document(made), edits), Plan, "plan") if edits else made


def sealed_plan(**changes: Any) -> Plan:
    """Return a plan with its content digest."""
    return sealed(plan(**changes))
