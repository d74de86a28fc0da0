"""Malformed files and flags: each one screen of text on stderr that says where, the right exit code, no traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import documents
from tests.cli.conftest import Octopipe, Result
from tests.editing import REMOVED, edited


def one_screen(result: Result, code: int, *words: str) -> None:
    assert result.code == code, result.err
    assert result.out == ""
    assert "Traceback" not in result.err
    assert result.err.startswith("octopipe: error: ")
    assert len(result.err.splitlines()) < 24
    assert max(map(len, result.err.splitlines())) <= 420
    assert "\x1b" not in result.err
    for word in words:
        assert word in result.err


NUMBERS = '{"forward_ms": %s, "backward_input_ms": 1, "backward_weight_ms": 1}'
WITH_TIME = (
    '{"schema": "octopipe.profile", "version": 1, "name": "n", '
    '"kinds": {"a": {"times": {"a100": ' + NUMBERS + '}}}, "layers": ["a", "a"]}'
)

TEXTS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"),
    "not-json": (b"not json", "line 1, column 1"),
    "a-list": (b"[]", "not an object"),
    "a-number": (b"17", "not an object"),
    "null": (b"null", "not an object"),
    "half": (b'{"schema": "octopipe.profile", "version": 1', "line 1, column 44"),
    "other-schema": (b'{"schema": "x"}', '"octopipe.profile"'),
    "no-schema": (b'{"version": 1}', "$.schema"),
    "schema-number": (b'{"schema": 1, "version": 1}', "$.schema"),
    "no-version": (b'{"schema": "octopipe.profile"}', "$.version"),
    "future": (b'{"schema": "octopipe.profile", "version": 99}', "newer"),
    "version-text": (b'{"schema": "octopipe.profile", "version": "1"}', "$.version"),
    "version-true": (b'{"schema": "octopipe.profile", "version": true}', "$.version"),
    "only-head": (b'{"schema": "octopipe.profile", "version": 1}', "missing"),
    "nan": ((WITH_TIME % "NaN").encode(), "$.kinds.a.times.a100.forward_ms"),
    "infinity": ((WITH_TIME % "Infinity").encode(), "$.kinds.a.times.a100.forward_ms"),
    "overflow": ((WITH_TIME % "1e400").encode(), "$.kinds.a.times.a100.forward_ms"),
    "many-digits": ((WITH_TIME % ("9" * 5000)).encode(), "digits"),
    "hundreds-of-digits": ((WITH_TIME % ("9" * 400)).encode(), "$.kinds.a.times.a100.forward_ms"),
    "negative": ((WITH_TIME % "-0.5").encode(), "$.kinds.a.times.a100.forward_ms"),
    "true": ((WITH_TIME % "true").encode(), "$.kinds.a.times.a100.forward_ms"),
    "comma-decimal": ((WITH_TIME % '"1,5"').encode(), "$.kinds.a.times.a100.forward_ms"),
    "doubled": ((WITH_TIME % "1")[:-1].encode() + b', "name": "m"}', "$.name"),
    "doubled-deep": ((WITH_TIME % '1, "forward_ms": 2').encode(), "$.kinds.a.times.a100.forward_ms"),
    "deep": (b"[" * 100_000, "nested too deeply"),
    "deep-and-closed": (b'{"provenance": ' + b"[" * 300 + b"]" * 300 + b"}", "nested too deeply"),
    "utf-16": ((WITH_TIME % "1").encode("utf-16"), "UTF-8"),
    "latin-1": ('{"näme": 1}'.encode("latin-1"), "UTF-8"),
    "binary": (bytes(range(256)), "UTF-8"),
    "surrogate": (b'{"schema": "\\ud800"}', "$.schema"),
    "escape-codes": (b'{"schema": "octopipe.profile", "version": 1, "\\u001b[31mred": 1}', "u001b"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_profile_that_is_none(folder: Path, octopipe: Octopipe, name: str) -> None:
    text, word = TEXTS[name]
    file = folder / f"bad-{name}.json"
    file.write_bytes(text)
    one_screen(octopipe("plan", file.name, "cluster.json", "-m", 4), 2, file.name, word)
    one_screen(octopipe("profile", "show", file.name), 2, file.name, word)


PROFILES: dict[str, tuple[dict[str, Any], str]] = {
    "no-kinds": ({"kinds": REMOVED}, '"kinds" is missing'),
    "no-layers": ({"layers": []}, "$.layers"),
    "unknown-kind": ({"layers.1.of": ["mamab"]}, 'did you mean "mamba"?'),
    "unknown-key": ({"layrs": 1}, 'did you mean "layers"?'),
    "repeat-0": ({"layers.1.repeat": 0}, "$.layers[1].repeat"),
    "repeat-much": ({"layers.1.repeat": 10_000}, "too many layers"),
    "group-in-group-in-group": (
        {"layers.1.of": [{"repeat": 2, "of": [{"repeat": 2, "of": ["mamba"]}]}]},
        "$.layers[1].of[0].of[0]",
    ),
    "no-time": ({"kinds.mamba.times": {}}, "$.kinds.mamba.times"),
    "tied-nothing": ({"rules": {"tied": [[0, 9]]}}, "$.rules.tied[0][1]"),
    "share-above-1": ({"kinds.mamba.quadratic_share": 1.3}, "$.kinds.mamba.quadratic_share"),
    "half-a-byte": ({"kinds.mamba.state_bytes": 0.5}, "$.kinds.mamba.state_bytes"),
}

CLUSTERS: dict[str, tuple[dict[str, Any], str]] = {
    "no-ranks": ({"ranks": []}, "$.ranks"),
    "no-memory": ({"ranks.0.memory_gib": REMOVED}, '"memory_gib" is missing'),
    "all-reserved": ({"ranks.0.memory_gib": 4, "ranks.0.reserved_gib": 4}, "nothing is left"),
    "other-hardware": ({"ranks.0.hardware": "h100"}, '"a100"'),
    "speed-0": ({"ranks.0.speed": 0}, "$.ranks[0].speed"),
    "no-such-p2p": ({"p2p": "none"}, '"overlapped"'),
    "pair-of-one": ({"links": {"pairs": [{"from": 1, "to": 1}]}}, "$.links.pairs[0]"),
    "pair-beyond": ({"links": {"pairs": [{"from": 0, "to": 2}]}}, "$.links.pairs[0].to"),
}

PLANS: dict[str, tuple[dict[str, Any], str]] = {
    "no-token": ({"orders.0.0": "0F0 0Q1"}, "$.orders[0][0]"),
    "one-order": ({"orders": [["0F0"]]}, "$.orders"),
    "no-digest": ({"inputs.profile.digest": "sha256:0"}, "$.inputs.profile.digest"),
    "no-stages": ({"stages": []}, "$.stages"),
    "few-lengths": ({"request.lengths": {"text": [1]}}, "not as many lengths as micro-batches"),
    "length-below-0": ({"request.lengths": {"text": [-1]}}, "$.request.lengths.text[0]"),
    "microbatch-twice": ({"microbatch_order": [0, 0]}, "not an order of the micro-batches"),
}


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_with_a_fault(folder: Path, octopipe: Octopipe, name: str) -> None:
    changes, word = PROFILES[name]
    (folder / "bad.json").write_text(json.dumps(edited(documents.toy(documents.PROFILE), changes)))
    one_screen(octopipe("plan", "bad.json", "cluster.json", "-m", 4), 2, "bad.json", word)


@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_with_a_fault(folder: Path, octopipe: Octopipe, name: str) -> None:
    changes, word = CLUSTERS[name]
    (folder / "bad.json").write_text(json.dumps(edited(documents.toy(documents.CLUSTER), changes)))
    one_screen(octopipe("plan", "profile.json", "bad.json", "-m", 4), 2, "bad.json", word)
    one_screen(octopipe("compare", "profile.json", "bad.json", "-m", 4), 2, "bad.json", word)


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_with_a_fault(folder: Path, octopipe: Octopipe, name: str) -> None:
    changes, word = PLANS[name]
    (folder / "bad.json").write_text(json.dumps(edited(documents.toy(documents.PLAN), changes)))
    one_screen(octopipe("show", "bad.json"), 2, "bad.json", word)


PLAN = ("plan", "profile.json", "cluster.json")

FLAGS: dict[str, tuple[tuple[str, ...], str]] = {
    "no-such-command": (("plam",), "plan"),
    "no-such-option": ((*PLAN, "-m", "4", "--effrt", "quick"), "--effort"),
    "nothing": (("plan",), "PROFILE"),
    "no-cluster": (("plan", "profile.json", "-m", "4"), "CLUSTER"),
    "no-microbatches": (PLAN, "--num-microbatches"),
    "one-too-many": ((*PLAN, "more.json", "-m", "4"), "more.json"),
    "m-0": ((*PLAN, "-m", "0"), "-m"),
    "m-negative": ((*PLAN, "-m", "-3"), "-m"),
    "m-fraction": ((*PLAN, "-m", "2.5"), "-m"),
    "m-huge": ((*PLAN, "-m", "1000000000"), "-m"),
    "m-word": ((*PLAN, "-m", "eight"), "-m"),
    "m-without": ((*PLAN, "-m"), "-m"),
    "effort": ((*PLAN, "-m", "4", "--effort", "huge"), "'standard'"),
    "seed": ((*PLAN, "-m", "4", "--seed", "-1"), "--seed"),
    "seed-word": ((*PLAN, "-m", "4", "--seed", "x"), "--seed"),
    "time-limit-0": ((*PLAN, "-m", "4", "--time-limit", "0"), "--time-limit"),
    "time-limit-nan": ((*PLAN, "-m", "4", "--time-limit", "nan"), "--time-limit"),
    "time-limit-inf": ((*PLAN, "-m", "4", "--time-limit", "inf"), "--time-limit"),
    "jobs-0": ((*PLAN, "-m", "4", "--jobs", "0"), "--jobs"),
    "engine": ((*PLAN, "-m", "4", "--engine", "megatron", "--placement", "v"), "megatron has no V placement"),
    "no-engine": ((*PLAN, "-m", "4", "--engine", "x"), "--engine"),
    "recompute": ((*PLAN, "-m", "4", "--recompute", "some"), "--recompute"),
    "backward": ((*PLAN, "-m", "4", "--backward", "both"), "--backward"),
    "placement": ((*PLAN, "-m", "4", "--placement", "w"), "--placement"),
    "objective": ((*PLAN, "-m", "4", "--objective", "fun"), "--objective"),
    "stages-0": ((*PLAN, "-m", "4", "--max-stages-per-rank", "0"), "--max-stages-per-rank"),
    "format": ((*PLAN, "-m", "4", "--format", "xml"), "--format"),
    "both-stdin": (("plan", "-", "-", "-m", "4"), "PROFILE and CLUSTER"),
    "verify-both-stdin": (("verify", "plan.json", "--profile", "-", "--cluster", "-"), "profile and cluster"),
    "compare-both-stdin": (("compare", "-", "cluster.json", "-m", "2", "--plan", "-"), "PROFILE and --plan cannot"),
    "verify-without": (("verify", "plan.json"), "--profile"),
    "missing-profile": (("plan", "none.json", "cluster.json", "-m", "4"), "none.json"),
    "missing-cluster": (("plan", "profile.json", "none.json", "-m", "4"), "none.json"),
    "missing-plan": (("show", "none.json"), "none.json"),
    "a-folder": (("plan", ".", "cluster.json", "-m", "4"), "directory"),
    "no-name": (("plan", "", "cluster.json", "-m", "4"), "empty name"),
    "below-a-file": (("plan", "plan.json/x", "cluster.json", "-m", "4"), "plan.json/x"),
    "files-swapped": (("plan", "cluster.json", "profile.json", "-m", "4"), "cluster.json"),
    "output-folder": ((*PLAN, "-m", "4", "-o", "."), "directory"),
    "output-nowhere": ((*PLAN, "-m", "4", "-o", "none/x.json"), 'there is no folder "none"'),
    "output-input": ((*PLAN, "-m", "4", "-o", "./cluster.json"), "would replace the cluster"),
    "schema-of-nothing": (("schema", "plans"), "'plan'"),
    "schema-alone": (("schema",), "profile|cluster|plan"),
    "profile-alone": (("profile",), "command"),
    "import-alone": (("profile", "import"), "command"),
    "import-without-hardware": (("profile", "import", "simpipe", "profile.json"), "--hardware"),
    "import-of-a-profile": (("profile", "import", "simpipe", "profile.json", "--hardware", "a100"), "unknown key"),
    "version-of-plan": (("plan", "--version"), "--version"),
}


@pytest.mark.parametrize("name", FLAGS)
def test_flags_that_cannot_be(folder: Path, octopipe: Octopipe, name: str) -> None:
    arguments, word = FLAGS[name]
    before = sorted(folder.iterdir())
    one_screen(octopipe(*arguments), 2, word)
    assert sorted(folder.iterdir()) == before


def test_more_ranks_than_layers_is_infeasible(folder: Path, octopipe: Octopipe) -> None:
    (folder / "wide.json").write_text(json.dumps(edited(documents.toy(documents.CLUSTER), {"ranks.0.count": 5})))
    for command in ("plan", "compare"):
        one_screen(octopipe(command, "profile.json", "wide.json", "-m", 4), 3, "wide.json", "5 ranks for 4 layers")


@pytest.mark.parametrize(
    ("profile", "cluster"),
    [
        ({"kinds.mamba.times.a100.forward_ms": 1e8}, {"ranks.0.speed": 0.001}),
        ({"kinds.mamba.activation_bytes": 2**50}, {}),
        ({"kinds.mamba.output_bytes": 2**50}, {"links": {"within_node": {"bandwidth_gb_per_s": 1e-6}}}),
        ({"layers.1.repeat": 100}, {"action_overhead_us": 1e9}),
    ],
)
def test_what_64_bits_do_not_hold_is_refused(
    folder: Path, octopipe: Octopipe, profile: dict[str, Any], cluster: dict[str, Any]
) -> None:
    (folder / "p.json").write_text(json.dumps(edited(documents.toy(documents.PROFILE), profile)))
    (folder / "c.json").write_text(json.dumps(edited(documents.toy(documents.CLUSTER), cluster)))
    one_screen(octopipe("plan", "p.json", "c.json", "-m", 100_000), 2, "p.json", "to reckon with")


def test_files_and_names_cannot_write_to_the_terminal(folder: Path, octopipe: Octopipe) -> None:
    one_screen(octopipe("show", "a\x1b]0;b\nc.json"), 2, "a\\x1b]0;b\\nc.json")


def test_standard_input_is_named_as_such(folder: Path, octopipe: Octopipe) -> None:
    one_screen(octopipe("plan", "-", "cluster.json", "-m", 4, stdin=b"[]"), 2, "standard input")
    one_screen(octopipe("plan", "profile.json", "-", "-m", 4, stdin=b"{"), 2, "standard input")
    wrong = json.dumps(edited(documents.toy(documents.PLAN), {"orders.0.0": "x"})).encode()
    one_screen(octopipe("show", "-", stdin=wrong), 2, "standard input")


def test_a_long_list_of_names_stays_short(folder: Path, octopipe: Octopipe) -> None:
    document = documents.toy(documents.PROFILE)
    document["kinds"] |= {f"kind{number}" * 9: document["kinds"]["mamba"] for number in range(5000)}
    document["layers"][0] = "nothing of the sort"
    (folder / "bad.json").write_text(json.dumps(document))
    one_screen(octopipe("profile", "show", "bad.json"), 2, "bad.json")
