from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from octopipe_cli.cluster import load_cluster
from octopipe_cli.errors import InputError
from octopipe_cli.markup import parse_yaml

JSON_LEAVES = st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text("abc é\"'", max_size=8)

DOCUMENT = {
    "schema": "octopipe.cluster",
    "version": 1,
    "name": "two",
    "ranks": [{"count": 2, "hardware": "a100", "memory_gib": 80, "reserved_gib": 4}],
    "links": {"within_node": {"bandwidth_gb_per_s": 300, "latency_us": 5}},
}
YAML = """\
schema: octopipe.cluster
version: 1
name: two  # nodes
ranks:
  - {count: 2, hardware: a100, memory_gib: 80, reserved_gib: 4}
links:
  within_node: {bandwidth_gb_per_s: 300, latency_us: 5}
"""
TOML = """\
schema = "octopipe.cluster"
version = 1
name = "two"  # nodes

[[ranks]]
count = 2
hardware = "a100"
memory_gib = 80
reserved_gib = 4

[links.within_node]
bandwidth_gb_per_s = 300
latency_us = 5
"""


def written(folder: Path, text: str, suffix: str) -> str:
    file = folder / f"cluster.{suffix}"
    file.write_text(text)
    return str(file)


def test_the_same_cluster_in_three_languages_has_one_digest(tmp_path: Path) -> None:
    texts = {"json": json.dumps(DOCUMENT), "yaml": YAML, "yml": YAML, "toml": TOML}
    loaded = [load_cluster(written(tmp_path, text, suffix)) for suffix, text in texts.items()]
    assert len({entry.digest for entry in loaded}) == 1
    assert all(entry.value == loaded[0].value for entry in loaded)


@pytest.mark.parametrize(
    ("suffix", "old", "new", "message", "path"),
    [
        ("yaml", "count: 2", "counts: 2", 'unknown key "counts"', "$.ranks[0].counts"),
        ("toml", "count = 2", "counts = 2", 'unknown key "counts"', "$.ranks[0].counts"),
        ("yaml", "count: 2", "count: two", "not a value that can stand here", "$.ranks[0].count"),
        ("toml", "count = 2", 'count = "two"', "not a value that can stand here", "$.ranks[0].count"),
        ("yaml", "count: 2,", "count: 2, count: 2,", 'the key "count" stands twice in one object', "$.ranks[0].count"),
        ("yaml", "name: two", "name: no", "not a value that can stand here", "$.name"),
        ("yaml", "80,", ".inf,", "not a finite number", "$.ranks[0].memory_gib"),
        ("toml", "= 80", "= nan", "not a finite number", "$.ranks[0].memory_gib"),
        ("toml", '"two"', "2026-01-01", "a date or a time, which can't stand here", "$.name"),
        ("yaml", "name: two", "name: 2026-01-01", 'not a type that can stand here: "timestamp"', "$.name"),
        ("yaml", "name: two", "name: !!python/name:os.system two", None, "$.name"),
        ("yaml", "name: two", "name: &x two", "anchors and aliases (& and *) are not read", "line 3, column 7"),
        ("yaml", "name: two", "name: [two", None, "line 4, column 1"),
        ("yaml", "links:", "? [a]\n: 1\nlinks:", "a key that is no text", "$"),
        ("toml", "version = 1", "version = 1\nversion = 1", None, None),
        ("yaml", YAML, "", "not an object", "$"),
        ("yaml", YAML, "# " + "x" * 2**20, "the YAML file is too large", None),
        ("yaml", YAML, "[" * 2000, "nested too deeply", None),
    ],
)
def test_errors_are_those_of_json(
    tmp_path: Path, suffix: str, old: str, new: str, message: str | None, path: str | None
) -> None:
    text = {"yaml": YAML, "toml": TOML}[suffix]
    assert old in text
    file = written(tmp_path, text.replace(old, new, 1), suffix)
    with pytest.raises(InputError) as caught:
        load_cluster(file)
    assert caught.value.file == file
    assert message in (None, caught.value.message)
    assert caught.value.path == path


@given(st.text("{}[]:,-&*!|>'\"#?%@ \n\tab01.exoTnylu~<=_", max_size=60) | st.text(max_size=40))
def test_any_yaml_is_a_json_value_or_an_error_for_users(text: str) -> None:
    with contextlib.suppress(InputError):
        json.dumps(parse_yaml(text, "any.yaml"), allow_nan=False)


@given(st.recursive(JSON_LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text("abcé 0", max_size=5), inner)))
def test_what_json_holds_is_the_same_in_yaml(value: object) -> None:
    assert parse_yaml(json.dumps(value, ensure_ascii=False), "any.yaml") == value


def test_yaml_is_loaded_for_yaml_alone(tmp_path: Path) -> None:
    import subprocess
    import sys

    for suffix, text in (("json", json.dumps(DOCUMENT)), ("yaml", YAML)):
        file = written(tmp_path, text, suffix)
        script = f"import sys, octopipe_cli.cluster as c; c.load_cluster({file!r}); print('yaml' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == str(suffix == "yaml")
