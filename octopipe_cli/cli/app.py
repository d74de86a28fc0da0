"""The tree of commands."""

from __future__ import annotations

import functools
from typing import Annotated, Any

import typer

from octopipe_cli.cli.calibrate import calibrate_profile
from octopipe_cli.cli.compare import compare
from octopipe_cli.cli.diff import diff
from octopipe_cli.cli.estimate import estimate
from octopipe_cli.cli.export import export
from octopipe_cli.cli.help import CONTEXT, Command, Group
from octopipe_cli.cli.layout import check as check_layout
from octopipe_cli.cli.measure import measure_profile
from octopipe_cli.cli.megatron import import_megatron
from octopipe_cli.cli.merge import merge_profiles
from octopipe_cli.cli.plan import plan
from octopipe_cli.cli.profile import import_simpipe, show_profile
from octopipe_cli.cli.run_plan import run
from octopipe_cli.cli.schema import schema
from octopipe_cli.cli.show import show
from octopipe_cli.cli.sweep import sweep
from octopipe_cli.cli.trace import import_trace
from octopipe_cli.cli.verify import verify

_VERSION = Annotated[bool, typer.Option("--version", help="Print the version and leave.")]


def _root(version: _VERSION = False) -> None:
    """Plan pipeline-parallel training of large language models: partition, placement and schedule together.

    Example: octopipe plan model.json cluster.json -m 8
    """


def _group(help_text: str, **more: Any) -> typer.Typer:
    settings = {"cls": Group, "context_settings": CONTEXT, "rich_markup_mode": None, "add_completion": False}
    return typer.Typer(help=help_text, **{**settings, **more})


@functools.cache
def command() -> Any:
    """Return the whole command line as one command."""
    app = _group(_root.__doc__ or "")
    app.callback()(_root)
    options: dict[str, Any] = {"cls": Command, "context_settings": CONTEXT}
    for name, function in (
        ("plan", plan),
        ("show", show),
        ("compare", compare),
        ("sweep", sweep),
        ("verify", verify),
        ("diff", diff),
        ("export", export),
        ("run", run),
    ):
        app.command(name, **options)(function)
    profile = _group("Make and look at model profiles.\n\nExample: octopipe profile show model.json")
    profile.command("show", **options)(show_profile)
    profile.command("estimate", **options)(estimate)
    importing = _group("Make a profile from another tool's file.\n\nExample: octopipe profile import simpipe --help")
    importing.command("simpipe", **options)(import_simpipe)
    importing.command("trace", **options)(import_trace)
    importing.command("megatron", **options)(import_megatron)
    profile.command("measure", **options)(measure_profile)
    profile.add_typer(importing, name="import")
    profile.command("calibrate", **options)(calibrate_profile)
    profile.command("merge", **options)(merge_profiles)
    app.add_typer(profile, name="profile")
    layouts = _group("Judge layouts written by hand.\n\nExample: octopipe layout check 'Et|tL' --ranks 2 --layers 2")
    layouts.command("check", **options)(check_layout)
    app.add_typer(layouts, name="layout")
    app.command("schema", **options)(schema)
    return typer.main.get_command(app)
