"""``octopipe help``: pages on what several commands have in common, and any command's own help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from octopipe_cli.cli.output import emit
from octopipe_cli.cli.registry import ROOT
from octopipe_cli.errors import InputError
from octopipe_cli.formats import did_you_mean, one_of, show

PAGES: Final = ("semantics", "files", "engines", "exit-codes")


def manual(
    topic: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TOPIC]...", help="A page, or a command: semantics, profile estimate."),
    ] = None,
) -> None:
    """Explain what several commands have in common, a page each: semantics, files, engines, exit codes.

    Without a topic the pages are listed. The topic may be a command, too: its --help is printed.

    Example: octopipe help semantics
    """
    if not topic:
        emit("\n".join(f"octopipe help {name:<11}  {page(name).partition(chr(10))[0]}" for name in PAGES))
    elif topic[0] in ROOT.commands:
        from octopipe_cli.cli.app import command

        command().main([*topic, "--help"], prog_name="octopipe", standalone_mode=False)
    elif topic[0] in PAGES and len(topic) == 1:
        emit(page(topic[0]))
    else:
        raise InputError(
            f"no page or command {show(' '.join(topic))}",
            expected=f"{one_of(PAGES)}; or a command",
            remedy=did_you_mean(topic[0], [*PAGES, *ROOT.commands], "`octopipe help` lists the pages"),
        )


def page(name: str) -> str:
    """Return the text of a page."""
    text = Path(__file__).with_name("pages").joinpath(f"{name}.txt").read_text(encoding="utf-8")
    return text.replace("{engines}", _engines()).replace("{targets}", _targets()) if name == "engines" else text


def _engines() -> str:
    from octopipe_cli.engines import ENGINES

    lines = []
    for engine in ENGINES.values():
        lines += [engine.name, f"  runs it    {engine.description}", f"  placement  {engine.placement}"]
        lines += [f"  orders     {engine.orders}", f"  backward   {engine.backward}", ""]
    return "\n".join(lines)


def _targets() -> str:
    from octopipe_cli.export import TARGETS

    return "\n".join(["Targets of export:", *(f"  {t.name:<16} {t.description}" for t in TARGETS), ""])
