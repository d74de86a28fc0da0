"""A comparison of plans as markdown for a pull request's comment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from octopipe_cli.diff.change import Change, PlanDiff
from octopipe_cli.render.diff.headline import Figure, figures_of, groups, subject, summary, verdict
from octopipe_cli.render.diff.interface import DiffFormat
from octopipe_cli.words import visible

#: GitHub takes comments of at most 65,536 characters.
LIMIT: Final = 65_536
#: Longest line of a change: names may have any length.
LONGEST: Final = 1_000
#: What is kept free for the notes that something was cut.
_RESERVE: Final = 500
ARROW: Final = "→"

_BREAK: Final = "\u200b"  # a blank of no width; in names from files it is escaped, so this is ours
#: What is written otherwise, in this order.
_RULES: Final = (
    (re.compile("&"), "&amp;"),
    (re.compile("<"), "&lt;"),
    (re.compile(">"), "&gt;"),
    (re.compile(r"([\\`*_\[\]|~])"), r"\\\1"),
    (re.compile(r"^(\d+)([.)])(?=\s|$)|^()([#+\-=])(?!\d)"), r"\1\3\\\2\4"),  # an item that starts as another list
    (re.compile("(@)"), rf"\1{_BREAK}"),  # mentions
    (re.compile(r"([#!]|\bGH-)(?=\d)"), rf"\1{_BREAK}"),  # issues and merge requests
    (re.compile(r"(:)(?=//)|\b(www)(?=\.)", re.IGNORECASE), rf"\1\2{_BREAK}"),  # addresses
    (re.compile(r"\$"), "&#36;"),  # mathematics
)


class MarkdownFormat(DiffFormat):
    """Markdown: the summary line, a table of figures, what fails; all other changes folded away.

    Parameters
    ----------
    limit
        The most characters; what is beyond them is cut, with a note.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit

    def format(self, reports: Sequence[PlanDiff]) -> str:
        """Return the comment: the plans that fail first, unchanged ones in one line."""
        changed = sorted((report for report in reports if report.changes), key=lambda report: not report.failing)
        room = self._limit - _RESERVE
        heads: list[str] = []
        for report in changed:
            head = "\n".join(_head(report, room)) + "\n"
            if len(head) > room:
                break
            heads.append(head)
            room -= len(head) + 1
        blocks, left_out = [], 0
        for report, head in zip(changed, heads, strict=False):
            folded = _folded(report, room)
            if len(folded) > room:
                folded, left_out = "", left_out + 1
            room -= len(folded)
            blocks.append(head + folded)
        if not reports:
            return "No plan differs.\n"
        return "\n".join([*blocks, *_notes(len(changed) - len(heads), left_out, len(reports) - len(changed))])


def _notes(cut: int, left_out: int, same: int) -> Iterator[str]:
    """Yield what is said at the end: of plans that found no room, of details, of unchanged plans."""
    if cut:
        yield f"_Cut: {_plans(cut)} more changed; `octopipe diff` shows all._\n"
    if left_out:
        yield f"_Cut: the changes of {_plans(left_out)} in full; `octopipe diff` shows them._\n"
    if same:
        yield f"{_plans(same)} unchanged.\n"


def _plans(count: int) -> str:
    return "1 plan" if count == 1 else f"{count} plans"


def _head(report: PlanDiff, room: int) -> Iterator[str]:
    """Yield what is always seen: heading, summary line, table, changes that fail."""
    yield f"### {escaped(subject(report, ARROW))}"
    yield ""
    yield f"**{escaped(verdict(report))}**: {escaped(summary(report, ARROW))}"
    yield ""
    yield "| figure | before | after | change |"
    yield "| --- | ---: | ---: | ---: |"
    for figure in figures_of(report):
        yield _row(figure)
    if report.failing:
        yield ""
        yield "**Fails:**"
        yield ""
        yield from _fitting((_item(change) for change in report.failing), room // 2)


def _row(figure: Figure) -> str:
    change = figure.change or ("changed" if figure.differs and figure.before and figure.after else "")
    return f"| {' | '.join(escaped(text) for text in (figure.name, figure.before, figure.after, change))} |"


def _folded(report: PlanDiff, room: int) -> str:
    """Return all other changes, and the details of those that fail, folded; nothing where there are none."""
    lines = []
    for group in groups(report):
        changes = [change for change in group.changes if change.details] if group.fails else group.changes
        if changes:
            title = "details of what fails" if group.fails else group.name
            lines += [f"\n**{title}**\n", *("\n".join(_with_details(change)) for change in changes)]
    if not lines:
        return ""
    head, tail = "\n<details><summary>All changes</summary>\n", "\n</details>\n"
    body = "\n".join(_fitting(lines, max(room - len(head) - len(tail), 0)))
    return head + body + "\n" + tail


def _fitting(items: Iterator[str] | Sequence[str], room: int) -> Iterator[str]:
    """Yield items as long as they fit, then a note that counts the rest."""
    every = list(items)
    for number, item in enumerate(every):
        room -= len(item) + 1
        if room < 0:
            yield f"- _cut: {len(every) - number} more; `octopipe diff` shows all_"
            return
        yield item


def _item(change: Change) -> str:
    return f"- `{change.id}`: {escaped(change.message)}"


def _with_details(change: Change) -> Iterator[str]:
    yield _item(change)
    for detail in change.details:
        yield f"  - {escaped(detail)}"


def escaped(text: str) -> str:
    """Return a text that markdown shows as it stands, in a table too, in one line: no markup, link, mention or image.

    GitHub looks for mentions, references and addresses after entities and backslashes are gone, so those are broken
    by a blank of no width.
    """
    shown = visible(text).strip()
    if len(shown) > LONGEST:
        shown = shown[: LONGEST - 4] + " ..."
    for pattern, written in _RULES:
        shown = pattern.sub(written, shown)
    return shown
