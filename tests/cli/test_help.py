"""Help texts as whole files; ``OCTOPIPE_GOLDEN=1`` writes them anew."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import typer

from octopipe_cli.cli.app import command
from octopipe_cli.cli.registry import ROOT, Branch, Entry
from tests.cli.conftest import Octopipe

#: Versions differ in how they write types and defaults.
LAID_OUT_BY = "0.28."
GOLDEN = Path(__file__).parents[1] / "golden" / "help"


def tree(commands: Mapping[str, Entry | Branch], *names: str) -> Iterator[tuple[str, ...]]:
    yield names
    for name, entry in commands.items():
        yield from tree(entry.commands if isinstance(entry, Branch) else {}, *names, name)


COMMANDS = {"-".join(names) or "octopipe": names for names in tree(ROOT.commands)}


@pytest.mark.parametrize("columns", [80, 100])
@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_as_it_was(octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch, name: str, columns: int) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("COLUMNS", str(columns))
    result = octopipe(*COMMANDS[name], "--help")
    assert (result.code, result.err) == (0, "")
    assert "\x1b" not in result.out
    assert "Example: octopipe " in result.out
    assert not re.search(r"\b(INTEGER|FLOAT|PATH)\b", result.out)  # a metavar of one's own tells the unit
    assert max(map(len, result.out.splitlines())) <= columns
    golden = GOLDEN / f"{name}-{columns}.txt"
    if os.environ.get("OCTOPIPE_GOLDEN") == "1":
        golden.write_text(result.out)
    if not typer.__version__.startswith(LAID_OUT_BY):
        pytest.skip(f"the golden texts are laid out by typer {LAID_OUT_BY}x, this is {typer.__version__}")
    assert result.out == golden.read_text()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_section(octopipe: Octopipe, name: str) -> None:
    unsorted = octopipe(*COMMANDS[name], "--help").out.partition("\nOptions:\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^  (\S+)", unsorted, re.MULTILINE)) <= {"--version", "-h,"}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_examples_are_right(name: str) -> None:
    node = command()
    for word in COMMANDS[name]:
        node = node.commands[word]
    examples = re.findall(r"Example: octopipe ([^\n]+)", node.help)
    assert examples
    for example in examples:
        arguments = shlex.split(example.partition(" > ")[0])
        group, words = command(), arguments
        while hasattr(group, "commands"):
            group, words = group.commands[words[0]], words[1:]
        if "--help" not in words:
            assert group.make_context("octopipe", list(words)).params
        assert arguments[: len(COMMANDS[name])] == list(COMMANDS[name])


def test_no_golden_help_is_left_over() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == {
        f"{name}-{columns}" for name in COMMANDS for columns in (80, 100)
    }


def test_no_ansi_codes_are_printed_where_ci_asks_for_them() -> None:
    environment = {**os.environ, "GITHUB_ACTIONS": "true", "COLUMNS": "100"}
    environment.pop("NO_COLOR", None)
    for arguments in (["--help"], ["plan"], ["show", "none.json"]):
        done = subprocess.run(
            [sys.executable, "-m", "octopipe_cli", *arguments], env=environment, capture_output=True, check=False
        )
        assert b"\x1b" not in done.stdout + done.stderr


def test_without_arguments_the_help_is_shown(octopipe: Octopipe) -> None:
    assert octopipe() == octopipe("--help") == octopipe("-h")
