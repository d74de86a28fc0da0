"""``octopipe diff --kinds``: the ids of all changes, for those who set thresholds and effects."""

from __future__ import annotations

import typer

from octopipe_cli.cli.output import emit


def show_kinds(wanted: bool) -> None:
    """Print the table of the kinds of change and leave, where it is asked for."""
    if not wanted:
        return
    from octopipe_cli.diff.kinds import KINDS
    from octopipe_cli.render.console import make_console, rendered
    from octopipe_cli.render.grid import grid, joined

    console = make_console()
    rows = [[kind.id, kind.effect, kind.unit or "", kind.description] for kind in KINDS.values()]
    emit(rendered(console, joined(grid(["id", "effect", "threshold", "meaning"], rows, "lllw", console.width))))
    raise typer.Exit
