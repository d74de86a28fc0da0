"""Help texts: plain, the options in sections, the same bytes on a terminal and in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from octopipe_cli.cli.registry import Branch, Entry

#: Help is 100 columns wide at most; the parser's own limit would be 80.
CONTEXT: Final = {"max_content_width": 100, "help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    """A command whose help groups its options by `rich_help_panel`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, a section for each panel, in the order of the signature."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                default = "Arguments" if parameter.param_type_name == "argument" else "Options"
                title = getattr(parameter, "rich_help_panel", None) or default
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Group(TyperGroup):
    """A group of commands whose help comes from the registry, in sections, without a command being built."""

    entries: Mapping[str, Entry | Branch]

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands, in the order of the registry."""
        return list(self.entries)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, a section for each panel."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, entry in self.entries.items():
            panels.setdefault(entry.panel, []).append((name, entry.help))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)
