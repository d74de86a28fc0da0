"""The registry says of the commands what they say of themselves, and spares their being imported."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module

import pytest

from octopipe_cli.cli.registry import ROOT, Branch, Entry
from tests import documents


def entries(commands: Mapping[str, Entry | Branch], *names: str) -> Iterator[tuple[str, Entry]]:
    for name, entry in commands.items():
        if isinstance(entry, Branch):
            yield from entries(entry.commands, *names, name)
        else:
            yield " ".join((*names, name)), entry


ENTRIES = dict(entries(ROOT.commands))
LOADED = """
import sys
from octopipe_cli.cli import run
run(sys.argv[1:])
sys.stdout.flush()
print(*[name.removeprefix("octopipe_cli.cli.") for name in sys.modules if "octopipe_cli." in name], file=sys.stderr)
"""


@pytest.mark.parametrize("name", ENTRIES)
def test_the_line_of_help_is_the_command_s_own(name: str) -> None:
    module, _, function = ENTRIES[name].function.partition(":")
    text = inspect.getdoc(getattr(import_module(f"octopipe_cli.cli.{module}"), function)) or ""
    assert " ".join(text.partition("\n\n")[0].split()) == ENTRIES[name].help
    assert ENTRIES[name].help.endswith(".")


def loaded(*arguments: str) -> set[str]:
    """Return octopipe's modules that a command loads."""
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [("--help",), ("profile", "--help"), ("profile", "import"), ("pln",)])
def test_names_and_lines_of_help_need_no_command(arguments: tuple[str, ...]) -> None:
    assert not loaded(*arguments) & {entry.function.partition(":")[0] for entry in ENTRIES.values()}


def test_a_command_loads_itself_alone() -> None:
    modules = {entry.function.partition(":")[0] for entry in ENTRIES.values()}
    assert loaded("show", str(documents.PLAN)) & modules == {"show"}
    assert loaded("profile", "show", str(documents.PROFILE)) & modules == {"profile"}
