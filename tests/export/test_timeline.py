from __future__ import annotations

import csv
import io
import json

from octopipe_cli.export import Options, timeline_csv, timeline_json
from tests.export.tiny import HOSTILE, hostile, loaded, two_ranks
from tests.render.plans import v_plan

TABLE = """\
rank,stage,kind,microbatch,start_ns,end_ns,first_layer,num_layers
0,0,F,0,0,10000000,0,2
0,0,F,1,10000000,20000000,0,2
0,0,B,0,42000002,62000002,0,2
0,0,B,1,72000002,92000002,0,2
1,1,F,0,11000001,21000001,2,2
1,1,B,0,21000001,41000001,2,2
1,1,F,1,41000001,51000001,2,2
1,1,B,1,51000001,71000001,2,2
"""


def test_a_row_an_action() -> None:
    assert timeline_csv.export(two_ranks(), Options()) == TABLE


def test_the_document_has_the_same_rows() -> None:
    text = timeline_json.export(two_ranks(), Options())
    document = json.loads(text)
    rows = list(csv.DictReader(io.StringIO(TABLE)))
    assert len(document["actions"]) == len(rows)
    for action, row in zip(document["actions"], rows, strict=True):
        first, end = action.pop("layers")
        assert (first, end - first) == (int(row.pop("first_layer")), int(row.pop("num_layers")))
        assert {key: str(value) for key, value in action.items()} == row
    assert document["step_time_ns"] == 94_000_002
    assert document["ranks"][0] == {
        "rank": 0,
        "hardware": "a100",
        "node": 0,
        "busy_ns": 60_000_000,
        "peak_memory_bytes": 2**29 + 2**27 + 4096,
        "optimizer_start_ns": 92_000_002,
        "optimizer_end_ns": 94_000_002,
    }


def test_an_action_a_line() -> None:
    plan = loaded(v_plan())
    lines = timeline_json.export(plan, Options()).splitlines()
    assert sum('"kind"' in line for line in lines) == sum('"rank": 3, "stage"' in line for line in lines) * 4 == 96


def test_names_stay_what_they_are_in_json_and_out_of_csv() -> None:
    document = json.loads(timeline_json.export(hostile(), Options()))
    assert (document["profile"], document["ranks"][0]["hardware"]) == (HOSTILE, HOSTILE)
    assert timeline_csv.export(hostile(), Options()) == timeline_csv.export(loaded(v_plan()), Options())
