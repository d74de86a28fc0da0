"""A comparison of plans as text for people, with colours and charts where the console takes them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.text import Text

from octopipe_cli.diff.change import Change, PlanDiff
from octopipe_cli.render.console import glyphs_of, rendered
from octopipe_cli.render.diff.bars import changed_ranks
from octopipe_cli.render.diff.headline import Group, groups, subject, summary, verdict
from octopipe_cli.render.diff.interface import DiffFormat
from octopipe_cli.render.grid import joined

_STYLES = {"regression": "yellow", "improvement": "green", "neutral": ""}
_FAILS = "bold red"


class TextFormat(DiffFormat):
    """Text: the summary line, the changes by group, the ranks that changed, before above after."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._glyphs = glyphs_of(console)

    def format(self, reports: Sequence[PlanDiff]) -> str:
        """Return the comparisons one after another, and where there are several, a line that counts them."""
        texts = [joined(self._lines(report)) for report in reports]
        if len(reports) != 1:
            texts.append(joined([_count(reports)]))
        return rendered(self._console, *texts)

    def _lines(self, report: PlanDiff) -> Iterator[Text]:
        style = _FAILS if report.failing else "bold"
        yield from self._wrapped(f"{subject(report)}: {verdict(report)}", style)
        yield from self._wrapped(summary(report))
        for group in groups(report):
            yield Text()
            yield from self._group(group)
        chart = list(changed_ranks(report, self._console.width, self._glyphs))
        if chart:
            yield Text()
            yield from chart

    def _group(self, group: Group) -> Iterator[Text]:
        style = _FAILS if group.fails else _STYLES[group.effect]
        yield Text(group.name, style=style or "bold")
        for change in group.changes:
            yield from self._change(change, "! " if group.fails else "  ", style)

    def _change(self, change: Change, mark: str, style: str) -> Iterator[Text]:
        head = f"{mark}{change.id}"
        first, *more = self._wrapped(f"{head}: {change.message}", indent=4)
        first.stylize(style, 0, len(head))
        yield from (first, *more)
        for detail in change.details:
            yield from self._wrapped(f"      {detail}", "dim", indent=8)

    def _wrapped(self, text: str, style: str = "", indent: int = 2) -> list[Text]:
        shown = self._glyphs.name(self._glyphs.plain(text))
        lines = textwrap.wrap(shown, self._console.width, subsequent_indent=" " * indent, break_on_hyphens=False)
        return [Text(line, style=style) for line in lines] or [Text()]


def _count(reports: Sequence[PlanDiff]) -> Text:
    """Return the line that counts the plans: how many fail, changed, stayed."""
    if not reports:
        return Text("no plan differs", style="bold")
    failing = sum(bool(report.failing) for report in reports)
    same = sum(not report.changes for report in reports)
    parts = [f"{failing} {'fails' if failing == 1 else 'fail'}"]
    parts += [f"{len(reports) - failing - same} changed", f"{same} unchanged"]
    return Text(f"{len(reports)} plans: {', '.join(parts)}", style=_FAILS if failing else "bold")
