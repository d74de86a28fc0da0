from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import documents
from tests.cli.conftest import Octopipe
from tests.editing import edited

KEYS = {"schedule", "partition", "stages_per_rank", "recompute", "step_time_ns", "span_ns", "bubble_ratio"}
KEYS |= {"peak_memory_bytes", "fits", "speedup"}
ARGUMENTS = ("compare", "profile.json", "cluster.json", "-m", "2")


def test_every_classic_schedule_has_rows(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe(*ARGUMENTS, "--format", "json")
    assert (result.code, result.err) == (0, "")
    rows = json.loads(result.out)["rows"]
    assert all(set(row) == KEYS for row in rows)
    assert {"gpipe", "1f1b", "interleaved-1f1b", "zb-h1", "zb-v"} <= {row["schedule"] for row in rows}
    fused = next(row for row in rows if (row["schedule"], row["partition"]) == ("1f1b", "equal"))
    assert (fused["step_time_ns"], fused["fits"], fused["speedup"]) == (26_000_000, True, None)


def test_a_plan_stands_beside_them(folder: Path, octopipe: Octopipe) -> None:
    rows = json.loads(octopipe(*ARGUMENTS, "--plan", "plan.json", "--format", "json").out)["rows"]
    assert rows[-1] == {
        "schedule": "plan",
        "partition": "searched",
        "stages_per_rank": 1,
        "recompute": False,
        "step_time_ns": 26_000_000,
        "span_ns": 26_000_000,
        "bubble_ratio": 1 - 34 / 52,
        "peak_memory_bytes": [0, 0],
        "fits": True,
        "speedup": 1.0,
    }
    faster = next(row for row in rows if row["step_time_ns"] == 21_000_000)
    assert faster["speedup"] == round(21 / 26, 4)


def test_the_text_has_a_line_a_row(folder: Path, octopipe: Octopipe) -> None:
    rows = json.loads(octopipe(*ARGUMENTS, "--plan", "plan.json", "--format", "json").out)["rows"]
    lines = octopipe(*ARGUMENTS, "--plan", "plan.json").out.splitlines()
    assert [line.split()[0] for line in lines[-len(rows) :]] == [row["schedule"] for row in rows]


def test_the_plan_is_drawn_below_the_fastest_schedule(folder: Path, octopipe: Octopipe) -> None:
    table = octopipe(*ARGUMENTS, "--plan", "plan.json").out
    drawn = octopipe(*ARGUMENTS, "--plan", "plan.json", "--gantt").out
    assert drawn.startswith(f"{table}\n")
    lines = drawn[len(table) + 1 :].splitlines()
    # The first of those with the least step time, 21 ms; the plan is 1F1B.
    assert lines[0] == "interleaved-1f1b, equal partition, 2 stages a rank: 21.00 ms"
    assert lines[3] == "plan.json: 26.00 ms, 5.000 ms (23.8 %) MORE"
    assert [line.count("│") for line in lines[1:3] + lines[4:6]] == [2] * 4
    several = octopipe(*ARGUMENTS, "--plan", "plan.json", "--plan", "plan.json", "--gantt").out
    assert several.count("\nplan.json: 26.00 ms\n") == 2
    assert "a rank: " not in several


@pytest.mark.parametrize("more", [(), ("--plan", "plan.json", "--format", "json")])
def test_a_chart_without_a_plan_or_as_json_is_refused(folder: Path, octopipe: Octopipe, more: tuple[str, ...]) -> None:
    result = octopipe(*ARGUMENTS, "--gantt", *more)
    assert (result.code, result.out) == (2, "")
    assert "--gantt draws plans as text" in result.err


def test_layouts_are_drawn_in_the_schedule_s_place(blocks: Path, octopipe: Octopipe) -> None:
    octopipe("plan", "profile.json", "cluster.json", "-m", "2", "--effort", "quick", "-o", "new.json")
    drawn = octopipe(*ARGUMENTS, "--plan", "new.json", "--layout", "Et|tL", "--gantt").out
    assert "\nlayout Et|tL: 26.00 ms\n" in drawn
    assert "\nnew.json: " in drawn
    assert "a rank: " not in drawn


def test_fewer_stages_a_rank_where_asked(folder: Path, octopipe: Octopipe) -> None:
    rows = json.loads(octopipe(*ARGUMENTS, "--max-stages-per-rank", 1, "--format", "json").out)["rows"]
    assert {row["stages_per_rank"] for row in rows} == {1}
    rows = json.loads(octopipe(*ARGUMENTS, "--recompute", "full", "--format", "json").out)["rows"]
    assert {row["recompute"] for row in rows} == {True}


@pytest.mark.parametrize("which", ["profile", "cluster"])
def test_a_plan_for_other_files_is_refused(folder: Path, octopipe: Octopipe, which: str) -> None:
    document = json.loads((folder / f"{which}.json").read_text())
    (folder / f"{which}.json").write_text(json.dumps({**document, "name": "other"}))
    result = octopipe(*ARGUMENTS, "--plan", "plan.json")
    assert result.code == 2
    assert f"another {which} than {which}.json" in result.err
    assert f"plan.json, $.inputs.{which}.digest" in result.err


def test_a_plan_for_another_number_of_microbatches_is_refused(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe("compare", "profile.json", "cluster.json", "-m", 3, "--plan", "plan.json")
    assert result.code == 2
    assert "$.request.num_microbatches" in result.err
    assert "compare with -m 2" in result.err


def test_an_invalid_plan_is_not_compared(folder: Path, octopipe: Octopipe) -> None:
    changed = edited(documents.toy(documents.PLAN), {"orders.0": ["0B0 0F0 0F1 0B1"]})
    (folder / "plan.json").write_text(json.dumps(changed))
    result = octopipe(*ARGUMENTS, "--plan", "plan.json")
    assert (result.code, result.out) == (1, "")
    assert "deadlock" in result.err


@pytest.fixture
def blocks(folder: Path) -> Path:
    """Return the folder, the profile's decoder layers being whole ones."""
    (folder / "profile.json").write_text((folder / "profile.json").read_text().replace('"mamba"', '"block"'))
    return folder


def layouts(octopipe: Octopipe, *more: object) -> list[dict[str, object]]:
    rows = json.loads(octopipe(*ARGUMENTS, "--format", "json", *more).out)["rows"]
    return [row for row in rows if row["schedule"] == "layout"]


def test_layouts_stand_beside_them(blocks: Path, octopipe: Octopipe) -> None:
    plain, looped, lopsided = layouts(octopipe, "--layout", "Et|tL", "--layout", "E|t|t|L", "--layout", "Ett|L")
    assert plain == {
        "schedule": "layout",
        "partition": "layout",
        "stages_per_rank": 1,
        "recompute": False,
        "step_time_ns": 26_000_000,  # as 1F1B with equal counts
        "span_ns": 26_000_000,
        "bubble_ratio": 1 - 34 / 52,
        "peak_memory_bytes": [0, 0],
        "fits": True,
        "speedup": None,
        "layout": "Et|tL",
        "order": "1f1b",
        "group_size": None,
    }
    assert (looped["stages_per_rank"], looped["order"], looped["group_size"]) == (2, "interleaved-1f1b", 2)
    assert lopsided["step_time_ns"] > plain["step_time_ns"]  # type: ignore[operator]
    lines = octopipe(*ARGUMENTS, "--layout", "Et|tL").out.splitlines()
    assert lines[-1].split()[:2] == ["layout", "layout"]


def test_empty_stages_take_their_hops(blocks: Path, octopipe: Octopipe) -> None:
    # An empty stage does no work, but what passes it takes two hops where one would do.
    cluster = json.loads((blocks / "cluster.json").read_text())
    links = {"within_node": {"latency_us": 1000}}
    (blocks / "cluster.json").write_text(json.dumps({**cluster, "links": links}))
    arguments = ("compare", "profile.json", "cluster.json", "-m", "2", "--format", "json", "--layout")
    *_, full = json.loads(octopipe(*arguments, "Et|tL").out)["rows"]
    *_, empty = json.loads(octopipe(*arguments, "Et|||tL").out)["rows"]
    assert empty["step_time_ns"] > full["step_time_ns"]
    assert empty["peak_memory_bytes"] == [0, 0]


def test_group_sizes(blocks: Path, octopipe: Octopipe) -> None:
    (found,) = layouts(octopipe, "--layout", "E|t|t|L", "-m", 4, "--group-size", 4)
    assert found["group_size"] == 4
    for more in (
        ("--group-size", 2),
        ("--layout", "Et|tL", "--group-size", 2),
        ("--layout", "E|t|t|L", "--group-size", 3),
    ):
        result = octopipe(*ARGUMENTS, *more)
        assert (result.code, result.out) == (2, "")


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        ("Et|ttL", "rule layers: 3 of t, expected 2"),
        ("Et|tL|", "rule stages"),
        ("et|tL", "rule letter"),
        ("|EttL", "rule embedding-stage"),
    ],
)
def test_layouts_that_are_none(blocks: Path, octopipe: Octopipe, layout: str, words: str) -> None:
    result = octopipe(*ARGUMENTS, "--layout", layout)
    assert (result.code, result.out) == (2, "")
    assert words in result.err


def test_layers_that_are_no_transformer_layers(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe(*ARGUMENTS, "--layout", "Et|tL")
    assert result.code == 2
    assert 'a layout counts transformer layers, and "mamba" is none' in result.err


def test_rules_of_the_profile_bind_layouts(blocks: Path, octopipe: Octopipe) -> None:
    profile = json.loads((blocks / "profile.json").read_text())
    for rules, words in (({"no_cut_after": [1]}, "after layer 1"), ({"same_rank": [[0, 2]]}, "share a rank")):
        (blocks / "profile.json").write_text(json.dumps({**profile, "rules": rules}))
        result = octopipe(*ARGUMENTS, "--layout", "Et|tL")
        assert result.code == 2
        assert words in result.err
