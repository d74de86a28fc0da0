"""Lines of JSON paths, in the layout of plans and in any other."""

from __future__ import annotations

import json
from typing import Any

import pytest

from octopipe_cli.formats import child_path, path_of
from octopipe_cli.plan import plan_text
from octopipe_cli.render.diff.places import line_of, steps_of
from tests import documents
from tests.render.diff.reports import HOSTILE, before

TEXT = plan_text(before())


@pytest.mark.parametrize(
    ("path", "start"),
    [
        ("$", "{"),
        ("$.schema", '  "schema"'),
        ("$.inputs.cluster.digest", '    "cluster"'),
        ("$.predicted", '  "predicted"'),
        ("$.predicted.step_time_ns", '  "predicted"'),
        ("$.predicted.ranks[2].peak_memory_bytes", '    {"rank": 2,'),
        ("$.stages[5].recompute", '    {"layers": [10, 12]'),
        ("$.orders[3]", "    ["),
        ("$.orders[3][0]", '      "3F0 3F1'),
        ("$.search.stopped_by", '  "search"'),
        ("$.baseline.nothing.there", '  "baseline"'),
        ("$.stages[99].rank", '  "stages"'),
        ("$.predicted[0]", '  "predicted"'),
        ("$.nothing", "{"),
    ],
)
def test_lines_of_a_plan(path: str, start: str) -> None:
    assert TEXT.splitlines()[line_of(TEXT, path) - 1].startswith(start)


def test_ranks_orders_are_told_apart() -> None:
    lines = [line_of(TEXT, f"$.orders[{rank}]") for rank in range(4)]
    assert lines == sorted(set(lines))
    assert TEXT.splitlines()[lines[2]].strip().startswith('"2F0')


def places(value: Any, steps: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [steps, *(place for key, child in children for place in places(child, (*steps, key)))]


def test_every_place_of_any_layout() -> None:
    document = {**documents.full_plan(), HOSTILE: {"": [1, {'"]': 2}]}}
    text = json.dumps(document, indent=1)
    lines = text.splitlines()
    for place in places(document):
        path = path_of(place)
        assert steps_of(path) == list(place)
        line = lines[line_of(text, path) - 1].strip()
        if place and isinstance(place[-1], str):
            assert line.startswith(json.dumps(place[-1]) + ":")
    assert line_of(json.dumps(document), "$.orders[1]") == 1


@pytest.mark.parametrize("text", ["", " ", "x", "{", '{"a"', '{"a":', '{"a": [1,', "[1, 2]", '{"a": x, "b": 1}'])
def test_what_is_no_json_has_a_line_too(text: str) -> None:
    for path in ("$.a[2].b", "$", "", "a", '$["', "$.b", "$[7]"):
        assert line_of(text, path) == 1


def test_odd_keys_are_read_back() -> None:
    path = child_path(child_path("$", 'a"].b'), "c d")
    assert steps_of(path) == ['a"].b', "c d"]
