"""The console: where output goes, how wide it is, whether colours and block characters may be used."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import IO, Final

from rich.console import Console
from rich.text import Text

from octopipe_cli.render.glyphs import Glyphs, glyphs_for

LEAST_WIDTH: Final = 60


def make_console(
    stderr: bool = False,
    width: int | None = None,
    file: IO[str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Console:
    """Return the console of standard output or standard error (or of `file`).

    ANSI codes are written to terminals alone, whatever CI system runs us, unless ``FORCE_COLOR`` is set and not empty;
    never where ``NO_COLOR`` is. The width is `width`, else ``COLUMNS``, else the terminal's, else 80, and never less
    than 60. Markup, emoji codes and highlighting are off: what files say is shown as it stands.
    """
    env = {name: value for name, value in (os.environ if environment is None else environment).items() if value}
    plain = "NO_COLOR" in env or env.get("TERM") == "dumb"
    # rich counts these as terminals, and draws notebook cells in place of text: neither is asked for by anybody.
    for name in ("TTY_COMPATIBLE", "TTY_INTERACTIVE", "JUPYTER_COLUMNS", "JUPYTER_LINES"):
        env.pop(name, None)
    console = Console(
        file=file,
        stderr=stderr,
        width=width,
        color_system=None if plain else "auto",
        force_jupyter=False,
        markup=False,
        emoji=False,
        highlight=False,
        soft_wrap=True,
        legacy_windows=False,
        _environ=env,
    )
    if console.width < LEAST_WIDTH:
        console.width = LEAST_WIDTH
    return console


def glyphs_of(console: Console) -> Glyphs:
    """Return the characters the console's stream can take."""
    return glyphs_for(getattr(console.file, "encoding", None) or console.encoding)


def write(console: Console, text: Text) -> None:
    """Print a text as it stands: lines neither wrapped nor cut, no line break added."""
    console.print(text, soft_wrap=True, end="")


def rendered(console: Console, *texts: Text) -> str:
    """Return texts, a blank line between them, as the console would print them.

    The caller writes the string: it knows what to do where the reader has gone away.
    """
    with console.capture() as capture:
        for number, text in enumerate(texts):
            write(console, Text("\n" if number else "") + text)
    return capture.get()
