"""Small plans to judge: stages by their kinds, orders by any rule."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from octopipe_cli.plan import Action, Orders, Plan, Request, StageBytes, TransferTimes, parse_orders, write_orders
from octopipe_cli.profile import Role
from tests.render.plans import MS, make_plan

ROLES: dict[str, Role] = {"embedding": "embedding", "mtp": "mtp", "head": "head"}


def plan_of(stages: Sequence[Sequence[str]], ranks: Sequence[int], orders: Orders, microbatches: int) -> Plan:
    """Return a plan of stages that hold layers of these kinds; F, I, W take 10 ms a stage, transfers no time."""
    base = make_plan([0], ((Action(0, "F", 0), Action(0, "B", 0)),), {"F": MS, "B": MS}, num_microbatches=1)
    made, at = [], 0
    for kinds, rank in zip(stages, ranks, strict=True):
        stage = msgspec.structs.replace(
            base.stages[0],
            layers=(at, at + len(kinds)),
            kinds=list(kinds),
            rank=rank,
            recompute=False,
            bytes=StageBytes(),
            action_ns={"F": 10 * MS, "I": 10 * MS, "W": 10 * MS, "B": 20 * MS},
            transfer_ns=TransferTimes(forward=0, backward=0),
        )
        made.append(stage)
        at += len(kinds)
    used = dict.fromkeys(kind for kinds in stages for kind in kinds)
    return msgspec.structs.replace(
        base,
        request=Request(num_microbatches=microbatches),
        kinds={kind: ROLES.get(kind, "decoder") for kind in used},
        ranks=[base.ranks[0]] * (max(ranks) + 1),
        stages=made,
        orders=write_orders(orders),
    )


def gpt(text: str, ranks: int, orders: Orders, microbatches: int) -> Plan:
    """Return a cyclic plan of stages in layout letters: ``Et|t||tmL``."""
    names = {"E": "embedding", "t": "transformer", "m": "mtp", "L": "head"}
    stages = [[names[letter] for letter in stage] for stage in text.split("|")]
    return plan_of(stages, [number % ranks for number in range(len(stages))], orders, microbatches)


def with_stage(plan: Plan, number: int, **changes: Any) -> Plan:
    stages = list(plan.stages)
    stages[number] = msgspec.structs.replace(stages[number], **changes)
    return msgspec.structs.replace(plan, stages=stages)


def order_of(*ranks: str) -> Orders:
    return parse_orders([[rank] for rank in ranks])
