from __future__ import annotations

from typing import Any

import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded, digest
from octopipe_cli.profile import Profile, profile_from_document
from octopipe_cli.profiling.merge import merge
from tests import documents
from tests.editing import REMOVED, edited


def model(hardware: str, changes: dict[str, Any] | None = None, factor: float = 1.0) -> Loaded[Profile]:
    """Return the full profile with one column, its forward times scaled."""
    document = documents.full_profile()
    for kind in document["kinds"].values():
        times = kind["times"]["a"]
        kind["times"] = {hardware: {**times, "forward_ms": factor * times["forward_ms"]}}
    document = edited(document, changes or {})
    return Loaded(profile_from_document(document, f"{hardware}.json"), f"{hardware}.json", digest(document))


def refused(*profiles: Loaded[Profile], **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        merge(profiles, **options)
    return caught.value


def test_the_merged_profile_has_the_columns_of_all_in_their_order() -> None:
    first, second, third = model("a100"), model("h100", factor=0.5), model("b200", factor=0.25)
    document = merge([first, second, third])
    merged = profile_from_document(document, "merged")
    assert merged.hardware == ("a100", "h100", "b200")
    times = merged.kinds["ff"].times
    assert [times[name].forward_ms for name in merged.hardware] == [1.5, 0.75, 0.375]
    assert times["h100"].step_ms == 0.1
    assert (merged.name, merged.layer_kinds, merged.rules) == ("hybrid", first.value.layer_kinds, first.value.rules)
    assert merged.kinds["embedding"].state_bytes == 6
    sources = document["provenance"]["sources"]
    assert [source["digest"] for source in sources] == [first.digest, second.digest, third.digest]
    assert sources[1]["provenance"]["method"] == "written"


def test_the_name_can_be_given() -> None:
    assert merge([model("x"), model("y")], name="both")["name"] == "both"


@pytest.mark.parametrize(
    ("changes", "path", "found", "expected"),
    [
        ({"kinds.embedding.state_bytes": 8}, "$.kinds.embedding.state_bytes", "8", "6"),
        ({"kinds.mixer.splittable": True}, "$.kinds.mixer.splittable", "true", "false"),
        ({"kinds.head.role": "decoder"}, "$.kinds.head.role", '"decoder"', '"head"'),
        ({"training.tensor_parallel": 4}, "$.training.tensor_parallel", "4", "8"),
        ({"training.dtype": REMOVED}, "$.training.dtype", "null", '"bf16"'),
        ({"rules.tied": [[0, 9]]}, "$.rules.tied", "[[0, 9]]", "[[0, 10]]"),
        ({"layers.0": "ff"}, "$.layers", '"ff"', '"embedding"'),
        ({"layers.2": {"repeat": 2, "of": ["mtp"]}}, "$.layers", '"mtp"', '"head"'),
    ],
)
def test_what_differs_is_named_with_both_values(changes: dict[str, Any], path: str, found: str, expected: str) -> None:
    error = refused(model("x"), model("y", changes))
    assert (error.file, error.path, error.found, error.expected) == ("y.json", path, found, expected)


def test_a_layer_more_is_refused() -> None:
    error = refused(model("x"), model("y", {"layers": [*documents.full_profile()["layers"], "head"]}))
    assert (error.message, error.found, error.expected) == ("not as many layers as in x.json", "12", "11")


@pytest.mark.parametrize("swapped", [False, True])
def test_kinds_must_be_the_same(swapped: bool) -> None:
    more = documents.full_profile()["kinds"]["ff"]
    pair = [model("a"), model("y", {"kinds.other": more})]
    error = refused(*(reversed(pair) if swapped else pair))
    assert (error.file, error.message) == ("a.json", 'no kind "other", which y.json has')


def test_one_hardware_cannot_come_twice() -> None:
    error = refused(model("x"), model("y"), model("x"))
    assert error.path == "$.kinds.embedding.times.x"
    assert error.message == 'x.json has times for "x" already'


def test_the_larger_size_counts_where_kernels_differ_and_that_is_asked_for() -> None:
    less = {"kinds.embedding.activation_bytes": 1, "kinds.mixer.workspace_bytes": 19}
    error = refused(model("x"), model("y", less))
    assert error.path == "$.kinds.embedding.activation_bytes"
    assert "--take-larger" in str(error.remedy)
    merged = profile_from_document(merge([model("x"), model("y", less)], take_larger=True), "merged")
    assert merged.kinds["embedding"].activation_bytes == 5
    assert merged.kinds["mixer"].workspace_bytes == 19
    assert merged.kinds["ff"].activation_bytes == 0
    assert refused(model("x"), model("y", {"kinds.head.parameters": 1}), take_larger=True).path == (
        "$.kinds.head.parameters"
    )
