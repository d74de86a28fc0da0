"""``octopipe diff --kinds``: the ids of all changes, for those who set thresholds and effects."""

from __future__ import annotations

import typer

from octopipe_cli.cli.output import emit


def show_kinds(wanted: bool) -> None:
    """Print the table of the kinds of change and leave, where it is asked for."""
    if not wanted:
        return
    from octopipe_cli.diff.kinds import KINDS

    width = max(map(len, KINDS))
    rows = [("id".ljust(width), "effect", "threshold", "meaning")]
    rows += [(kind.id.ljust(width), kind.effect, kind.unit or "", kind.description) for kind in KINDS.values()]
    emit("\n".join(f"{name}  {effect:<11}  {unit:<9}  {meaning}" for name, effect, unit, meaning in rows))
    raise typer.Exit
