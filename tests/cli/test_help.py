"""Help texts as whole files; ``OCTOPIPE_GOLDEN=1`` writes them anew."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from tests.cli.conftest import Octopipe

#: Versions differ in how they write types and defaults.
LAID_OUT_BY = "0.28."
GOLDEN = Path(__file__).parents[1] / "golden" / "help"
COMMANDS = {
    "octopipe": (),
    "plan": ("plan",),
    "show": ("show",),
    "compare": ("compare",),
    "sweep": ("sweep",),
    "verify": ("verify",),
    "diff": ("diff",),
    "export": ("export",),
    "run": ("run",),
    "layout": ("layout",),
    "layout-check": ("layout", "check"),
    "schema": ("schema",),
    "profile": ("profile",),
    "profile-show": ("profile", "show"),
    "profile-estimate": ("profile", "estimate"),
    "profile-measure": ("profile", "measure"),
    "profile-import": ("profile", "import"),
    "profile-import-simpipe": ("profile", "import", "simpipe"),
    "profile-import-trace": ("profile", "import", "trace"),
    "profile-import-megatron": ("profile", "import", "megatron"),
    "profile-calibrate": ("profile", "calibrate"),
    "profile-merge": ("profile", "merge"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_help_is_as_it_was(octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = octopipe(*COMMANDS[name], "--help")
    assert (result.code, result.err) == (0, "")
    assert "\x1b" not in result.out
    assert "Example: octopipe " in result.out
    assert max(map(len, result.out.splitlines())) <= 100
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("OCTOPIPE_GOLDEN") == "1":
        golden.write_text(result.out)
    if not typer.__version__.startswith(LAID_OUT_BY):
        pytest.skip(f"the golden texts are laid out by typer {LAID_OUT_BY}x, this is {typer.__version__}")
    assert result.out == golden.read_text()


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


def test_every_command_has_a_golden_help() -> None:
    from octopipe_cli.cli.app import command

    def tree(node: object, names: tuple[str, ...]) -> set[tuple[str, ...]]:
        below = getattr(node, "commands", {})
        return {names}.union(*(tree(child, (*names, name)) for name, child in below.items()))

    assert tree(command(), ()) == set(COMMANDS.values())
