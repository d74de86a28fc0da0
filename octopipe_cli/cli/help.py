"""Help texts: plain, the options in sections, the same bytes on a terminal and in a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from typer import Abort
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from octopipe_cli.cli.registry import Branch, Entry

INPUTS, ENGINE, SEARCH, RUN, OUTPUT, OTHER = "Inputs", "Engine", "Search", "Run", "Output", "Options"

#: The section of options that several commands have; an option's own `rich_help_panel` comes before.
PANELS: Final = {
    name: panel
    for panel, names in {
        INPUTS: "num_microbatches profile cluster plan hardware measured layout base every ranks layers mtp hybrid "
        "lengths tokens",
        ENGINE: "engine recompute backward placement max_stages_per_rank group_size to symbol comms",
        SEARCH: "effort seed time_limit jobs fresh warm_start",
        RUN: "device dtype kernels repeats timed steps scale timeout sequence_length micro_batch_size",
        OUTPUT: "output format output_format name note no_gantt gantt width why trace granularity take_larger",
    }.items()
    for name in names.split()
}

#: Help is 100 columns wide at most; the parser's own limit would be 80.
CONTEXT: Final = {"max_content_width": 100, "help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    """A command whose help groups its arguments and options in sections."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; every error knows the command it is about."""
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if getattr(error, "ctx", ctx) is None:
                error.ctx = ctx  # type: ignore[attr-defined]
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command; Ctrl-C is told from an exit with its code, so that something is said."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Abort from None

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options in sections: inputs and engine first, output last, others in order."""
        sections: dict[str, list[tuple[str, str]]] = {INPUTS: [], ENGINE: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                default = INPUTS if parameter.param_type_name == "argument" else PANELS.get(parameter.name or "", OTHER)
                sections.setdefault(getattr(parameter, "rich_help_panel", None) or default, []).append(record)
        for title in (OUTPUT, OTHER):  # these come last
            sections[title] = sections.pop(title, [])
        for title, records in sections.items():
            if not records:
                continue
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
