from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from octopipe_cli import cli
from tests import documents


class Result(NamedTuple):
    """How a run of octopipe ended."""

    code: int
    out: str
    err: str


Octopipe = Callable[..., Result]


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))  # for processes in other folders
    monkeypatch.delenv("OCTOPIPE_DEBUG", raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the small files in it; it is the current one."""
    for file, name in ((documents.PROFILE, "profile"), (documents.CLUSTER, "cluster"), (documents.PLAN, "plan")):
        shutil.copy(file, tmp_path / f"{name}.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def octopipe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Octopipe:
    """Return a function that runs octopipe in this process."""

    def call(*arguments: object, stdin: bytes = b"") -> Result:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsys.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        return Result(code, *capsys.readouterr())

    return call
