from __future__ import annotations

import json
from pathlib import Path

from tests import documents
from tests.cli.conftest import Octopipe
from tests.editing import edited

INPUTS = ("--profile", "profile.json", "--cluster", "cluster.json")


def test_a_valid_plan(folder: Path, octopipe: Octopipe) -> None:
    assert octopipe("verify", "plan.json", *INPUTS) == (0, "plan.json: valid\n", "")
    result = octopipe("verify", "plan.json", *INPUTS, "--format", "json")
    assert json.loads(result.out) == {"valid": True, "findings": []}


def test_a_plan_from_standard_input(folder: Path, octopipe: Octopipe) -> None:
    result = octopipe("verify", "-", *INPUTS, stdin=(folder / "plan.json").read_bytes())
    assert (result.code, result.out) == (0, "standard input: valid\n")


def test_each_finding_is_listed_and_the_answer_is_no(folder: Path, octopipe: Octopipe) -> None:
    changes = {"predicted.step_time_ns": 26_000_001, "predicted.span_ns": 25_999_999}
    (folder / "plan.json").write_text(json.dumps(edited(documents.toy(documents.PLAN), changes)))
    result = octopipe("verify", "plan.json", *INPUTS)
    assert (result.code, result.err) == (1, "")
    first, *findings = result.out.splitlines()
    assert first == f"plan.json: not valid, {len(findings)} findings"
    assert findings[0].startswith("  step-time, $.predicted.step_time_ns: ")
    assert findings[1].startswith("  span, $.predicted.span_ns: ")
    listed = json.loads(octopipe("verify", "plan.json", *INPUTS, "--format", "json").out)
    assert listed["valid"] is False
    assert [(each["rule"], each["path"]) for each in listed["findings"]][:2] == [
        ("step-time", "$.predicted.step_time_ns"),
        ("span", "$.predicted.span_ns"),
    ]


def test_a_plan_for_other_files_is_invalid(folder: Path, octopipe: Octopipe) -> None:
    document = documents.toy(documents.CLUSTER)
    (folder / "other.json").write_text(json.dumps({**document, "action_overhead_us": 1}))
    result = octopipe("verify", "plan.json", "--profile", "profile.json", "--cluster", "other.json")
    assert result.code == 1
    assert "digest, $.inputs.cluster.digest" in result.out


def test_a_file_that_cannot_be_read(folder: Path, octopipe: Octopipe) -> None:
    assert octopipe("verify", "plan.json", "--profile", "none.json", "--cluster", "cluster.json").code == 2
    assert octopipe("verify", "profile.json", *INPUTS).code == 2
