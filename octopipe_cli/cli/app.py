"""The tree of commands, each built when it is invoked."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperOption

from octopipe_cli.cli.help import CONTEXT, Command, Group
from octopipe_cli.cli.registry import ROOT, Branch, Entry


class Commands(Mapping[str, Any]):
    """The commands of a branch: all names at once, each command when it is asked for."""

    def __init__(self, entries: Mapping[str, Entry | Branch]) -> None:
        self._entries = entries
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        """Return the command of a name, built; raises KeyError."""
        if name not in self._built:
            entry = self._entries[name]
            self._built[name] = _group(name, entry) if isinstance(entry, Branch) else _leaf(name, entry)
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@functools.cache
def command() -> Any:
    """Return the whole command line as one command."""
    # The flag is answered before the tree is built; here it is listed.
    version = TyperOption(
        param_decls=["--version"], is_flag=True, expose_value=False, help="Print the version and leave."
    )
    return _group("octopipe", ROOT, params=[version])


def _group(name: str, branch: Branch, **more: Any) -> Any:
    group: Any = Group(
        name=name,
        help=f"{branch.help}\n\nExample: {branch.example}",
        context_settings=dict(CONTEXT),
        rich_markup_mode=None,
        **more,
    )
    group.entries = branch.commands
    group.commands = Commands(branch.commands)
    return group


def _leaf(name: str, entry: Entry) -> Any:
    module, _, function = entry.function.partition(":")
    app = typer.Typer(rich_markup_mode=None, add_completion=False)
    app.command(name, cls=Command, context_settings=dict(CONTEXT))(
        getattr(import_module(f"octopipe_cli.cli.{module}"), function)
    )
    return typer.main.get_command(app)
