from __future__ import annotations

import json
from collections.abc import Callable

import jsonschema
import msgspec
import pytest

from octopipe_cli.cli.schema import schema_document
from octopipe_cli.render.diff.choose import DiffFormatName, diff_format
from octopipe_cli.render.diff.document import DiffDocument, JsonFormat, document
from tests.editing import edited
from tests.render.diff.reports import every, hostile, many


def test_json(golden: Callable[[str, str], None]) -> None:
    golden("json.json", JsonFormat().format(every()))


def test_it_keeps_its_schema() -> None:
    validator = jsonschema.Draft202012Validator(schema_document("diff"))
    for reports in (every(), [hostile()], [many(3)], []):
        text = JsonFormat().format(reports)
        validator.validate(json.loads(text))
        assert msgspec.json.decode(text, type=DiffDocument) == document(reports)


@pytest.mark.parametrize(
    "changes",
    [
        {"plans.2.changes.0.id": "no-such-id"},
        {"plans.2.changes.0.effect": "bad"},
        {"plans.2.changes.0.fails": None},
        {"plans.2.changes.0.extra": 1},
        {"plans.2.old": 1},
        {"plans.2.new_figures": {}},
        {"schema": "octopipe.plan"},
        {"version": 2},
        {"more": 1},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_the_schema_admits_nothing_else(changes: dict[str, object]) -> None:
    written = json.loads(JsonFormat().format(every()))
    assert not jsonschema.Draft202012Validator(schema_document("diff")).is_valid(edited(written, changes))


def test_what_fails_is_marked() -> None:
    found = document(every())
    assert found.fails
    assert [plan.fails for plan in found.plans] == [False, False, True, False]
    assert [change.id for change in found.plans[2].changes if change.fails] == ["step-time-slower"]
    assert [plan.old_figures is None for plan in found.plans] == [False, False, False, True]


def test_every_name_has_a_format() -> None:
    kinds = {type(diff_format(name)) for name in DiffFormatName}
    assert len(kinds) == len(DiffFormatName) == 5
    for name in DiffFormatName:
        assert diff_format(name).format(every())
