from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from octopipe_cli.conversion import convert
from octopipe_cli.errors import InputError
from octopipe_cli.formats import digest
from octopipe_cli.plan import Action, Plan, load_plan, parse_orders, plan_document, plan_text, write_orders
from tests import documents
from tests.editing import REMOVED, edited


def refused(changes: dict[str, Any], folder: Path) -> InputError:
    file = folder / "bad.json"
    file.write_text(json.dumps(edited(documents.full_plan(), changes)))
    with pytest.raises(InputError) as caught:
        load_plan(str(file))
    assert caught.value.file == str(file)
    return caught.value


@pytest.mark.parametrize("document", [documents.toy(documents.PLAN), documents.full_plan()], ids=["toy", "full"])
def test_a_plan_written_and_read_again_is_the_same(tmp_path: Path, document: dict[str, Any]) -> None:
    plan = convert(document, Plan, "plan")
    file = tmp_path / "plan.json"
    file.write_text(plan_text(plan))
    again = load_plan(str(file))
    assert plan_text(again.value) == plan_text(plan)
    assert again.digest == digest(plan_document(plan))


def test_the_text_of_the_example_is_its_file() -> None:
    assert plan_text(load_plan(str(documents.PLAN)).value) == documents.PLAN.read_text()


def test_a_stage_a_rank_and_an_order_have_lines_of_their_own() -> None:
    lines = documents.PLAN.read_text().splitlines()
    assert sum(line.startswith('    {"layers": ') for line in lines) == 2
    assert sum(line.startswith('    {"hardware": ') for line in lines) == 2
    assert sum(line.startswith('    {"rank": ') for line in lines) == 2
    assert lines.count('      "0F0 0F1 0B0 0B1"') == 1


def test_provenance_leaves_the_digest_and_all_other_lines_as_they_are() -> None:
    plan = load_plan(str(documents.PLAN)).value
    other = msgspec.structs.replace(plan, provenance={"wall_s": 3.5, "host": "h"})
    assert digest(plan_document(other)) == digest(plan_document(plan))
    before, after = ([line.rstrip(",") for line in plan_text(p).splitlines()] for p in (plan, other))
    assert [line for line in after if "provenance" not in line] == before
    assert len(after) == len(before) + 1


def test_the_shared_digest_of_a_plan_is_as_the_format_says() -> None:
    document = documents.full_plan()
    assert digest(document) == digest({key: value for key, value in document.items() if key != "provenance"})
    assert digest(document) != digest({**document, "p2p": "blocking"})


def test_orders_are_wrapped_and_read_back() -> None:
    orders = [[Action(s, "F", m) for m in range(40) for s in (0, 12)], [], [Action(3, "I", 7), Action(3, "W", 7)]]
    written = write_orders(orders)
    assert [len(lines) for lines in written] == [5, 0, 1]
    assert all(len(line) <= 100 for lines in written for line in lines)
    assert written[0][0].startswith("0F0 12F0 0F1 12F1 ")
    assert written[2] == ["3I7 3W7"]
    assert parse_orders(written) == tuple(map(tuple, orders))


@pytest.mark.parametrize("token", ["0X0", "F0", "0F", "0f0", "-1F0", "0F0,", "٣F0", "0F00000000", "0F0F0"])
def test_what_is_no_action_is_refused(token: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_orders([["0F0"], ["1F0", f"1B0 {token}"]], "p.json")
    assert (caught.value.file, caught.value.path) == ("p.json", "$.orders[1][1]")
    assert caught.value.message == "not an action"


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        ("inputs.profile.digest", "sha256:12", "$.inputs.profile.digest"),
        ("inputs.cluster", REMOVED, "$.inputs"),
        ("request.num_microbatches", 0, "$.request.num_microbatches"),
        ("request.engine", "tpu", "$.request.engine"),
        ("request.lengths", {"text": [1]}, "$.request.lengths.text"),
        ("request.effort", None, "$.request.effort"),
        ("predicted.step_time_ns", 1.5, "$.predicted.step_time_ns"),
        ("predicted.ranks.1.busy_ns", -1, "$.predicted.ranks[1].busy_ns"),
        ("bound.gap", "1", "$.bound.gap"),
        ("p2p", "x", "$.p2p"),
        ("kinds.head", "tail", "$.kinds.head"),
        ("ranks.0.memory_limit_bytes", -1, "$.ranks[0].memory_limit_bytes"),
        ("stages", [], "$.stages"),
        ("stages.0.layers", [0], "$.stages[0].layers"),
        ("stages.0.layers", [0, 1, 2], "$.stages[0].layers"),
        ("stages.0.layers.1", -1, "$.stages[0].layers[1]"),
        ("stages.1.action_ns.F", 2**63, "$.stages[1].action_ns.F"),
        ("stages.1.action_ns.X", 3, "$.stages[1].action_ns.X"),
        ("stages.1.bytes.held", "0", "$.stages[1].bytes.held"),
        ("stages.1.kinds.0", 3, "$.stages[1].kinds[0]"),
        ("stages.1.recompute", "no", "$.stages[1].recompute"),
        ("orders", {}, "$.orders"),
        ("orders.0", "0F0", "$.orders[0]"),
        ("orders", [["0F0"]], "$.orders"),
        ("search.stopped_by", REMOVED, "$.search"),
        ("microbatch_order", [0, 0], "$.microbatch_order"),
        ("robust", {}, "$.robust"),
        ("stage", [], "$.stage"),
    ],
)
def test_what_cannot_stand_in_a_plan_is_refused_with_its_place(
    tmp_path: Path, path: str, value: Any, place: str
) -> None:
    assert refused({path: value}, tmp_path).path == place


def test_free_keys_may_stand_in_search_and_provenance(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    document = edited(documents.full_plan(), {"search.more": [1], "provenance": {"anything": {"at": "all"}}})
    file.write_text(json.dumps(document))
    assert load_plan(str(file)).value.provenance == {"anything": {"at": "all"}}
