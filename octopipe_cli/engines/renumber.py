"""Micro-batches renumbered: they are alike, so a plan is as fast under any numbers."""

from __future__ import annotations

from octopipe_cli.plan import Action, Orders


def by_last_stage(orders: Orders) -> Orders:
    """Return the orders with micro-batches numbered as the last stage runs their forwards.

    PyTorch's runtime takes losses in that order (torch/distributed/pipelining/schedules.py, `_internal_losses`). Every
    action keeps its place.
    """
    last = max(action.stage for actions in orders for action in actions)
    forwards = [a.microbatch for actions in orders for a in actions if (a.stage, a.kind) == (last, "F")]
    number = {microbatch: place for place, microbatch in enumerate(forwards)}
    return tuple(
        tuple(Action(stage, kind, number[microbatch]) for stage, kind, microbatch in actions) for actions in orders
    )
