"""The command line as completion needs it: commands, options, and what each value may be."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

#: What files a metavar stands for; "json": any but plans.
FILES: Final[Mapping[str, str]] = {
    "PLAN": "plan",
    "OLD NEW": "plan",
    "PROFILE": "json",
    "PROFILE...": "json",
    "CLUSTER": "cluster",
    "CONFIG": "json",
    "HARDWARE": "json",
    "FILE": "any",
    "LOG": "any",
    "TRACE...": "any",
    "DIR": "folder",
}
MAX_HELP: Final = 76


class Value(NamedTuple):
    """What may stand somewhere: words, and files of a kind (empty: none); neither where it is free text."""

    metavar: str
    words: tuple[str, ...] = ()
    files: str = ""


class Flag(NamedTuple):
    """An option: its names, one line about it, its value where it takes one, whether it may be repeated."""

    names: tuple[str, ...]
    help: str
    value: Value | None
    repeated: bool


class Node(NamedTuple):
    """A command or a group: where it is, its commands with a line about each, options, arguments in order.

    Attributes
    ----------
    rest
        What every argument beyond `arguments` is; None where there may be none.
    """

    path: tuple[str, ...]
    commands: Mapping[str, str]
    flags: tuple[Flag, ...]
    arguments: tuple[Value, ...]
    rest: Value | None

    @property
    def valued(self) -> tuple[str, ...]:
        """Return the names of the options that take a value."""
        return tuple(name for flag in self.flags if flag.value is not None for name in flag.names)


def nodes() -> list[Node]:
    """Return every group and command, groups before what is in them; imports all commands' modules."""
    from octopipe_cli.cli.app import command

    return list(_nodes(command(), ()))


def _nodes(command: Any, path: tuple[str, ...]) -> Iterator[Node]:
    import typer

    parameters = command.get_params(typer.Context(command, help_option_names=["-h", "--help"]))
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    named = _names()
    values = tuple(_value(each, named) for each in arguments)
    repeats = bool(arguments) and arguments[-1].nargs == -1
    commands = getattr(command, "commands", {})
    yield Node(
        path,
        {name: entry.help for name, entry in command.entries.items()} if commands else {},
        tuple(_flag(each, named) for each in parameters if each.param_type_name == "option"),
        values[:-1] if repeats else values,
        values[-1] if repeats else None,
    )
    for name, child in commands.items():
        yield from _nodes(child, (*path, name))


def _flag(option: Any, named: Mapping[str, tuple[str, ...]]) -> Flag:
    value = None if option.is_flag else _value(option, named)
    # Help's names come in the order of a set.
    opts = sorted(option.opts, key=len)
    return Flag((*opts, *option.secondary_opts), short(option.help or ""), value, option.multiple)


def _value(parameter: Any, named: Mapping[str, tuple[str, ...]]) -> Value:
    metavar = parameter.metavar or parameter.name.upper()
    words = tuple(str(getattr(choice, "value", choice)) for choice in getattr(parameter.type, "choices", ()))
    if not words and re.fullmatch(r"\w+(\|\w+)+", metavar):
        words = tuple(metavar.split("|"))
    if not words and parameter.name != "output":
        words = named.get(metavar.removesuffix("..."), named.get(parameter.name, ()))
    return Value(metavar, words, FILES.get(metavar, ""))


def _names() -> dict[str, tuple[str, ...]]:
    """Return the names that ship, and others that no type knows of, by parameter."""
    from octopipe_cli.cli.manual import PAGES
    from octopipe_cli.cli.registry import ROOT
    from octopipe_cli.export import TARGETS
    from octopipe_cli.profiling.shipped import shipped_files

    hardware = tuple(shipped_files("hardware"))
    return {
        "CONFIG": tuple(shipped_files("configs")),
        "PROFILE": tuple(shipped_files("models")),
        "CLUSTER": tuple(shipped_files("clusters")),
        "hardware": hardware,
        "measured_hardware": hardware,
        "to": tuple(target.name for target in TARGETS),
        "topic": (*PAGES, *ROOT.commands),
        "device": ("cpu", "cuda"),
    }


def short(text: str) -> str:
    """Return the first sentence of a help text without its full stop, cut to a line."""
    sentence = re.split(r"(?<=\w)\.(?: |$)|;", " ".join(text.split()), maxsplit=1)[0]
    return textwrap.shorten(sentence, MAX_HELP, placeholder="...")
