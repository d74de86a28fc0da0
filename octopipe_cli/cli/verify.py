"""``octopipe verify``: does a plan keep every rule?"""

from __future__ import annotations

from typing import Annotated

import typer

from octopipe_cli.cli.inputs import check_stdin
from octopipe_cli.cli.output import Format, emit, emit_json
from octopipe_cli.errors import EXIT_NO, InputError


def verify(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="The plan file; - is standard input.")],
    profile: Annotated[str, typer.Option(metavar="FILE", help="The model profile the plan was made from.")],
    cluster: Annotated[str, typer.Option(metavar="FILE", help="The cluster spec the plan was made from.")],
    format: Annotated[Format, typer.Option(help="How the findings are printed.")] = Format.text,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Is it also what they give today? As `octopipe plan --check`: 1 where not, 2 where it cannot be told.",
        ),
    ] = False,
    warm_start: Annotated[
        str | None, typer.Option(metavar="PLAN", help="With --fresh: the plan that the search began from, if it did.")
    ] = None,
) -> None:
    """Check a plan against its profile and cluster, rule by rule.

    The rules share no code with the search. Leaves with 0 where the plan is valid, 1 where it is not (each finding is
    listed), 2 where a file cannot be read.

    Example: octopipe verify llama3-8b.plan.json --profile llama3-8b.json --cluster a100-4.json
    """
    from octopipe_cli import verify as oracle
    from octopipe_cli.cluster import load_cluster
    from octopipe_cli.plan import load_plan
    from octopipe_cli.profile import load_profile

    check_stdin(PLAN=plan, profile=profile, cluster=cluster, **{"--warm-start": warm_start})
    if warm_start is not None and not fresh:
        raise InputError("--warm-start has no meaning without --fresh", remedy="add --fresh, or leave it out")
    judged = load_plan(plan)
    if fresh:
        from octopipe_cli.cli.check import tell
        from octopipe_cli.cli.freshness import judge
        from octopipe_cli.config import PlanEntry

        tell(judge(judged, PlanEntry(plan, profile, cluster, warm_start)), format)
        return
    findings = oracle.verify(judged.value, load_profile(profile), load_cluster(cluster))
    if format is Format.json:
        listed = [{"rule": finding.rule, "path": finding.path, "message": finding.message} for finding in findings]
        emit_json({"valid": not findings, "findings": listed})
    elif findings:
        lines = [f"  {finding.rule}, {finding.path}: {finding.message}" for finding in findings]
        count = "1 rule is broken" if len(findings) == 1 else f"{len(findings)} findings"
        emit("\n".join([f"{judged.file}: not valid, {count}", *lines]))
    else:
        emit(f"{judged.file}: valid")
    if findings:
        raise typer.Exit(EXIT_NO)
