"""What an engine cannot run is refused, with the rule that stands against it and the nearest plan it can run."""

from __future__ import annotations

from collections.abc import Mapping

from octopipe_cli.engines import why_not
from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.export.nearest import nearest
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Engine, Plan
from octopipe_cli.replay import replay
from octopipe_cli.simulate import Timeline


def check_runs(plan: Loaded[Plan], engine: Engine, symbols: Mapping[str, str] | None = None) -> Timeline:
    """Return the timeline of a plan that an engine runs.

    Raises
    ------
    InvalidPlanError
        Where the plan does not make a whole, or breaks a rule of the engine: the first rule, the names of all others,
        and in the remedy the nearest plan that the engine runs.
    """
    timeline = replay(plan.value, plan.file)
    violations = why_not(plan.value, engine, symbols)
    if violations:
        first, *others = violations
        more = list(dict.fromkeys(violation.rule for violation in others if violation.rule != first.rule))
        raise InvalidPlanError(
            f"{engine} cannot run this plan, rule {first.rule}: {first.message}",
            file=plan.file,
            path=first.path,
            found=f"other rules it breaks: {', '.join(more)}" if more else None,
            remedy=nearest(plan.value, engine, {violation.rule for violation in violations}, timeline),
        )
    return timeline
