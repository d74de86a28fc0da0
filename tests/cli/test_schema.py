"""The JSON Schemas admit what the readers admit, and nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from octopipe_cli.cli.schema import schema_document
from octopipe_cli.cluster import Cluster
from octopipe_cli.conversion import convert
from octopipe_cli.errors import InputError
from octopipe_cli.plan import Plan
from octopipe_cli.profile import Profile
from octopipe_cli.profiling.hardware import Hardware
from tests import documents
from tests.cli.conftest import Octopipe
from tests.editing import REMOVED, edited
from tests.profiling.hardware_examples import round_document

RECORDS: dict[str, tuple[Any, dict[str, Any]]] = {
    "profile": (Profile, documents.full_profile()),
    "cluster": (Cluster, documents.full_cluster()),
    "plan": (Plan, documents.full_plan()),
    "hardware": (Hardware, round_document()),
}
OTHERS = (REMOVED, None, True, -1, 0, 1.5, "", "x", [], {}, {"unknown": 1})


def places(value: Any, path: str = "") -> Iterator[str]:
    """Yield every place of a document."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        place = f"{path}.{key}" if path else str(key)
        yield place
        yield from places(child, place)


def is_read(document: dict[str, Any], record: Any) -> bool:
    try:
        convert(document, record, "f")
    except InputError:
        return False
    return True


@pytest.mark.parametrize("kind", [*RECORDS, "diff"])
def test_a_schema_is_one(octopipe: Octopipe, kind: str) -> None:
    result = octopipe("schema", kind)
    assert (result.code, result.err) == (0, "")
    schema = json.loads(result.out)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == f"octopipe {kind}"
    assert schema["description"]
    jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("kind", RECORDS)
def test_schema_and_reader_agree_wherever_something_else_stands(kind: str) -> None:
    record, document = RECORDS[kind]
    validator = jsonschema.Draft202012Validator(schema_document(kind))
    validator.validate(document)
    assert is_read(document, record)
    verdicts = set()
    alike = {re.sub(r"(kinds|times)\.\w+|\d+", r"\1*", place): place for place in places(document)}
    for place in alike.values():
        for other in OTHERS:
            changed = edited(document, {place: other})
            verdict = is_read(changed, record)
            assert validator.is_valid(changed) is verdict, (place, other)
            verdicts.add(verdict)
    assert verdicts == {True, False}


def test_shipped_and_small_files_are_admitted() -> None:
    files = {"profile": [*documents.MODELS.glob("*.json"), documents.PROFILE]}
    files |= {"cluster": [*documents.CLUSTERS.glob("*.json"), documents.CLUSTER], "plan": [documents.PLAN]}
    for kind, listed in files.items():
        validator = jsonschema.Draft202012Validator(schema_document(kind))
        for file in listed:
            validator.validate(json.loads(file.read_text()))
