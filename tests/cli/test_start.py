"""What is loaded at the start, and the door itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from octopipe_cli import __version__
from tests import documents
from tests.cli.conftest import Octopipe

HEAVY = {"ortools", "numba", "llvmlite", "pandas", "torch", "numpy"}
LOADED = """
import sys
from octopipe_cli.cli import run
code = run(sys.argv[1:])
sys.stdout.flush()
print(code, *sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
"""

VERIFY = ("verify", str(documents.PLAN), "--profile", str(documents.PROFILE), "--cluster", str(documents.CLUSTER))


def loaded(*arguments: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=True)
    code, *modules = done.stderr.splitlines()[-1].split()
    assert code == "0", done.stdout
    return set(modules)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--version",),
        ("--help",),
        ("plan", "--help"),
        ("show", str(documents.PLAN)),
        VERIFY,
        ("export", str(documents.PLAN), "--to", "deepspeed"),
        ("run", "--help"),
        ("layout", "check", "Et|tL", "--ranks", "2", "--layers", "2"),
        ("diff", str(documents.PLAN), str(documents.PLAN)),
        ("diff", str(documents.PLAN), str(documents.PLAN), "--format", "json"),
        ("schema", "plan"),
        ("profile", "show", str(documents.PROFILE)),
    ],
    ids=lambda arguments: arguments[0],
)
def test_light_commands_load_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert not loaded(*arguments) & HEAVY


def test_the_version_loads_next_to_nothing() -> None:
    assert not loaded("--version") & {"typer", "rich", "msgspec", "json", "click"}


def test_the_version_is_the_package_s(octopipe: Octopipe) -> None:
    assert octopipe("--version") == (0, f"octopipe {__version__}\n", "")


def test_the_console_script_is_octopipe() -> None:
    script = Path(sys.executable).with_name("octopipe")
    if not script.exists():
        pytest.skip("octopipe is not installed in this environment")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"octopipe {__version__}\n"


def test_the_module_runs_the_same() -> None:
    done = subprocess.run([sys.executable, "-m", "octopipe_cli", *VERIFY], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{documents.PLAN}: valid\n", "")
