from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.cli.output import Format
from octopipe_cli.cli.show import parse_ranks, show
from octopipe_cli.errors import DeadlockError, InputError, InvalidPlanError, OctopipeError
from octopipe_cli.explain import explain
from octopipe_cli.plan import load_plan, plan_text
from octopipe_cli.render.frame import make_frame
from octopipe_cli.render.gantt import gantt
from octopipe_cli.render.glyphs import BLOCKS
from octopipe_cli.render.memory import memory_chart
from octopipe_cli.render.report import report
from octopipe_cli.render.why import why
from octopipe_cli.render.why_document import why_document
from octopipe_cli.replay import replay
from tests.render.plans import v_plan, wide_plan


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    file = tmp_path / "v.plan.json"
    file.write_text(plan_text(v_plan()), encoding="utf-8")
    return str(file)


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "80")


def changed(file: str, change: Callable[[dict[str, Any]], None]) -> str:
    document = json.loads(Path(file).read_text(encoding="utf-8"))
    change(document)
    Path(file).write_text(json.dumps(document), encoding="utf-8")
    return file


def test_text_is_chart_and_report(plan_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(plan_file)
    loaded = load_plan(plan_file).value
    timeline = replay(loaded, plan_file)
    out, err = capsys.readouterr()
    assert out == f"{gantt(loaded, timeline, 80).plain}\n{report(loaded, timeline, 80).plain}"
    assert err == ""


def test_parts_and_width(plan_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(plan_file, width=100, from_ms=1.5, to_ms=40.25, ranks="3,0-1")
    loaded = load_plan(plan_file).value
    timeline = replay(loaded, plan_file)
    chart = gantt(loaded, timeline, 100, from_ns=1_500_000, to_ns=40_250_000, ranks=[3, 0, 1])
    assert capsys.readouterr().out.startswith(chart.plain)


def test_memory_follows_the_chart_or_stands_alone(plan_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    loaded = load_plan(plan_file).value
    frame = make_frame(replay(loaded, plan_file), 80, BLOCKS)
    memory = memory_chart(frame).plain
    show(plan_file, memory=True)
    assert capsys.readouterr().out.startswith(f"{gantt(loaded, frame.timeline, 80).plain}\n{memory}\nstep time")
    show(plan_file, memory=True, no_gantt=True)
    assert capsys.readouterr().out.startswith(f"{memory}\nstep time")
    show(plan_file, memory=True, no_gantt=True, ranks="2", from_ms=10.0, to_ms=20.0)
    part = make_frame(frame.timeline, 80, BLOCKS, 10_000_000, 20_000_000, [2])
    assert capsys.readouterr().out.startswith(memory_chart(part).plain)


def test_a_long_step_is_shown_in_full_where_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "wide.plan.json"
    file.write_text(plan_text(wide_plan(4, 64)), encoding="utf-8")
    show(str(file))
    assert "\nsteady state: micro-batches 4 to 63 enter" in capsys.readouterr().out
    show(str(file), full=True)
    assert "steady state" not in capsys.readouterr().out


def test_without_chart_and_as_json(plan_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(plan_file, no_gantt=True)
    assert capsys.readouterr().out.startswith("step time   555.0 ms")
    show(plan_file, Format.json)
    document = json.loads(capsys.readouterr().out)
    assert document["step_time_ns"] == 555_000_000
    assert len(document["ranks"]) == 4


def test_why_follows_the_report(plan_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(plan_file, no_gantt=True)
    report_alone = capsys.readouterr().out
    show(plan_file, no_gantt=True, why=True)
    plan = load_plan(plan_file).value
    explanation = explain(plan, replay(plan, plan_file))
    assert capsys.readouterr().out == f"{report_alone}\n{why(plan, explanation, 80).plain}"
    show(plan_file, Format.json, why=True)
    assert json.loads(capsys.readouterr().out)["why"] == why_document(explanation)


def test_a_stale_prediction_is_a_warning(plan_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    show(changed(plan_file, lambda plan: plan["predicted"].update(step_time_ns=7)), no_gantt=True)
    assert "predicts a step time of 7 ns, its own orders give 555000000 ns" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "ranks"), [("0", (0,)), ("3,1", (3, 1)), ("0,2-3", (0, 2, 3)), (" 1 - 2 , 2", (1, 2)), ("0-0", (0,))]
)
def test_lists_of_ranks(text: str, ranks: tuple[int, ...]) -> None:
    assert parse_ranks(text, 4) == ranks


@pytest.mark.parametrize("text", ["", "4", "3-1", "1-", "-1", "a", "0,,1", "0-4", "1.5", "٣"])
def test_no_lists_of_ranks(text: str) -> None:
    with pytest.raises(InputError, match="no list of this plan's ranks"):
        parse_ranks(text, 4)


@pytest.mark.parametrize(
    "options",
    [
        {"from_ms": float("nan")},
        {"to_ms": float("inf")},
        {"from_ms": -1.0},
        {"from_ms": 30.0, "to_ms": 20.0},
        {"from_ms": 1e9},
        {"no_gantt": True, "ranks": "0"},
        {"no_gantt": True, "full": True},
        {"output_format": Format.json, "memory": True},
        {"output_format": Format.json, "from_ms": 1.0},
    ],
)
def test_options_that_mean_nothing(options: dict[str, Any], plan_file: str) -> None:
    with pytest.raises(InputError):
        show(plan_file, **options)


def swap(plan: dict[str, Any]) -> None:
    """Let the last stage's I of micro-batch 0 wait for its F, which waits behind it."""
    plan["orders"][0] = " ".join(plan["orders"][0]).replace("7F0 7I0", "7I0 7F0").split("\n")


def edit(rank: int, old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def change(plan: dict[str, Any]) -> None:
        text = " ".join(plan["orders"][rank])
        assert old in text
        plan["orders"][rank] = [text.replace(old, new)]

    return change


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (swap, DeadlockError, "7I0 waits for 7F0 waits for 7I0"),
        (edit(0, " 7W3", ""), InvalidPlanError, "incomplete: stage 7, micro-batch 3"),
        (edit(0, " 0W3", ""), InvalidPlanError, "incomplete: stage 0, micro-batch 3"),
        (edit(1, "1F0", "1F0 1F0"), InvalidPlanError, "an action that stands twice: 1F0"),
        (edit(1, "1F0", "1F0 2F0"), InvalidPlanError, "an action on another rank than its stage: 2F0"),
        (edit(1, "1F0", "1F0 9F0"), InvalidPlanError, "no such stage: 9F0"),
        (edit(1, "1F0", "1F0 1F4"), InvalidPlanError, "no such micro-batch: 1F4"),
        (edit(1, "1I0", "1B0"), InvalidPlanError, "incomplete: stage 1, micro-batch 0"),
        (edit(1, "1F0", "1X0"), InputError, "not an action"),
        (lambda plan: plan["stages"][2].update(rank=4), InvalidPlanError, "a stage on a rank that does not exist"),
        (lambda plan: plan["stages"][2].update(layers=[4, 7]), InvalidPlanError, "not as many kinds as layers"),
        (lambda plan: plan["stages"][2].update(layers=[5, 6]), InvalidPlanError, "the stages do not follow"),
        (lambda plan: plan["stages"][2]["action_ns"].pop("F"), InvalidPlanError, "not the times of a stage's actions"),
        (lambda plan: plan["stages"][2].update(action_ns={"F": 1, "B": 1}), InvalidPlanError, "may not split"),
        (
            lambda plan: plan["stages"][2].update(
                kinds=[{"repeat": 10_000, "of": [{"repeat": 10_000, "of": ["x"] * 100}]}] * 100
            ),
            InvalidPlanError,
            "not as many kinds as layers",
        ),
    ],
)
def test_plans_that_have_no_timeline(
    change: Callable[[dict[str, Any]], None], kind: type[OctopipeError], message: str, plan_file: str
) -> None:
    with pytest.raises(kind, match=message) as caught:
        show(changed(plan_file, change))
    assert caught.value.file == plan_file
    assert caught.value.path is not None
    assert caught.value.path.startswith(("$.orders", "$.stages[2]"))


def octopipe(*arguments: str, code: str = "pass") -> subprocess.CompletedProcess[str]:
    run = f"import sys; from octopipe_cli.cli import run; code = run(sys.argv[1:]); {code}; sys.exit(code)"
    return subprocess.run(
        [sys.executable, "-c", run, *arguments], capture_output=True, text=True, encoding="utf-8", check=False
    )


@pytest.mark.parametrize("options", [[], ["--why"], ["--why", "--format", "json"]])
def test_show_is_quick_to_start(plan_file: str, options: list[str]) -> None:
    heavy = "print(*sorted({'numpy', 'ortools', 'numba', 'pandas', 'torch'} & set(sys.modules)), file=sys.stderr)"
    done = octopipe("show", plan_file, *options, code=heavy)
    assert (done.returncode, done.stderr) == (0, "\n")
    assert done.stdout.startswith("{" if "json" in options else "toy  4 ranks")


def test_a_deadlock_is_an_answer_without_a_traceback(plan_file: str) -> None:
    done = octopipe("show", changed(plan_file, swap))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("octopipe: error: deadlock: 7I0 waits for 7F0")
    assert "Traceback" not in done.stderr
