from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.formats import digest
from octopipe_cli.profile import (
    compress,
    expand,
    load_profile,
    profile_document,
    profile_from_document,
)
from tests import documents
from tests.editing import REMOVED, edited


def refused(changes: dict[str, Any]) -> InputError:
    with pytest.raises(InputError) as caught:
        profile_from_document(edited(documents.full_profile(), changes), "p.json")
    return caught.value


def test_a_profile_is_read_with_groups_written_out() -> None:
    profile = profile_from_document(documents.full_profile(), "p.json")
    block = ("mixer", "ff", "ff", "ff")
    assert profile.layer_kinds == ("embedding", *block, *block, "mtp", "head")
    assert profile.num_layers == 11
    assert profile.hardware == ("a", "b")
    assert profile.kind_of(10).parameters == 13
    assert profile.kind_of(1).workspace_bytes == 9
    assert not profile.kind_of(1).splittable
    times = profile.kind_of(0).times["a"]
    assert (times.forward_ms, times.backward_ms, times.step_ms) == (1.5, 2.2, 0.1)
    assert profile.training.data_parallel == 16


def test_what_is_left_out_has_the_defaults_of_the_format() -> None:
    profile = load_profile(str(documents.PROFILE)).value
    kind, times = profile.kinds["mamba"], profile.kinds["mamba"].times["a100"]
    sizes = (kind.state_bytes, kind.activation_bytes, kind.weight_activation_bytes, kind.output_bytes)
    assert sizes == (0, 0, 0, 0)
    assert (kind.workspace_bytes, kind.parameters, kind.splittable, kind.role) == (0, 0, True, "decoder")
    assert (times.backward_ms, times.step_ms) == (None, 0.0)
    assert (profile.rules.same_rank, profile.rules.tied, profile.rules.no_cut_after) == ([], [], [])
    assert (profile.training.sequence_length, profile.training.tensor_parallel) == (None, 1)


def test_loading_keeps_the_file_and_the_digest_of_its_document() -> None:
    loaded = load_profile(str(documents.PROFILE))
    assert loaded.file == str(documents.PROFILE)
    assert loaded.digest == digest(json.loads(documents.PROFILE.read_text()))


def test_a_profile_written_and_read_again_is_the_same() -> None:
    profile = profile_from_document(documents.full_profile(), "p.json")
    document = profile_document(profile)
    assert profile_from_document(document, "again") == profile
    assert list(document)[:3] == ["schema", "version", "name"]


@pytest.mark.parametrize(
    ("path", "value", "place", "expected"),
    [
        ("kinds.mixer.times.b.forward_ms", -1, "$.kinds.mixer.times.b.forward_ms", "a number >= 0.0"),
        ("kinds.mixer.times.b.forward_ms", True, "$.kinds.mixer.times.b.forward_ms", "a number"),
        ("kinds.mixer.times.b.forward_ms", "1", "$.kinds.mixer.times.b.forward_ms", "a number"),
        ("kinds.mixer.times.b.forward_ms", None, "$.kinds.mixer.times.b.forward_ms", "a number"),
        pytest.param(
            "kinds.ff.times.c.forward_ms", 10**400, "$.kinds.ff.times.c.forward_ms", "a number that a", id="huge"
        ),
        ("kinds.ff.times.c.step_ms", 1e9, "$.kinds.ff.times.c.step_ms", "a number <= 100000000.0"),
        ("kinds.head.parameters", 1.5, "$.kinds.head.parameters", "a whole number"),
        ("kinds.head.parameters", False, "$.kinds.head.parameters", "a whole number"),
        ("kinds.embedding.state_bytes", 2**51, "$.kinds.embedding.state_bytes", "a whole number <= 1125899906842624"),
        ("kinds.head.splittable", 1, "$.kinds.head.splittable", "true or false"),
        ("kinds.head.role", "haed", "$.kinds.head.role", 'one of "decoder", "embedding", "head", "mtp"'),
        ("kinds.head", [], "$.kinds.head", "an object"),
        ("kinds.head.times", {}, "$.kinds.head.times", "an object, length >= 1"),
        ("kinds.head.times.a", 3, "$.kinds.head.times.a", "an object"),
        ("kinds", {}, "$.kinds", "an object, length >= 1"),
        ("layers", [], "$.layers", "a list, length >= 1"),
        ("layers", "mixer", "$.layers", "a list"),
        ("layers.0", 3, "$.layers[0]", "text or an object"),
        ("layers.1.repeat", 0, "$.layers[1].repeat", "a whole number >= 1"),
        ("layers.1.of", [], "$.layers[1].of", "a list, length >= 1"),
        ("layers.1.of.1.of", [{"repeat": 1, "of": ["ff"]}], "$.layers[1].of[1].of[0]", "text"),
        ("name", "", "$.name", "text, length >= 1"),
        ("name", "n" * 201, "$.name", "text, length <= 200"),
        ("provenance", [], "$.provenance", "an object"),
        ("kinds.ff.modality", "", "$.kinds.ff.modality", "text, length >= 1"),
        ("kinds.ff.quadratic_share", 1.01, "$.kinds.ff.quadratic_share", "a number <= 1"),
        ("training.sequence_length", 0, "$.training.sequence_length", "a whole number >= 1"),
        ("rules.tied", [0, 1], "$.rules.tied[0]", "a list"),
        ("rules.same_rank", [[]], "$.rules.same_rank[0]", "a list, length >= 1"),
        ("rules.no_cut_after", [-1], "$.rules.no_cut_after[0]", "a whole number >= 0"),
    ],
)
def test_values_that_cannot_stand_are_refused_with_their_place(
    path: str, value: Any, place: str, expected: str
) -> None:
    error = refused({path: value})
    assert (error.file, error.path) == ("p.json", place)
    assert error.expected is not None
    assert error.expected.startswith(expected)
    assert error.found is not None


@pytest.mark.parametrize(
    ("path", "message", "remedy", "place"),
    [
        ("kind", 'unknown key "kind"', 'did you mean "kinds"?', "$.kind"),
        ("kinds.ff.activation", 'unknown key "activation"', None, "$.kinds.ff.activation"),
        ("kinds.ff.state_byte", 'unknown key "state_byte"', 'did you mean "state_bytes"?', "$.kinds.ff.state_byte"),
        ("kinds.ff.times.c.foward_ms", 'unknown key "foward_ms"', 'did you mean "forward_ms"?', None),
        ("layers.1.repeats", 'unknown key "repeats"', 'did you mean "repeat"?', "$.layers[1].repeats"),
        ("layers.1.of.1.repeats", 'unknown key "repeats"', 'did you mean "repeat"?', "$.layers[1].of[1].repeats"),
        ("rules.no_cut", 'unknown key "no_cut"', 'did you mean "no_cut_after"?', "$.rules.no_cut"),
        ("xyzzy", 'unknown key "xyzzy"', "delete it, or keep notes under $.provenance", "$.xyzzy"),
    ],
)
def test_unknown_keys_are_refused(path: str, message: str, remedy: str | None, place: str | None) -> None:
    error = refused({path: 1})
    assert error.message == message
    assert remedy is None or error.remedy == remedy
    assert place is None or error.path == place


@pytest.mark.parametrize(
    ("path", "place", "key"),
    [
        ("kinds", "$", "kinds"),
        ("name", "$", "name"),
        ("kinds.mixer.times", "$.kinds.mixer", "times"),
        ("kinds.mixer.times.b.backward_weight_ms", "$.kinds.mixer.times.b", "backward_weight_ms"),
        ("layers.1.of", "$.layers[1]", "of"),
    ],
)
def test_missing_keys_are_named(path: str, place: str, key: str) -> None:
    error = refused({path: REMOVED})
    assert (error.path, error.message) == (place, f'the key "{key}" is missing')


def test_the_right_one_of_several_kinds_is_blamed() -> None:
    """A later place with the very same fault does not draw the blame away from the first."""
    error = refused({"kinds.ff.times.b.forward_ms": -1, "kinds.head.times.a.forward_ms": -2})
    assert (error.path, error.found) == ("$.kinds.ff.times.b.forward_ms", "-1")


def test_empty_names_of_kinds_and_hardware_are_refused() -> None:
    document = documents.full_profile()
    error = refused({"kinds": {**document["kinds"], "": document["kinds"]["ff"]}})
    assert (error.message, error.path) == ("not a key that can stand here", '$.kinds[""]')
    times = document["kinds"]["ff"]["times"]
    error = refused({"kinds.ff.times": {**times, "": times["a"]}})
    assert error.path == '$.kinds.ff.times[""]'


def test_layers_of_unknown_kinds_are_refused() -> None:
    error = refused({"layers.1.of.1.of": ["ff", "fff"]})
    assert (error.message, error.path) == ('no kind "fff"', "$.layers[1].of[1].of[1]")
    assert error.remedy == 'did you mean "ff"?'


def test_too_many_layers_are_counted_not_written_out() -> None:
    error = refused({"layers": [{"repeat": 10_000, "of": [{"repeat": 10_000, "of": ["ff"] * 50}]}]})
    assert (error.message, error.found) == ("too many layers", str(50 * 10**8))
    layers = [{"repeat": 100, "of": [{"repeat": 100, "of": ["ff"]}]}]
    profile = profile_from_document(edited(documents.full_profile(), {"layers": layers, "rules": {}}), "p")
    assert profile.num_layers == 10_000


@pytest.mark.parametrize(
    ("rules", "place", "message"),
    [
        ({"tied": [[0, 11]]}, "$.rules.tied[0][1]", "no such layer"),
        ({"same_rank": [[1], [2, 99]]}, "$.rules.same_rank[1][1]", "no such layer"),
        ({"no_cut_after": [3, 11]}, "$.rules.no_cut_after[1]", "no such layer"),
        ({"same_rank": [[4, 4]]}, "$.rules.same_rank[0][1]", "layer 4 stands twice in one group"),
        ({"tied": [[0, 1], [2, 1]]}, "$.rules.tied[1]", "layer 1 is in two groups of tied layers"),
    ],
)
def test_rules_that_speak_of_no_layer_are_refused(rules: dict[str, Any], place: str, message: str) -> None:
    error = refused({"rules": rules})
    assert (error.path, error.message) == (place, message)


def test_layers_are_grouped_where_that_is_shorter() -> None:
    kinds = ("e", *("a", "b") * 3, "a", "a", "a", "h")
    assert compress(kinds) == ["e", {"repeat": 3, "of": ["a", "b"]}, {"repeat": 3, "of": ["a"]}, "h"]
    assert compress(("a", "a")) == ["a", "a"]
    assert compress(()) == []


@pytest.mark.parametrize("file", sorted(documents.MODELS.glob("*.json")), ids=lambda file: file.stem)
def test_grouping_loses_nothing(file: Path) -> None:
    profile = load_profile(str(file)).value
    document = {**json.loads(file.read_text()), "layers": compress(profile.layer_kinds)}
    assert profile_from_document(document, "again").layer_kinds == profile.layer_kinds
    assert tuple(expand(profile.layers)) == profile.layer_kinds
