"""``octopipe layout check``: a hand-written Megatron layout, judged, and what each rank would hold."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from octopipe_cli.cli.output import Format, emit, emit_json
from octopipe_cli.engines.hybrid_pattern import pattern_problems, read_pattern
from octopipe_cli.engines.megatron_layout import LETTERS, LayoutSyntaxError, Problem, layout_problems, read_layout
from octopipe_cli.engines.symbols import NAMES
from octopipe_cli.errors import EXIT_NO, InputError
from octopipe_cli.formats import show


def check(
    layout: Annotated[str, typer.Argument(metavar="STRING", help="The layout string or pattern, in quotes.")],
    ranks: Annotated[int, typer.Option(min=1, max=100_000, metavar="P", help="Pipeline ranks.")],
    layers: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Decoder layers of the model; a pattern's need not be given."),
    ] = None,
    mtp: Annotated[
        int | None, typer.Option(min=0, metavar="K", help="MTP depths of the model; of a layout 0 by default.")
    ] = None,
    hybrid: Annotated[bool, typer.Option("--hybrid", help="It is a pattern of --hybrid-layer-pattern.")] = False,
    format: Annotated[Format, typer.Option(help="How the verdict is printed.")] = Format.text,
) -> None:
    """Check a layout string of Megatron-LM's, and list what each rank holds.

    Leaves with 0 where Megatron takes it and builds what it says, 1 where not: each broken rule is named, those of
    octopipe's too where Megatron takes a string but builds something else.

    Example: octopipe layout check 'Et*3|(tt|)*29,m|L' --ranks 16 --layers 61 --mtp 1
    """
    if layers is None and not hybrid:
        raise InputError("--layers is missing", expected="the number of decoder layers", remedy="give --layers N")
    stages: tuple[str, ...] = ()
    try:
        if hybrid:
            pattern = read_pattern(layout)
            problems = list(pattern_problems(pattern, ranks, layers, mtp))
            stages = pattern.on_ranks(ranks)
        else:
            stages = read_layout(layout)
            problems = list(layout_problems(stages, ranks, layers, mtp or 0))
    except LayoutSyntaxError as error:
        problems = [error.problem]
    rows = [] if not stages or len(stages) % ranks else _rows(stages, ranks, hybrid)
    if hybrid and rows and pattern.mtp:
        rows[-1]["holds"] += ["mtp"] * len(pattern.mtp)
    if format is Format.json:
        emit_json(_document(layout, ranks, problems, rows))
    else:
        emit(_text(layout, problems, rows, len(stages) // ranks))
    if problems:
        raise typer.Exit(EXIT_NO)


def _rows(stages: tuple[str, ...], ranks: int, hybrid: bool) -> list[dict[str, Any]]:
    """Return a row a stage, rank after rank: its layers (of the decoder, from 0) and what it holds, in words."""
    rows: list[dict[str, Any]] = []
    at = 0
    for number, letters in enumerate(stages):
        count = len(letters) if hybrid else letters.count("t")
        holds = [(NAMES if hybrid else LETTERS)[letter] for letter in letters]
        rows.append({"rank": number % ranks, "stage": number, "layers": [at, at + count], "holds": holds})
        at += count
    if hybrid:
        rows[0]["holds"].insert(0, "embedding")
        rows[-1]["holds"].append("head")
    return sorted(rows, key=lambda row: (row["rank"], row["stage"]))


def _document(layout: str, ranks: int, problems: list[Problem], rows: list[dict[str, Any]]) -> dict[str, Any]:
    listed = [{"rule": problem.rule, "message": problem.message, "megatron": problem.megatron} for problem in problems]
    return {"layout": layout, "ranks": ranks, "valid": not problems, "problems": listed, "stages": rows}


def _text(layout: str, problems: list[Problem], rows: list[dict[str, Any]], per_rank: int) -> str:
    from octopipe_cli.render.console import glyphs_of, make_console, rendered
    from octopipe_cli.render.held import layers_text, table_of
    from octopipe_cli.words import kinds_text

    said = f"{show(layout)}: " + ("Megatron builds what it says" if not problems else "no")
    if not problems:
        said += f", {per_rank} stage{'s' * (per_rank > 1)} a rank"
    elif not any(problem.megatron for problem in problems):
        said += ", Megatron takes it but builds something else"
    lines = [said, *(f"  {problem.rule}: {problem.message}" for problem in problems)]
    if rows:
        console = make_console()
        glyphs = glyphs_of(console)
        cells = []
        for row, before in zip(rows, [None, *rows], strict=False):
            again = before is not None and before["rank"] == row["rank"]
            held = glyphs.name(kinds_text(row["holds"]) or "nothing")
            cells.append(["" if again else str(row["rank"]), str(row["stage"]), layers_text(*row["layers"]), held])
        lines.append(rendered(console, table_of(cells, console.width)).rstrip("\n"))
    return "\n".join(lines)
