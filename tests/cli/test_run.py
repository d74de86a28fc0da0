from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from octopipe_cli.cli import running
from octopipe_cli.run.job import Check, Job, Outcome, Span
from tests.cli.conftest import Octopipe


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "--timed or --model CONFIG, one of both"),
        (["--timed", "--model", "config.json"], "--timed or --model CONFIG, one of both"),
        (["--timed", "--check"], "--check has nothing to compare"),
        (["--model", "config.json", "--scale", "2"], "--scale stretches the times of --timed"),
        (["--timed", "--trace", "plan.json"], "the output would replace the plan"),
        (["--model", "missing.json"], "missing.json"),
    ],
)
def test_what_cannot_be_run_is_said_before_anything_runs(
    folder: Path, octopipe: Octopipe, arguments: list[str], text: str
) -> None:
    result = octopipe("run", "plan.json", *arguments)
    assert (result.code, result.out) == (2, "")
    assert text in result.err


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_it_says_what_to_install(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe("run", "plan.json", "--timed")
    assert (result.code, result.out) == (2, "")
    assert "pip install 'octopipe[torch]'" in result.err


def test_a_model_with_other_layers_is_refused(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe("run", "plan.json", "--model", "qwen3-8b")
    assert (result.code, result.out) == (2, "")
    assert "the plan is not for this model" in result.err


def faked(monkeypatch: pytest.MonkeyPatch, longer_ns: int = 0, check: Check | None = None) -> None:
    """Let runs be the prediction, every action longer, without torch."""

    def execute(job: Job) -> Outcome:
        timeline = job.timeline
        rows = zip(timeline.orders, timeline.start_ns, timeline.end_ns, strict=True)
        step = [[Span(a, s, e + longer_ns) for a, s, e in zip(*row, strict=True)] for row in rows]
        return Outcome([step] * job.steps, [[1.0]] * job.steps, check)

    monkeypatch.setattr(running, "execute", execute)
    monkeypatch.setattr(running, "check_torch", lambda device, ranks: "cpu")


def test_predicted_beside_measured(folder: Path, octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch, 500)
    result = octopipe("run", "plan.json", "--timed", "--scale", "2", "--steps", "3", "--trace", "t.json")
    assert result.code == 0
    assert "octopipe: wrote t.json" in result.err
    assert json.loads((folder / "t.json").read_text())["traceEvents"]
    lines = result.out.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("predicted"))
    assert lines[at].endswith("a step (all times x 2)")
    assert "the fastest of 3 steps" in lines[at + 1]
    assert lines[at + 2].endswith("% more than predicted")
    assert lines[at + 5].split()[:2] == ["kind", "actions"]
    assert {line.split()[0] for line in lines[at + 6 :]} <= set("FIWB")
    assert all(line.split()[3] == "+0.001" or line.split()[3] == "+0.000" for line in lines[at + 6 :])


def test_the_report_for_programs(folder: Path, octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch, 10)
    result = octopipe("run", "plan.json", "--timed", "--format", "json")
    found = json.loads(result.out)
    assert found["step_time_ns"] == found["predicted_step_time_ns"] + 10
    assert all(each["end_ns"] == each["predicted_end_ns"] + 10 for each in found["actions"])
    assert all(each["mean_difference_ns"] == 10 for each in found["kinds"])


def test_a_failed_check_is_exit_1(folder: Path, octopipe: Octopipe, monkeypatch: pytest.MonkeyPatch) -> None:
    faked(monkeypatch, check=Check(1.0, 1.0, 4, 0.5, "layer1.weight"))
    result = octopipe("run", "plan.json", "--timed", "--no-gantt")
    assert result.code == 1
    assert "NOT EQUAL" in result.out
    assert "(layer1.weight)" in result.out
