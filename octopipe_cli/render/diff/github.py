"""A comparison of plans as GitHub workflow commands, which become annotations of the plan files' lines.

https://docs.github.com/en/actions/reference/workflows-and-actions/workflow-commands
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from octopipe_cli.diff.change import Change, PlanDiff
from octopipe_cli.render.diff.headline import groups, name_of, summary, verdict
from octopipe_cli.render.diff.interface import DiffFormat
from octopipe_cli.render.diff.places import line_of
from octopipe_cli.words import visible

Level = Literal["error", "warning", "notice"]

#: GitHub shows so many annotations of a level and step; the last of ours then counts the rest.
MOST: Final = 10
_LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "notice")


class _Annotation(NamedTuple):
    """A message at a JSON path of a file; its text is None where there is none to find the line in."""

    level: Level
    file: str
    title: str
    message: str
    text: str | None = None
    path: str = "$"


class GithubFormat(DiffFormat):
    """Annotations: ``error`` for changes that fail, ``warning`` for other regressions, ``notice`` for the rest.

    Parameters
    ----------
    text_of
        Returns the text of a plan's file, None where there is none to point into.
    root
        The folder that GitHub's file names start from; None where they start from the current one.
    """

    def __init__(self, text_of: Callable[[str], str | None], root: str | None = None) -> None:
        self._text_of = text_of
        self._root = root

    def format(self, reports: Sequence[PlanDiff]) -> str:
        """Return the commands, a line each, errors first."""
        changed = [report for report in reports if report.changes]
        found = [self._headline(report) for report in changed]
        found += [annotation for report in changed for annotation in self._annotations(report)]
        lines: list[str] = []
        for level in _LEVELS:
            alike = [annotation for annotation in found if annotation.level == level]
            if len(alike) > MOST:
                rest = len(alike) - MOST + 1
                message = f"{rest} more: `octopipe diff` lists them all"
                alike = [*alike[: MOST - 1], alike[MOST - 1]._replace(title="octopipe", message=message, text=None)]
            lines += map(_command, alike)
        return "".join(f"{line}\n" for line in lines)

    def _headline(self, report: PlanDiff) -> _Annotation:
        message = f"{verdict(report)}; {summary(report)}"
        return _Annotation("notice", self._file(name_of(report)), "octopipe diff", message)

    def _annotations(self, report: PlanDiff) -> Iterator[_Annotation]:
        name = name_of(report)
        text = None if report.new is None else self._text_of(name)
        for group in groups(report):
            level: Level = "error" if group.fails else "warning" if group.effect == "regression" else "notice"
            for change in group.changes:
                title, message = f"octopipe {change.id}", _message(change)
                yield _Annotation(level, self._file(name), title, message, text, change.path)

    def _file(self, name: str) -> str:
        """Return a file as GitHub names it; git names those of a revision (``main:plans/a.json``) from the root too."""
        _, colon, path = name.partition(":")
        if colon and path and not os.path.exists(name):
            return visible(path)
        return visible(name if self._root is None else os.path.relpath(name, self._root))


def _command(annotation: _Annotation) -> str:
    line = 1 if annotation.text is None else line_of(annotation.text, annotation.path)
    properties = [("file", annotation.file), ("line", str(line)), ("title", annotation.title)]
    written = ",".join(f"{name}={_escaped(text, ':,')}" for name, text in properties)
    return f"::{annotation.level} {written}::{_escaped(annotation.message)}"


def _message(change: Change) -> str:
    return "\n".join(visible(line) for line in (change.message, *change.details))


def _escaped(text: str, more: str = "") -> str:
    """Return a text in which nothing can end the command, or a property of it."""
    return "".join(f"%{ord(sign):02X}" if sign in "%\r\n" + more else sign for sign in text)
