"""``octopipe verify``: does a plan keep every rule?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from octopipe_cli.cli.check import check_all, entries, entry_of, error_text, tell
from octopipe_cli.cli.inputs import check_stdin
from octopipe_cli.cli.output import Format, emit, emit_json
from octopipe_cli.errors import EXIT_INPUT, EXIT_NO, EXIT_OK, InputError
from octopipe_cli.words import visible

FILES: Final = "PLAN, --profile and --cluster"

if TYPE_CHECKING:
    from octopipe_cli.config import PlanEntry
    from octopipe_cli.verify import Finding


def verify(
    plan: Annotated[
        str | None, typer.Argument(metavar="PLAN", show_default=False, help="The plan file; - is standard input.")
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="PROFILE", show_default=False, help="The model profile the plan was made from."),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="CLUSTER", show_default=False, help="The cluster spec the plan was made from.")
    ] = None,
    format: Annotated[Format, typer.Option(help="How the findings are printed.")] = Format.text,
    fresh: Annotated[
        bool,
        typer.Option(
            "--fresh",
            help="Is it also what they give today? As `octopipe plan --check`: 1 where not, 2 where it cannot be told.",
        ),
    ] = False,
    warm_start: Annotated[
        str | None,
        typer.Option(
            metavar="PLAN",
            show_default=False,
            help="With --fresh: the plan that the search began from, if it did.",
        ),
    ] = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all",
            help="In place of PLAN, profile and cluster: all plans that the settings name ([tool.octopipe.plans] of "
            "pyproject.toml, or [plans] of octopipe.toml).",
        ),
    ] = False,
) -> None:
    """Check a plan against its profile and cluster, rule by rule.

    The rules share no code with the search. Leaves with 0 where the plan is valid, 1 where it is not (each finding is
    listed), 2 where a file cannot be read. Without --profile and --cluster they are those that the settings name for
    the plan.

    Example: octopipe verify llama3-8b.plan.json --profile llama3-8b.json --cluster a100-4.json
    """
    named = (("profile", profile), ("cluster", cluster), ("warm_start", warm_start))
    given = {name: file for name, file in named if file is not None}
    if every:
        if plan is not None or given:
            raise InputError("--all names every plan and its inputs", remedy="leave out PLAN and the files")
        if fresh:
            check_all({}, None, None, format)
        else:
            _verify_all(format)
        return
    if plan is None:
        raise InputError("missing argument 'PLAN'", remedy="name a plan, or give --all")
    for name in ("profile", "cluster"):
        if given and name not in given:
            raise InputError(f"missing option '--{name}'", remedy="give --profile and --cluster, or neither")
    check_stdin(PLAN=plan, **given)
    if warm_start is not None and not fresh:
        raise InputError("--warm-start has no meaning without --fresh", remedy="add --fresh, or leave it out")
    entry = entry_of(plan, given, FILES)
    if fresh:
        from octopipe_cli.cli.freshness import judge
        from octopipe_cli.plan import load_plan

        tell(judge(load_plan(plan), entry), format)
        return
    file, findings = _findings(entry)
    if format is Format.json:
        emit_json(_document(findings))
    else:
        emit(_text(file, findings))
    if findings:
        raise typer.Exit(EXIT_NO)


def _verify_all(format: Format) -> None:
    """Print what is wrong with every plan of the settings, whatever becomes of the others; leaves with the worst."""
    documents, code = [], EXIT_OK
    for entry in entries(FILES):
        try:
            file, findings = _findings(entry)
        except InputError as error:
            code = EXIT_INPUT
            documents.append({"plan": entry.plan, "error": dict(error.lines())})
            text = error_text(entry.plan, error)
        else:
            code = code or (EXIT_NO if findings else EXIT_OK)
            documents.append({"plan": entry.plan, **_document(findings)})
            text = _text(file, findings)
        if format is Format.text:
            emit(text)
    if format is Format.json:
        emit_json(documents)
    if code:
        raise typer.Exit(code)


def _findings(entry: PlanEntry) -> tuple[str, list[Finding]]:
    """Return the plan's file as it is shown, and the rules the plan breaks."""
    from octopipe_cli import verify as oracle
    from octopipe_cli.named import read_cluster, read_profile
    from octopipe_cli.plan import load_plan

    try:
        plan = load_plan(entry.plan)
    except InputError as error:
        if error.message == "no such file":
            error.remedy = "make the plan, or take its line out of the settings: only plans named there are checked"
        raise
    return plan.file, oracle.verify(plan.value, read_profile(entry.profile), read_cluster(entry.cluster))


def _document(findings: list[Finding]) -> dict[str, Any]:
    listed = [{"rule": finding.rule, "path": finding.path, "message": finding.message} for finding in findings]
    return {"valid": not findings, "findings": listed}


def _text(file: str, findings: list[Finding]) -> str:
    lines = [f"  {finding.rule}, {finding.path}: {finding.message}" for finding in findings]
    count = "1 rule is broken" if len(findings) == 1 else f"{len(findings)} findings"
    head = f"not valid, {count}" if findings else "valid"
    return "\n".join(map(visible, [f"{file}: {head}", *lines]))
