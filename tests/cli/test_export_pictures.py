"""The targets that viewers and people read, by the command."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from octopipe_cli.export import TARGETS
from tests.cli.conftest import Octopipe

READERS: dict[str, Callable[[str], object]] = {
    "chrome-trace": json.loads,
    "svg": ElementTree.fromstring,
    "html": lambda text: text.index("<!DOCTYPE html>"),
    "json": json.loads,
    "csv": lambda text: next(iter(csv.DictReader(io.StringIO(text))))["microbatch"],
}


@pytest.mark.parametrize("target", READERS)
def test_it_is_written_and_reads_back(folder: Path, octopipe: Octopipe, target: str) -> None:
    result = octopipe("export", "plan.json", "--to", target, "-o", "out")
    assert (result.code, result.out) == (0, "")
    text = (folder / "out").read_text(encoding="utf-8")
    READERS[target](text)
    again = octopipe("export", "-", "--to", target, stdin=(folder / "plan.json").read_bytes())
    assert (again.code, again.out) == (0, text)


@pytest.mark.parametrize("target", READERS)
def test_a_plan_that_is_none_is_refused(folder: Path, octopipe: Octopipe, target: str) -> None:
    text = (folder / "plan.json").read_text()
    (folder / "plan.json").write_text(text.replace("1F0", "1F1", 1))
    result = octopipe("export", "plan.json", "--to", target, "-o", "out")
    assert (result.code, result.out) == (1, "")
    assert "$.orders" in result.err
    assert not (folder / "out").exists()


def test_every_one_of_them_is_listed() -> None:
    assert READERS.keys() <= {target.name for target in TARGETS}
