"""``octopipe diff``: what changed from one plan to another, and whether that is worse."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from octopipe_cli.cli.inputs import check_stdin
from octopipe_cli.cli.output import Format, emit, emit_json
from octopipe_cli.errors import EXIT_NO


class FailOn(str, Enum):
    """Which changes make the command fail."""

    any = "any"
    regression = "regression"
    never = "never"


def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The old plan file; - is standard input.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new plan file.")],
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Which changes make it leave with 1.")] = (
        FailOn.regression
    ),
    output_format: Annotated[Format, typer.Option("--format", help="How the changes are printed.")] = Format.text,
) -> None:
    """Compare two plans: times, memory, partition, placement, orders, request and inputs.

    Example: octopipe diff old.plan.json new.plan.json --fail-on regression
    """
    from octopipe_cli.diff.change import PlanDiff
    from octopipe_cli.diff.compare import compare_plans
    from octopipe_cli.plan import load_plan

    check_stdin(OLD=old, NEW=new)
    before, after = load_plan(old), load_plan(new)
    changes = compare_plans(before.value, after.value)
    wanted = {"any": ("regression", "improvement", "neutral"), "regression": ("regression",), "never": ()}[
        fail_on.value
    ]
    failing = [change for change in changes if change.effect in wanted]
    reports = [PlanDiff(before.file, after.file, before.value, after.value, changes, failing)]
    if output_format is Format.json:
        from octopipe_cli.render.diff_json import document

        emit_json(document(reports))
    else:
        from octopipe_cli.render.diff_text import text

        emit(text(reports))
    if failing:
        raise typer.Exit(EXIT_NO)
