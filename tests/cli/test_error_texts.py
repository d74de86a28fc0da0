"""What every kind of error says: one example each, whole, as a golden text; without colours whatever the environment.

OCTOPIPE_GOLDEN=1 writes the texts anew for review.
"""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from octopipe_cli import __version__
from octopipe_cli.cli import schema
from octopipe_cli.cli.searching import Interrupted
from octopipe_cli.errors import LimitError
from octopipe_cli.run.watch import RunError
from tests import documents
from tests.cli.conftest import Octopipe
from tests.editing import REMOVED, edited

GOLDEN: Final = Path(__file__).parents[1] / "golden" / "errors"
INPUTS: Final = ("profile.json", "cluster.json", "-m", "2")
MADE_FROM: Final = ("--profile", "profile.json", "--cluster", "cluster.json")


class Case(NamedTuple):
    """A command that fails: its exit code, its words and what stands in bad.json."""

    code: int
    words: tuple[str, ...]
    bad: bytes = b""


def profile(changes: Mapping[str, Any]) -> bytes:
    return json.dumps(edited(documents.toy(documents.PROFILE), dict(changes))).encode()


def cluster(changes: Mapping[str, Any]) -> bytes:
    return json.dumps(edited(documents.toy(documents.CLUSTER), dict(changes))).encode()


def plan(changes: Mapping[str, Any]) -> bytes:
    return json.dumps(edited(documents.toy(documents.PLAN), dict(changes))).encode()


SHOW_PROFILE: Final = ("profile", "show", "bad.json")
BAD_CLUSTER: Final = ("compare", "profile.json", "bad.json", "-m", "2")
SHOW: Final = ("show", "bad.json")
ESTIMATE: Final = ("--hardware", "h100-sxm", "--sequence-length", "8", "--micro-batch-size", "1")
OF_PLAN: Final = ("--plan", "plan.json", "--profile", "profile.json")
NONE: Final = "sha256:" + "0" * 64
SWAPPED: Final = {
    "stages.0.rank": 1,
    "stages.1.rank": 0,
    "orders": [["1F0 1B0 1F1 1B1"], ["0F0 0F1 0B0 0B1"]],
}
DOUBLED: Final = profile({}).replace(b'"name":', b'"name": "twice", "name":', 1)

CASES: Final[dict[str, Case]] = {
    # 1: the answer is no
    "plan-deadlock": Case(1, SHOW, plan({"orders.0": ["0B0 0F0 0F1 0B1"]})),
    "plan-incomplete": Case(1, SHOW, plan({"orders.0": ["0F0 0B0 0F1"]})),
    "plan-action-elsewhere": Case(1, SHOW, plan({"orders.0": ["0F0 1F0 0B0 0F1 0B1"]})),
    "engine-refuses": Case(1, ("export", "bad.json", "--to", "torchtitan"), plan(SWAPPED)),
    # 2: a file
    "file-missing": Case(2, ("show", "none.json")),
    "file-is-a-folder": Case(2, ("show", ".")),
    "file-empty": Case(2, SHOW_PROFILE),
    "file-not-json": Case(2, SHOW_PROFILE, b"layers: 3"),
    "file-cut-off": Case(2, SHOW_PROFILE, profile({})[:100]),
    "file-not-utf-8": Case(2, SHOW_PROFILE, '{"näme": 1}'.encode("latin-1")),
    "file-nested-deeply": Case(2, SHOW_PROFILE, b"[" * 5000),
    "file-of-another-kind": Case(2, SHOW, profile({})),
    "file-newer": Case(2, SHOW, plan({"version": 9})),
    # 2: what stands in it
    "key-missing": Case(2, SHOW_PROFILE, profile({"kinds": REMOVED})),
    "key-unknown": Case(2, SHOW_PROFILE, profile({"layrs": []})),
    "key-twice": Case(2, SHOW_PROFILE, DOUBLED),
    "value-of-another-type": Case(2, SHOW_PROFILE, profile({"kinds.mamba.state_bytes": "1 GiB"})),
    "value-out-of-range": Case(2, SHOW_PROFILE, profile({"kinds.mamba.times.a100.forward_ms": -1})),
    "number-too-large": Case(2, SHOW_PROFILE, profile({}).replace(b'"forward_ms": 1', b'"forward_ms": 1e400', 1)),
    "name-unknown": Case(2, SHOW_PROFILE, profile({"layers.1.of": ["mamab"]})),
    "cluster-hardware-unknown": Case(2, BAD_CLUSTER, cluster({"ranks.0.hardware": "h100"})),
    "cluster-no-memory-left": Case(2, BAD_CLUSTER, cluster({"ranks.0.memory_gib": 4, "ranks.0.reserved_gib": 4})),
    "cluster-line": Case(2, ("compare", "profile.json", "2x(4xa100", "-m", "2")),
    "action-token": Case(2, SHOW, plan({"orders.0.0": "0F0 0Q1"})),
    "plan-needs-its-inputs": Case(2, SHOW, plan({"request.lengths": {"text": [1, 0.5]}})),
    "plan-of-other-inputs": Case(2, ("compare", *INPUTS, "--plan", "bad.json"), plan({"inputs.profile.digest": NONE})),
    "config-not-supported": Case(2, ("profile", "estimate", "bad.json", *ESTIMATE), b'{"model_type": "bert"}'),
    "trace-without-events": Case(2, ("profile", "import", "trace", "bad.json", *OF_PLAN), b'{"traceEvents": []}'),
    "settings": Case(2, ("diff", "plan.json", "plan.json")),
    # 2: the command line
    "command-misspelt": Case(2, ("shwo", "plan.json")),
    "option-misspelt": Case(2, ("show", "plan.json", "--no-gannt")),
    "option-value": Case(2, ("plan", *INPUTS, "--engine", "torh")),
    "argument-missing": Case(2, ("show",)),
    "number-out-of-range": Case(2, ("plan", "profile.json", "cluster.json", "-m", "0")),
    "stdin-twice": Case(2, ("compare", "-", "-", "-m", "2")),
    "options-that-clash": Case(2, ("show", "plan.json", "--format", "json", "--ranks", "0")),
    "ranks-not-there": Case(2, ("show", "plan.json", "--ranks", "0,7")),
    "output-replaces-input": Case(2, ("plan", *INPUTS, "-o", "profile.json")),
    "output-folder-missing": Case(2, ("plan", *INPUTS, "-o", "none/x.plan.json")),
    # 3: proven
    "does-not-fit": Case(3, ("plan", "profile.json", "bad.json", "-m", "2"), cluster({"ranks.0.memory_gib": 1})),
}  # fmt: skip


def arrange(folder: Path, name: str) -> None:
    """Write bad.json and what else a case needs."""
    (folder / ".git").mkdir()  # no settings are looked for above
    (folder / "bad.json").write_bytes(CASES[name].bad)
    if name == "settings":
        (folder / "octopipe.toml").write_text('[diff]\nmax_slowdwn = "1%"\n')
    if name == "does-not-fit":
        document = documents.toy(documents.PROFILE)
        for kind in document["kinds"].values():
            kind["state_bytes"] = 2**30
        (folder / "profile.json").write_text(json.dumps(document))


def check_golden(name: str, words: tuple[str, ...], code: int, err: str) -> None:
    text = f"$ octopipe {' '.join(words)}\n{err}exit code {code}\n"
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("OCTOPIPE_GOLDEN") == "1":
        file.write_text(text)
    assert text == file.read_text()


#: Environments that must change nothing: only what is asked for with --format writes annotations or colours.
PLAIN: Final = ({}, {"NO_COLOR": "1"}, {"TERM": "dumb"}, {"GITHUB_ACTIONS": "true", "CI": "true"}, {"FORCE_COLOR": "1"})


@pytest.mark.parametrize("name", CASES)
def test_an_error_s_text(folder: Path, octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    arrange(folder, name)
    case = CASES[name]
    for environment in PLAIN:
        for variable in ("NO_COLOR", "TERM", "GITHUB_ACTIONS", "CI", "FORCE_COLOR"):
            monkeypatch.delenv(variable, raising=False)
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        result = octopipe(*case.words)
        assert (result.code, result.out) == (case.code, ""), result.err
        assert "\x1b" not in result.err
        assert "::" not in result.err  # no annotation
        check_golden(name, case.words, result.code, result.err)


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("limit", LimitError("no plan within 1 s", remedy="allow more time, or a smaller --effort")),
        ("interrupted", Interrupted("interrupted before there was a plan")),
        ("interrupted-anywhere", KeyboardInterrupt()),
        ("run", RunError("rank 1 ended with exit code 1", remedy="its last words stand above")),
        ("bug", ZeroDivisionError("division by zero")),
    ],
)
def test_errors_that_need_bad_luck(
    octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException
) -> None:
    def raising(*_: object) -> None:
        raise error

    monkeypatch.setattr(schema, "schema_document", raising)
    result = octopipe("schema", "plan")
    python = sys.version.split()[0]
    said = result.err.replace(python, "VERSION").replace(__version__, "VERSION")
    check_golden(name, ("schema", "plan"), result.code, said)


ANSWERS: Final[dict[str, tuple[str, ...]]] = {
    "verify-broken": ("verify", "bad.json", *MADE_FROM),
    "layout-refused": ("layout", "check", "Et|tL", "--ranks", "2", "--layers", "30"),
    "diff-worse": ("diff", "plan.json", "bad.json"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_that_are_no(folder: Path, octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What is broken or worse is the payload, on stdout."""
    (folder / "bad.json").write_bytes(plan({"predicted.step_time_ns": 25_000_000}))
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    result = octopipe(*ANSWERS[name])
    assert (result.code, result.err) == (1, "")
    check_golden(name, ANSWERS[name], result.code, result.out)


def test_every_class_has_an_example() -> None:
    found = {int(re.search(r"exit code (\d+)", file.read_text())[1]) for file in GOLDEN.iterdir()}  # type: ignore[index]
    assert found == {1, 2, 3, 4, 70, 130}
    names = {*CASES, *ANSWERS, "limit", "interrupted", "interrupted-anywhere", "run", "bug"}
    assert {file.stem for file in GOLDEN.iterdir()} == names


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": "xterm-256color"}])
def test_on_a_terminal(folder: Path, environment: dict[str, str]) -> None:
    """An error has no colours, on a terminal either; nor has a chart where they are not wanted."""
    code = "import sys; from octopipe_cli.cli import run; print(run(['show', 'plan.json']), run(['show', 'none.json']))"
    here, there = pty.openpty()
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH") if key in os.environ}
    kept |= {"GITHUB_ACTIONS": "true", "COLUMNS": "80", "PYTHONUTF8": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, env=kept | environment, stdout=there, stderr=there
    ) as process:
        os.close(there)
        parts = []
        while True:
            try:
                part = os.read(here, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            parts.append(part)
        process.wait()
    os.close(here)
    shown = b"".join(parts).decode()
    assert shown.rstrip().endswith("0 2")
    chart, error = shown.split("octopipe: error: ")
    assert "\x1b" not in error
    assert ("\x1b" in chart) == (environment == {"TERM": "xterm-256color"})
    assert "::error" not in shown
