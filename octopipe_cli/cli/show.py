"""``octopipe show``: the Gantt chart and the report of a plan, from its file alone."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

import typer

from octopipe_cli.cli.output import Format, emit, emit_json, warn
from octopipe_cli.cli.replayed import PlanCluster, PlanProfile, replayed
from octopipe_cli.errors import InputError
from octopipe_cli.plan import Plan
from octopipe_cli.simulate import Timeline

PART = "Part of the chart"


def show(
    plan_file: Annotated[str, typer.Argument(metavar="PLAN", help="Plan file; - is standard input.")],
    output_format: Annotated[
        Format, typer.Option("--format", help="text: chart and report; json: the report's figures, in ns and bytes.")
    ] = Format.text,
    no_gantt: Annotated[bool, typer.Option("--no-gantt", help="Leave out the chart.")] = False,
    why: Annotated[
        bool, typer.Option("--why", help="Say why the step takes so long, and what would help, with the numbers.")
    ] = False,
    memory: Annotated[
        bool,
        typer.Option(
            "--memory", rich_help_panel="Output", help="Draw what each rank holds over time too, to the chart's axis."
        ),
    ] = False,
    width: Annotated[
        int | None,
        typer.Option(
            "--width", metavar="COLUMNS", min=1, max=10_000, help="Width, at least 60 [default: the terminal's]."
        ),
    ] = None,
    from_ms: Annotated[
        float | None,
        typer.Option("--from", metavar="MS", help="Show the time from here on, in milliseconds.", rich_help_panel=PART),
    ] = None,
    to_ms: Annotated[
        float | None,
        typer.Option("--to", metavar="MS", help="Show the time up to here, in milliseconds.", rich_help_panel=PART),
    ] = None,
    ranks: Annotated[
        str | None,
        typer.Option("--ranks", metavar="LIST", help="Show these ranks: 0,2-5.", rich_help_panel=PART),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full", help="Show all of a long step, not the pattern of its steady state once.", rich_help_panel=PART
        ),
    ] = False,
    profile: PlanProfile = None,
    cluster: PlanCluster = None,
) -> None:
    """Show the Gantt chart and the report of a plan, from its file alone.

    The timeline of a plan with --lengths follows from its profile too: --profile and --cluster.

    Example: octopipe show model.plan.json --from 100 --to 250 --ranks 0,2-5
    """
    from octopipe_cli.plan import load_plan

    if output_format is Format.json or (no_gantt and not memory):
        _refuse_parts({"--from": from_ms, "--to": to_ms, "--ranks": ranks, "--full": full or None})
    if output_format is Format.json and memory:
        raise InputError(
            "--memory draws, and --format json does not", remedy="`octopipe export --to json` has the curves"
        )
    loaded = load_plan(plan_file)
    plan, plan_file = loaded.value, loaded.file
    timeline = replayed(loaded, profile, cluster)
    chosen = None if ranks is None else parse_ranks(ranks, len(plan.ranks))
    _warn_if_stale(plan, timeline, plan_file)
    if output_format is Format.json:
        emit_json(_document(plan, timeline, why))
        return
    from octopipe_cli.render.console import glyphs_of, make_console, rendered
    from octopipe_cli.render.frame import make_frame
    from octopipe_cli.render.gantt import gantt_in
    from octopipe_cli.render.memory import memory_chart
    from octopipe_cli.render.report import report

    console = make_console(width=width)
    glyphs = glyphs_of(console)
    texts = []
    if memory or not no_gantt:
        begin, end = _nanoseconds("--from", from_ms), _nanoseconds("--to", to_ms)
        frame = make_frame(timeline, console.width, glyphs, begin or 0, end, chosen, full)
        texts += [] if no_gantt else [gantt_in(plan, frame)]
        texts += [memory_chart(frame)] if memory else []
    texts.append(report(plan, timeline, console.width, glyphs))
    if why:
        from octopipe_cli.explain import explain
        from octopipe_cli.render.why import why as why_text

        texts.append(why_text(plan, explain(plan, timeline), console.width, glyphs))
    emit(rendered(console, *texts))


def _document(plan: Plan, timeline: Timeline, why: bool) -> dict[str, Any]:
    from octopipe_cli.render.report import report_document

    document = report_document(plan, timeline)
    if why:
        from octopipe_cli.explain import explain
        from octopipe_cli.render.why_document import why_document

        document["why"] = why_document(explain(plan, timeline))
    return document


def parse_ranks(text: str, num_ranks: int) -> tuple[int, ...]:
    """Return the ranks of a list like ``0,2-5``, each once, in the order named.

    Raises
    ------
    InputError
        Where it is no such list, or names a rank that does not exist.
    """
    chosen: dict[int, None] = {}
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part, re.ASCII)
        first = int(match[1]) if match else num_ranks
        last = int(match[2]) if match and match[2] else first
        if not first <= last < num_ranks:
            raise InputError(
                "--ranks is no list of this plan's ranks",
                found=text,
                expected=f"ranks 0 to {num_ranks - 1}: single ones, or a range like 2-5, separated by commas",
            )
        chosen.update(dict.fromkeys(range(first, last + 1)))
    return tuple(chosen)


def _nanoseconds(name: str, milliseconds: float | None) -> int | None:
    if milliseconds is None:
        return None
    if not math.isfinite(milliseconds) or milliseconds < 0:
        raise InputError(f"{name} is no time", found=str(milliseconds), expected="milliseconds, 0 or more")
    return round(milliseconds * 1e6)


def _refuse_parts(options: dict[str, object]) -> None:
    """Raise where an option chooses a part of a chart that is not drawn."""
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(
            f"{given[0]} chooses a part of the chart, and there is none",
            remedy="leave out --no-gantt and --format json",
        )


def _warn_if_stale(plan: Plan, timeline: Timeline, file: str) -> None:
    said, found = plan.predicted.step_time_ns, timeline.step_time_ns
    if said != found:
        warn(f"{file} predicts a step time of {said} ns, its own orders give {found} ns: `octopipe verify` tells more")
