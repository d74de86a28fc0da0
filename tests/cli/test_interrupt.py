"""Ctrl-C against the real command: it ends, with 130 and a whole plan or none, wherever it is."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@contextmanager
def planning(folder: Path, at: str = "") -> Iterator[subprocess.Popen[str]]:
    """Run a search that takes minutes; `at` is what Python does before it.

    It begins with Ctrl-C ignored, as a script's & does, and does not outlive the block.
    """
    command = [str(ROOT / "profiles/models/nemotron-nano-9b-v2.json"), str(ROOT / "profiles/clusters/a100-4.json")]
    command += ["-m", "8", "--effort", "thorough", "-o", str(folder / "x.plan.json")]
    code = f"import os, signal, sys\nsys.argv = ['octopipe', 'plan', *{command!r}]\n{at}\n"
    code += "from octopipe_cli.cli import main\nmain()"
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


#: Sends Ctrl-C as soon as a module's import begins, from within it.
WHILE_IMPORTING = """
class Sender:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            {how}
sys.meta_path.insert(0, Sender())
"""
PLAIN = "os.kill(os.getpid(), signal.SIGINT)"
AS_A_LIBRARY = """try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                raise ImportError('initialization failed') from None"""
LOST = """try:
                os.kill(os.getpid(), signal.SIGINT)
            except KeyboardInterrupt:
                pass"""


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("octopipe_cli.cli.failures", PLAIN),
        ("octopipe_cli.cli.plan", PLAIN),
        ("numba", PLAIN),
        ("numba", AS_A_LIBRARY),
        ("octopipe_cli.search", LOST),
    ],
)
def test_ctrl_c_during_an_import(tmp_path: Path, name: str, how: str) -> None:
    """Also where the library in between makes another error of it, or loses it."""
    with planning(tmp_path, WHILE_IMPORTING.format(name=name, how=how)) as process:
        _, errors = process.communicate(timeout=500)
    assert (process.returncode, errors) == (130, "octopipe: interrupted\n")
    assert not list(tmp_path.iterdir())


def after(tmp_path: Path, phase: str) -> tuple[int, str]:
    """Return exit code and stderr where Ctrl-C comes as a phase of the search begins."""
    at = f"""
import threading
from octopipe_cli.search import planner
class Planner(planner.Planner):
    def __setattr__(self, name, value):
        super().__setattr__(name, value)
        if (name, value) == ('phase', {phase!r}):
            os.kill(os.getpid(), signal.SIGINT)
import octopipe_cli.search
octopipe_cli.search.Planner = Planner
"""
    with planning(tmp_path, at) as process:
        _, errors = process.communicate(timeout=500)
    return process.returncode, errors


@pytest.mark.parametrize("phase", ["classic schedules", "tuning, round 1"])
def test_ctrl_c_keeps_the_best_plan_so_far(tmp_path: Path, phase: str) -> None:
    code, errors = after(tmp_path, phase)
    assert code == 130, errors
    assert "Traceback" not in errors
    assert "this is the best plan so far" in errors
    search = json.loads((tmp_path / "x.plan.json").read_text())["search"]
    assert (search["stopped_by"], search["reproducible"]) == ("interrupt", False)
