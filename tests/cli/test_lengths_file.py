"""Files of lengths: JSON, JSON lines and CSV, tokens, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.cli.lengths import read_lengths
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded, digest
from octopipe_cli.profile import Profile, profile_from_document
from tests import documents
from tests.cli.conftest import Octopipe
from tests.editing import edited


def model(**training: Any) -> Loaded[Profile]:
    changes: dict[str, Any] = {"kinds.mamba.modality": "vision"}
    document = edited(documents.toy(documents.PROFILE), changes | ({"training": training} if training else {}))
    return Loaded(profile_from_document(document, "p.json"), "p.json", digest(document))


def read(folder: Path, text: str, name: str = "lengths.json", tokens: bool = False, number: int = 2) -> Any:
    (folder / name).write_text(text)
    profile = model(sequence_length=1024, micro_batch_size=2)
    return read_lengths(str(folder / name), profile, number, tokens=tokens)


ONE = {"text": [1.0, 0.5], "vision": [0.0, 3.0]}
TWO = {"text": [2.0, 0.25], "vision": [1.0, 1.0]}


@pytest.mark.parametrize(
    ("text", "sets"),
    [
        (json.dumps(ONE), [ONE]),
        (json.dumps(ONE, indent=1), [ONE]),
        (f"{json.dumps(ONE)}\n\n{json.dumps(TWO)}\n", [ONE, TWO]),
        (json.dumps([ONE, TWO], indent=1), [ONE, TWO]),
        ("vision,text\n0,1\n3,0.5\n", [ONE]),
        ("vision , text\n0,1\n3,.5\n1,2\n1,0.25\n", [ONE, TWO]),
    ],
)
def test_every_way_to_write_them(tmp_path: Path, text: str, sets: Any) -> None:
    found = read(tmp_path, text)
    assert found.sets == sets
    assert found.digest == digest({"lengths": sets})


def test_tokens_are_divided_by_those_of_a_micro_batch(tmp_path: Path) -> None:
    assert read(tmp_path, '{"text": [4096, 512]}', tokens=True).sets == [{"text": [2.0, 0.25]}]
    with pytest.raises(InputError, match="does not say"):
        read_lengths(str(tmp_path / "lengths.json"), model(), 2, tokens=True)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("{}", "no modality"),
        ("[]", "no lengths in the file"),
        ("3", "not a row for every micro-batch"),
        ("[3]", "not lengths of micro-batches"),
        ('{"audio": [1, 2]}', 'of modality "audio"'),
        ('{"text": [1, 2, 3]}', "not as many lengths as micro-batches"),
        ('{"text": [1, -2]}', "not a value that can stand here"),
        ('{"text": [1, "a"]}', "not a value that can stand here"),
        ('{"text": [1, NaN]}', "not a finite number"),
        ('{"text": [1, 2]}\n{"text": [1, 2}\n', "not valid JSON"),
        ("text\n1\n", "not a row for every micro-batch"),
        ("text\n1\nnan\n", "not a number for every column"),
        ("text,vision\n1\n2\n", "not a number for every column"),
        ("text,text\n1,1\n2,2\n", "a column stands twice"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, text: str, word: str) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, text)
    assert word in " ".join(words for _, words in caught.value.lines())


def test_options_that_need_them(folder: Path, octopipe: Octopipe) -> None:
    for option in (["--tokens"], ["--keep-order"], ["--robust", "p95"]):
        found = octopipe("plan", "profile.json", "cluster.json", "-m", 2, *option)
        assert found.code == 2
        assert "--lengths" in found.err
    (folder / "two.jsonl").write_text('{"text": [1, 2]}\n{"text": [2, 1]}\n')
    (folder / "one.json").write_text('{"text": [1, 2]}\n')
    for file, more, word in (
        ("two.jsonl", [], "--robust mean, p95 or worst"),
        ("one.json", ["--robust", "mean"], "2 or more"),
        ("two.jsonl", ["--robust", "mean", "--keep-order"], "means nothing"),
        ("one.json", ["--engine", "torch"], "of one length"),
        ("one.json", ["--robust-noise", "5%"], "--robust-noise"),
    ):
        found = octopipe("plan", "profile.json", "cluster.json", "-m", 2, "--lengths", file, *more)
        assert found.code == 2, found.out
        assert word in found.err


def test_plans_compared_over_many_steps(folder: Path, octopipe: Octopipe) -> None:
    (folder / "sets.jsonl").write_text("".join(f'{{"text": [1, {k}]}}\n' for k in (1, 2, 3, 4)))
    inputs = ("profile.json", "cluster.json", "-m", 2)
    made = octopipe(
        "plan", *inputs, "--effort", "quick", "--lengths", "sets.jsonl", "--robust", "worst", "-o", "r.json"
    )
    assert made.code == 0, made.err
    found = octopipe("compare", *inputs, "--lengths", "sets.jsonl", "--plan", "r.json", "--format", "json")
    document = json.loads(found.out)
    plan = json.loads((folder / "r.json").read_text())
    assert document["steps"] == plan["robust"]["count"] == 2
    row = document["rows"][-1]
    assert {key: row[key] for key in ("mean_ns", "p95_ns", "worst_ns")} == {
        key: plan["robust"][key] for key in ("mean_ns", "p95_ns", "worst_ns")
    }
    assert "lengths" not in plan["request"]
    text = octopipe("compare", *inputs, "--lengths", "sets.jsonl", "--plan", "r.json")
    assert "95th percentile" in text.out
    assert "Lengths of 2 steps" in text.out


def test_a_robust_plan_is_checked_as_long_as_its_inputs_stand(folder: Path, octopipe: Octopipe) -> None:
    (folder / "sets.jsonl").write_text('{"text": [1, 2]}\n{"text": [2, 1]}\n')
    how = ("-m", 2, "--effort", "quick", "--lengths", "sets.jsonl", "--robust", "mean", "-o", "r.json", "--no-gantt")
    assert octopipe("plan", "profile.json", "cluster.json", *how).code == 0
    assert octopipe("plan", "profile.json", "cluster.json", "--check", "r.json").code == 0
    document = json.loads((folder / "profile.json").read_text())
    document["kinds"]["mamba"]["times"]["a100"]["forward_ms"] *= 2
    (folder / "profile.json").write_text(json.dumps(document))
    found = octopipe("plan", "profile.json", "cluster.json", "--check", "r.json")
    assert found.code == 2
    assert "many sets of lengths" in found.err
    entry = '"r.json" = { profile = "profile.json", cluster = "cluster.json", lengths = "sets.jsonl" }\n'
    (folder / "octopipe.toml").write_text("[plans]\n" + entry)
    assert octopipe("plan", "--check", "r.json").code == 1  # searched for again: the times are others
    (folder / "sets.jsonl").write_text('{"text": [1, 3]}\n{"text": [2, 1]}\n')
    found = octopipe("plan", "--check", "r.json")
    assert (found.code, "made for other lengths" in found.err) == (2, True)
