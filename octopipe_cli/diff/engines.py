"""Which engines run the plan: gained or lost."""

from __future__ import annotations

from collections.abc import Iterator

from octopipe_cli.diff.change import Change
from octopipe_cli.diff.thresholds import Thresholds
from octopipe_cli.engines import ENGINES, Violation, why_not
from octopipe_cli.errors import InputError, InvalidPlanError
from octopipe_cli.plan import Engine, Orders, Plan
from octopipe_cli.replay import replay


def compare_engines(old: Plan, new: Plan, thresholds: Thresholds) -> Iterator[Change]:
    """Yield for each engine whether it runs one of the plans only; nothing where one of them has no timeline."""
    try:
        orders = [replay(plan, "plan").orders for plan in (old, new)]
    except (InputError, InvalidPlanError):
        return
    for engine in ENGINES:
        before, after = (_broken(plan, engine, each) for plan, each in zip((old, new), orders, strict=True))
        if before is None and after is not None:
            message = f"{engine} no longer runs the plan: {after.message}"
            yield thresholds.change("engine-lost", after.path, message, engine, None)
        elif before is not None and after is None:
            message = f"{engine} runs the plan now; it did not: {before.message}"
            yield thresholds.change("engine-gained", before.path, message, None, engine)


def _broken(plan: Plan, engine: Engine, orders: Orders) -> Violation | None:
    """Return the first rule of an engine that a plan breaks."""
    found = why_not(plan, engine, orders=orders)
    return found[0] if found else None
