"""Small plans to draw: made here by hand-sized rules, so that no scheduler of the package decides what tests see."""

from __future__ import annotations

import msgspec

from octopipe_cli.pipeline import pipeline_of_plan
from octopipe_cli.plan import (
    Action,
    ActionKind,
    Baseline,
    Bound,
    InputFile,
    Inputs,
    Orders,
    Plan,
    PlanRank,
    PlanStage,
    Predicted,
    Request,
    Search,
    StageBytes,
    TransferTimes,
    parse_orders,
    write_orders,
)
from octopipe_cli.simulate import Timeline, simulate

MS = 10**6
GIB = 2**30
DIGEST = "sha256:" + "0" * 64


def make_plan(
    ranks: list[int],
    orders: Orders,
    times: dict[ActionKind, int],
    *,
    num_microbatches: int,
    layers_a_stage: int = 2,
    limit_gib: int | None = 2,
    step_ns: int = 0,
    name: str = "toy",
) -> Plan:
    """Return a plan with stages that are all alike; stage 0 recomputes, in name only."""
    num_ranks = max(ranks) + 1
    stages = [
        PlanStage(
            layers=(layers_a_stage * number, layers_a_stage * (number + 1)),
            kinds=["mamba", "mlp"] if layers_a_stage == 2 else ["block"] * layers_a_stage,
            rank=rank,
            recompute=number == 0,
            bytes=StageBytes(state=GIB // 2, held=GIB // 16, weight=GIB // 32),
            action_ns=times,
            transfer_ns=TransferTimes(forward=0, backward=0),
        )
        for number, rank in enumerate(ranks)
    ]
    plan = Plan(
        schema="octopipe.plan",
        version=1,
        created_by="octopipe 0.1.0",
        inputs=Inputs(profile=InputFile(name=name, digest=DIGEST), cluster=InputFile(name="cluster", digest=DIGEST)),
        request=Request(num_microbatches=num_microbatches),
        predicted=Predicted(step_time_ns=0, span_ns=0, bubble_ratio=0.0, ranks=[]),
        bound=Bound(step_time_ns=1, gap=0.0, scope="any plan"),
        p2p="overlapped",
        kinds={"mamba": "decoder", "mlp": "decoder", "block": "decoder"},
        ranks=[
            PlanRank(
                hardware="a100", memory_limit_bytes=None if limit_gib is None else limit_gib * GIB, step_ns=step_ns
            )
        ]
        * num_ranks,
        stages=stages,
        orders=write_orders(orders),
        search=Search(stopped_by="effort", reproducible=True),
    )
    return with_figures(plan)


def with_figures(plan: Plan) -> Plan:
    """Return the plan with the figures its orders give, a bound 2 % below and a baseline at 5 / 4 of its step time."""
    timeline = replay(plan)
    step = timeline.step_time_ns
    bound = step * 100 // 102
    return msgspec.structs.replace(
        plan,
        predicted=Predicted(step_time_ns=step, span_ns=timeline.span_ns, bubble_ratio=timeline.bubble_ratio, ranks=[]),
        bound=Bound(step_time_ns=bound, gap=(step - bound) / max(bound, 1), scope="any plan", plan_ns=step),
        baseline=Baseline(schedule="1f1b", step_time_ns=step * 5 // 4, speedup=1.25, partition="balanced"),
    )


def replay(plan: Plan) -> Timeline:
    return simulate(pipeline_of_plan(plan), parse_orders(plan.orders))


def one_f_one_b(num_ranks: int, num_microbatches: int) -> Orders:
    orders = []
    for rank in range(num_ranks):
        ahead = min(num_microbatches, num_ranks - 1 - rank)
        actions = [Action(rank, "F", m) for m in range(ahead)]
        for m in range(num_microbatches):
            if m + ahead < num_microbatches:
                actions.append(Action(rank, "F", m + ahead))
            actions.append(Action(rank, "B", m))
        orders.append(tuple(actions))
    return tuple(orders)


def v_plan(**more: object) -> Plan:
    """Return a plan of 8 stages on 4 ranks in a V, 4 micro-batches, backward split; 10, 11 and 9 ms an action."""
    up = [[Action(rank, "F", m) for m in range(4)] for rank in range(4)]
    orders = []
    for rank in range(4):
        actions = list(up[rank])
        for m in range(4):
            actions += [Action(7 - rank, "F", m), Action(7 - rank, "I", m)]
        for m in range(4):
            actions += [Action(rank, "I", m), Action(7 - rank, "W", m), Action(rank, "W", m)]
        orders.append(tuple(actions))
    return make_plan(
        [0, 1, 2, 3, 3, 2, 1, 0],
        tuple(orders),
        {"F": 10 * MS, "I": 11 * MS, "W": 9 * MS, "B": 20 * MS},
        num_microbatches=4,
        **more,  # type: ignore[arg-type]
    )


def wide_plan(num_ranks: int = 32, num_microbatches: int = 200) -> Plan:
    return make_plan(
        list(range(num_ranks)),
        one_f_one_b(num_ranks, num_microbatches),
        {"F": 4 * MS, "B": 8 * MS},
        num_microbatches=num_microbatches,
        layers_a_stage=3,
        limit_gib=80,
        step_ns=5 * MS,
    )
