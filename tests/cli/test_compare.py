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
    assert [line.split()[0] for line in lines[1:]] == [row["schedule"] for row in rows]


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
