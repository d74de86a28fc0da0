"""The output formats of a comparison by name."""

from __future__ import annotations

import os
from enum import Enum

from octopipe_cli.errors import InputError
from octopipe_cli.formats import read_text
from octopipe_cli.render.diff.interface import DiffFormat


class DiffFormatName(str, Enum):
    """The formats there are."""

    text = "text"
    json = "json"
    markdown = "markdown"
    github = "github"
    junit = "junit"


def diff_format(name: DiffFormatName) -> DiffFormat:
    """Return a format, made for standard output and the current folder; only what it needs is loaded."""
    if name is DiffFormatName.json:
        from octopipe_cli.render.diff.document import JsonFormat

        return JsonFormat()
    if name is DiffFormatName.markdown:
        from octopipe_cli.render.diff.markdown import MarkdownFormat

        return MarkdownFormat()
    if name is DiffFormatName.github:
        from octopipe_cli.render.diff.github import GithubFormat

        return GithubFormat(text_of, os.environ.get("GITHUB_WORKSPACE") or None)
    if name is DiffFormatName.junit:
        from octopipe_cli.render.diff.junit import JunitFormat

        return JunitFormat()
    from octopipe_cli.render.console import make_console
    from octopipe_cli.render.diff.text import TextFormat

    return TextFormat(make_console())


def text_of(file: str) -> str | None:
    """Return the text of a file; None where there is none to point into."""
    try:
        return read_text(file) if os.path.isfile(file) else None
    except InputError:
        return None
