"""Comparisons to write down: of small plans, and of plans whose names are hostile."""

from __future__ import annotations

from typing import Any

import msgspec

from octopipe_cli.diff.change import Change, PlanDiff
from octopipe_cli.diff.compare import added_plan, compare_plans, removed_plan
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.plan import Action, InputFile, Plan, PredictedRank, write_orders
from tests.render.plans import DIGEST, MS, make_plan, replay, v_plan, with_figures

#: What breaks out of terminals, tables, tags, comments and commands where it is not escaped.
HOSTILE = (
    "\x1b[31m|<b>x</b>`@all`\n::error::x\r\n%0A#1 !2 GH-3 [a](https://evil.test) ![i](x) www.a.test "
    "*b* __c__ ~~d~~ $e$ </details> -->]]>\u202e\x00"
)


def figured(plan: Plan) -> Plan:
    """Return a plan with all the figures its orders give."""
    plan = with_figures(plan)
    timeline = replay(plan)
    ranks = [
        PredictedRank(
            rank=rank,
            busy_ns=timeline.busy_ns[rank],
            peak_memory_bytes=timeline.peak_memory_bytes[rank],
            first_start_ns=timeline.first_start_ns(rank),
            last_end_ns=timeline.last_end_ns(rank),
        )
        for rank in range(len(plan.ranks))
    ]
    return msgspec.structs.replace(plan, predicted=msgspec.structs.replace(plan.predicted, ranks=ranks))


def before() -> Plan:
    return figured(v_plan())


def after() -> Plan:
    """Return the same with a head of twice the time (stage 7), a cut moved and rank 3 in another order."""
    plan = v_plan()
    stages = list(plan.stages)
    slow = {kind: 2 * time for kind, time in stages[7].action_ns.items()}
    stages[7] = msgspec.structs.replace(stages[7], action_ns=slow)
    stages[1] = msgspec.structs.replace(stages[1], layers=(2, 5), kinds=["mamba", "mlp", "mamba"])
    stages[2] = msgspec.structs.replace(stages[2], layers=(5, 6), kinds=["mlp"])
    digest = DIGEST.replace("0", "1")
    inputs = msgspec.structs.replace(plan.inputs, profile=InputFile(name="toy", digest=digest))
    orders = [*plan.orders]
    last = " ".join(orders[3]).split()
    last[-1], last[-2] = last[-2], last[-1]
    orders[3] = [" ".join(last)]
    return figured(msgspec.structs.replace(plan, stages=stages, inputs=inputs, orders=orders))


def regression(old: Plan | None = None, new: Plan | None = None, **files: str) -> PlanDiff:
    old, new = old or before(), new or after()
    changes = compare_plans(old, new)
    names: dict[str, Any] = {"old_file": "main:plans/toy.plan.json", "new_file": "plans/toy.plan.json"} | files
    return PlanDiff(**names, old=old, new=new, changes=changes, failing=worse(changes))


def unchanged() -> PlanDiff:
    return PlanDiff("main:plans/same.plan.json", "plans/same.plan.json", before(), before(), [], [])


def added() -> PlanDiff:
    plan = before()
    return PlanDiff(None, "plans/new.plan.json", None, plan, added_plan(plan, Thresholds()), [])


def removed() -> PlanDiff:
    plan = before()
    return PlanDiff("main:plans/gone.plan.json", None, plan, None, removed_plan(plan, Thresholds()), [])


def every() -> list[PlanDiff]:
    return [unchanged(), removed(), regression(), added()]


def hostile() -> PlanDiff:
    """Return a comparison in which every name and text is hostile."""
    old = before()
    inputs = msgspec.structs.replace(old.inputs, profile=InputFile(name=HOSTILE, digest=DIGEST))
    new = msgspec.structs.replace(old, inputs=inputs)
    changes = [
        Change("profile-changed", "regression", "$.inputs.profile", HOSTILE, HOSTILE, HOSTILE, (HOSTILE,)),
        Change("field-changed", "neutral", f'$["{HOSTILE}"]', HOSTILE, None, None, (HOSTILE, "1. x", "# x", "- x")),
    ]
    return PlanDiff(f"{HOSTILE}.json", f"plans/{HOSTILE}.json", old, new, changes, changes[:1])


def worse(changes: list[Change]) -> list[Change]:
    return [change for change in changes if change.effect == "regression"]


def many(count: int, text: str = "text") -> PlanDiff:
    """Return a comparison of so many changes, every second of which fails."""
    plan = before()
    changes = [
        Change("order-changed", "neutral", f"$.orders[{n}]", f"{n} {text}", None, None, (text, text))
        for n in range(count)
    ]
    return PlanDiff("old.json", "new.json", plan, plan, changes, changes[::2])


def solo(num_microbatches: int, forward_ms: int) -> Plan:
    """Return a plan of one rank."""
    actions = [Action(0, kind, m) for m in range(num_microbatches) for kind in ("F", "B")]  # type: ignore[arg-type]
    plan = make_plan([0], (tuple(actions),), {"F": forward_ms * MS, "B": MS}, num_microbatches=num_microbatches)
    assert plan.orders == write_orders([actions])
    return figured(plan)
