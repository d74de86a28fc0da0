from __future__ import annotations

import json

from tests.cli.conftest import Octopipe


def test_a_layout_that_is_built_as_it_says(octopipe: Octopipe) -> None:
    result = octopipe("layout", "check", "Et*2|(tt|)*5t|tmL", "--ranks", 4, "--layers", 14, "--mtp", 1)
    assert (result.code, result.err) == (0, "")
    first, _, *rows = result.out.splitlines()
    assert first == '"Et*2|(tt|)*5t|tmL": Megatron builds what it says, 2 stages a rank'
    assert [row.split() for row in rows[:2]] == [
        ["0", "0", "0-1", "embedding,", "2xdecoder"],
        ["4", "8-9", "2xdecoder"],
    ]
    assert rows[-1].split() == ["7", "13", "decoder,", "mtp,", "loss"]


def test_broken_rules_are_named(octopipe: Octopipe) -> None:
    result = octopipe("layout", "check", "|Et|tL", "--ranks", 3, "--layers", 2)
    assert result.code == 1
    assert result.out.splitlines()[:2] == [
        '"|Et|tL": no, Megatron takes it but builds something else',
        "  embedding-stage: E is not in stage 0, where Megatron builds the embedding all the same",
    ]
    assert octopipe("layout", "check", "et|tL", "--ranks", 2, "--layers", 2).out.splitlines() == [
        '"et|tL": no',
        '  letter: "e" is none of the letters E, t, m, L and |: letters are case-sensitive',
    ]


def test_json(octopipe: Octopipe) -> None:
    arguments = ("layout", "check", "Et|tL", "--ranks", 2, "--format", "json", "--layers")
    document = json.loads(octopipe(*arguments, 2).out)
    assert document["valid"] is True
    assert document["stages"][1] == {"rank": 1, "stage": 1, "layers": [1, 2], "holds": ["decoder", "loss"]}
    result = octopipe(*arguments, 3)
    assert result.code == 1
    assert json.loads(result.out)["problems"] == [
        {"rule": "layers", "message": "2 of t, expected 3: decoder", "megatron": True}
    ]


def test_hybrid_patterns(octopipe: Octopipe) -> None:
    result = octopipe("layout", "check", "--hybrid", "M-|M*-/MM", "--ranks", 2)
    assert result.code == 0
    assert [line.split() for line in result.out.splitlines()[2:]] == [
        ["0", "0", "0-1", "embedding,", "mamba-2,", "mlp"],
        ["1", "1", "2-4", "mamba-2,", "attention,", "mlp,", "head,", "mtp"],
    ]
    assert octopipe("layout", "check", "--hybrid", "M|M/M|M", "--ranks", 2).code == 1


def test_the_number_of_layers_is_asked_for(octopipe: Octopipe) -> None:
    result = octopipe("layout", "check", "Et|tL", "--ranks", 2)
    assert (result.code, result.out) == (2, "")
    assert "--layers" in result.err
