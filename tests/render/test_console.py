from __future__ import annotations

import io
from collections.abc import Mapping
from typing import NamedTuple

import pytest
from rich.text import Text

from octopipe_cli.render.console import glyphs_of, make_console, rendered, write
from octopipe_cli.render.glyphs import ASCII, BLOCKS, glyphs_for
from octopipe_cli.render.progress import SearchProgress, progress_text

RED = Text("x", style="red", end="")


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [
        (True, {"TERM": "xterm-256color"}, True),
        (False, {"TERM": "xterm-256color"}, False),
        (False, {"GITHUB_ACTIONS": "true", "CI": "true", "TERM": "xterm-256color"}, False),
        (False, {"TTY_COMPATIBLE": "1", "TERM": "xterm-256color"}, False),
        (False, {"FORCE_COLOR": "1", "TERM": "xterm-256color"}, True),
        (False, {"FORCE_COLOR": "", "TERM": "xterm-256color"}, False),
        (True, {"NO_COLOR": "1", "TERM": "xterm-256color"}, False),
        (True, {"NO_COLOR": "", "TERM": "xterm-256color"}, True),
        (False, {"NO_COLOR": "1", "FORCE_COLOR": "1", "TERM": "xterm-256color"}, False),
        (True, {"TERM": "dumb"}, False),
    ],
)
def test_when_there_are_ansi_codes(terminal: bool, environment: Mapping[str, str], coloured: bool) -> None:
    stream = Stream(terminal)
    write(make_console(file=stream, environment=environment), RED)
    assert ("\x1b" in stream.getvalue()) is coloured
    assert "x" in stream.getvalue()


@pytest.mark.parametrize(
    ("width", "columns", "found"),
    [(None, "100", 100), (None, "20", 60), (90, "100", 90), (5, "100", 60), (None, "nonsense", None)],
)
def test_width(width: int | None, columns: str, found: int | None) -> None:
    console = make_console(width=width, file=Stream(False), environment={"COLUMNS": columns})
    assert console.width == found if found else console.width >= 60


def test_long_lines_are_left_alone() -> None:
    console = make_console(file=Stream(False), width=60, environment={})
    text = Text("[b]" + "y" * 100 + "  z:smile:")
    assert rendered(console, text, text) == f"{text.plain}\n{text.plain}"
    assert rendered(console, Text("a\n"), Text("b\n")) == "a\n\nb\n"


@pytest.mark.parametrize(
    ("encoding", "glyphs"),
    [("utf-8", BLOCKS), ("UTF8", BLOCKS), ("latin-1", ASCII), ("cp1252", ASCII), (None, ASCII), ("no such", ASCII)],
)
def test_characters_by_encoding(encoding: str | None, glyphs: object) -> None:
    assert glyphs_for(encoding) is glyphs


def test_characters_of_a_stream() -> None:
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    assert glyphs_of(make_console(file=latin, environment={})) is ASCII


class Moment(NamedTuple):
    phase: str
    best_ns: int | None
    bound_ns: int | None
    candidates: int
    seconds: float


def test_progress_in_words() -> None:
    full = Moment("tuner", 866_000_000, 854_000_000, 30_000, 61.9)
    text = "tuner       1:01  best 866.0 ms  bound 854.0 ms  gap 1.41 %  485 candidates/s"
    assert progress_text(full, BLOCKS).plain == text
    assert progress_text(Moment("bo\x1bund", None, None, 0, 0.0), BLOCKS).plain == "bo\\x1bund   0:00"


def test_progress_on_a_terminal_and_elsewhere() -> None:
    for terminal in (True, False):
        stream = Stream(terminal)
        clock = iter([0.0, 0.05, 0.06, 0.2]).__next__
        with SearchProgress(make_console(file=stream, environment={"TERM": "xterm"}), clock) as shown:
            for phase, candidates in (("one", 11), ("one", 22), ("two", 33), ("two", 44)):
                shown.update(Moment(phase, None, None, candidates, 1.0))
        written = stream.getvalue()
        if terminal:  # the second is too soon and of the same phase
            assert [f"{n} candidates/s" in written for n in (11, 22, 33, 44)] == [True, False, True, True]
        else:
            assert written == ""
