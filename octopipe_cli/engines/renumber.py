"""Micro-batches and ranks renumbered."""

from __future__ import annotations

import msgspec

from octopipe_cli.plan import Action, Orders, Plan


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


def along_model(plan: Plan) -> Plan:
    """Return a plan whose ranks are numbered by their places along the model; itself where they are already.

    Engines number the ranks of a pipeline so; which device has which number is for the launcher to say.
    """
    order = plan.rank_order
    if order is None or sorted(order) != list(range(len(plan.ranks))):
        return plan
    place = {rank: at for at, rank in enumerate(order)}
    predicted = {record.rank: record for record in plan.predicted.ranks}
    records = [msgspec.structs.replace(predicted[rank], rank=at) for at, rank in enumerate(order) if rank in predicted]
    return msgspec.structs.replace(
        plan,
        rank_order=None,
        ranks=[plan.ranks[rank] for rank in order],
        orders=[plan.orders[rank] for rank in order],
        stages=[msgspec.structs.replace(stage, rank=place.get(stage.rank, stage.rank)) for stage in plan.stages],
        predicted=msgspec.structs.replace(plan.predicted, ranks=records),
    )
