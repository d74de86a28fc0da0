"""``octopipe plan --check`` and ``--check-all``: the plans of a project against the inputs they were made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer

from octopipe_cli.cli.inputs import percent
from octopipe_cli.cli.output import Format, emit, emit_json
from octopipe_cli.errors import EXIT_INPUT, EXIT_NO, EXIT_OK, InputError
from octopipe_cli.formats import show
from octopipe_cli.words import visible

if TYPE_CHECKING:
    from octopipe_cli.cli.freshness import Verdict
    from octopipe_cli.config import PlanEntry
    from octopipe_cli.plan import Request

#: What a plan's own request settles.
REQUESTED: Final = (
    "num_microbatches",
    "engine",
    "recompute",
    "effort",
    "seed",
    "backward",
    "placement",
    "objective",
    "max_stages_per_rank",
    "stability_percent",
)
#: What means nothing where no plan is written.
OF_WRITING: Final = ("output", "no_gantt")

#: How the inputs of one plan are given where no settings name them.
FILES: Final = "PROFILE, CLUSTER and --check PLAN"

_HEADS: Final = {
    "unchanged": "unchanged",
    "stale": "stale, its inputs give another plan now",
    "invalid": "not valid",
}


def check_plans(
    context: typer.Context, plan: str | None, jobs: int | None, time_limit_s: float | None, format: Format
) -> None:
    """Print whether a plan, or with None each that the settings name, is still what its inputs give.

    Raises
    ------
    InputError
        Where a plan cannot be made again, or options contradict it.
    typer.Exit
        With 1 where a plan is stale or not valid; with 2 where, of several, one cannot be made again.
    """
    given = _given(context)
    for name in OF_WRITING:
        if name in given:
            raise InputError(f"{_flag(name)} has no meaning with --check", remedy="leave it out: nothing is written")
    if plan is not None:
        tell(_judged(entry_of(plan, given), given, jobs, time_limit_s), format)
        return
    for name in ("check", "profile", "cluster", "warm_start"):
        if name in given:
            raise InputError(
                f"--check-all and {_flag(name)} contradict each other",
                remedy="the settings name the files of each plan",
            )
    check_all(given, jobs, time_limit_s, format)


def tell(verdict: Verdict, format: Format) -> None:
    """Print a verdict; raises typer.Exit with 1 where the plan is stale or not valid."""
    if format is Format.json:
        emit_json(verdict_document(verdict))
    else:
        emit(verdict_text(verdict))
    if verdict.state != "unchanged":
        raise typer.Exit(EXIT_NO)


def check_all(given: dict[str, Any], jobs: int | None, time_limit_s: float | None, format: Format) -> None:
    """Print the verdict on every plan of the settings, whatever becomes of the others.

    Raises
    ------
    typer.Exit
        With 2 where a plan cannot be made again, else with 1 where one is stale or not valid.
    """
    documents, code = [], EXIT_OK
    for entry in entries():
        try:
            verdict = _judged(entry, given, jobs, time_limit_s)
        except InputError as error:
            code = EXIT_INPUT
            documents.append({"plan": entry.plan, "state": "error", "remarks": [dict(error.lines())]})
            text = error_text(entry.plan, error)
        else:
            if verdict.state != "unchanged":
                code = code or EXIT_NO
            documents.append(verdict_document(verdict))
            text = verdict_text(verdict)
        if format is Format.text:
            emit(text)
    if format is Format.json:
        emit_json(documents)
    if code:
        raise typer.Exit(code)


def error_text(plan: str, error: InputError) -> str:
    """Return why nothing can be said of one plan among several."""
    lines = [f"  {label}: {words}" if label else f"{plan}: {words}" for label, words in error.lines()]
    return "\n".join(map(visible, lines))


def _judged(entry: PlanEntry, given: dict[str, Any], jobs: int | None, time_limit_s: float | None) -> Verdict:
    from octopipe_cli.cli.freshness import judge
    from octopipe_cli.plan import load_plan

    plan = load_plan(entry.plan)
    _check_agrees(given, plan.value.request, plan.file)
    return judge(plan, entry, jobs, time_limit_s)


def _given(context: typer.Context) -> dict[str, Any]:
    """Return the arguments and options that stand on the command line, by parameter."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name: context.params[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def _flag(name: str) -> str:
    name = name.removesuffix("_percent")
    return name.upper() if name in ("profile", "cluster") else f"--{name.replace('_', '-')}"


def entry_of(plan: str, given: dict[str, Any], files: str = FILES) -> PlanEntry:
    """Return a plan with its inputs: those on the command line, else those that the settings name."""
    from octopipe_cli.config import PlanEntry

    if "cluster" in given:
        return PlanEntry(plan, given["profile"], given["cluster"], given.get("warm_start"))
    if "profile" in given:
        raise InputError("missing argument 'CLUSTER'", remedy="give PROFILE and CLUSTER, or neither")
    import os

    for entry in entries(files):
        if os.path.abspath(entry.plan) == os.path.abspath(plan):
            return entry
    raise InputError(
        "the settings do not name this plan",
        file=plan,
        remedy=f"give {files}, or name the plan in [tool.octopipe.plans] of pyproject.toml",
    )


def entries(files: str = FILES) -> list[PlanEntry]:
    """Return the plans that the settings name; raises InputError where there is none (`files`: what else helps)."""
    from octopipe_cli.config import plan_entries, read_config

    config = read_config()
    entries = plan_entries(config) if config is not None else []
    if not entries:
        raise InputError(
            "no settings name a plan",
            expected='"a.plan.json" = { profile = "a.json", cluster = "b.json" } in [tool.octopipe.plans] of '
            "pyproject.toml, or in [plans] of octopipe.toml",
            remedy=f"add it, or give {files}",
        )
    return entries


def _check_agrees(given: dict[str, Any], request: Request, file: str) -> None:
    """Raise where an option asks for something else than the plan's own request."""
    given = dict(given)
    if "stability" in given:
        given["stability_percent"] = percent(given.pop("stability"), "--stability")
    for name in REQUESTED:
        if name in given and given[name] != getattr(request, name):
            raise InputError(
                f"{_flag(name)} contradicts the plan's own request",
                file=file,
                path=f"$.request.{name}",
                found=show(getattr(request, name)),
                expected=show(given[name]),
                remedy="leave it out: a plan is checked with its own request",
            )


def verdict_document(verdict: Verdict) -> dict[str, Any]:
    """Return a verdict as JSON."""
    remarks = [{"id": name, "path": path, "message": message} for name, path, message in verdict.remarks]
    return {"plan": verdict.file, "state": verdict.state, "remarks": remarks}


def verdict_text(verdict: Verdict) -> str:
    """Return a verdict as text, a remark a line."""
    lines = [f"  {name}, {path}: {message}" for name, path, message in verdict.remarks]
    return "\n".join(map(visible, [f"{verdict.file}: {_HEADS[verdict.state]}", *lines]))
