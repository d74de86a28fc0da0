from __future__ import annotations

import csv
import io
from random import Random

import msgspec
import pytest

from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.export import Options, export, notes, target_named
from octopipe_cli.export.torch_orders import for_torch
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.replay import replay
from tests.engines.plans import order_of, plan_of, with_stage
from tests.instances import plan_from, random_instance
from tests.render.plans import MS

MODEL = [["embedding", "transformer"], ["transformer"], ["transformer", "transformer"], ["transformer", "head"]]
V_ORDERS = order_of("0F0 0F1 3F1 3B1 0B1 3F0 3B0 0B0", "1F0 1F1 2F1 2F0 2I1 1B1 2W1 2B0 1I0 1W0")
V = plan_of(MODEL, [0, 1, 1, 0], V_ORDERS, 2)
SPLIT = plan_of(
    [["embedding", "transformer"], ["head"]],
    [0, 1],
    order_of("0F0 0F1 0I0 0I1 0W0 0W1", "1F0 1I0 1F1 1I1 1W0 1W1"),
    2,
)


def exported(plan: Plan, target: str, **options: bool) -> str:
    return export(Loaded(plan, "a.plan.json", ""), target_named(target), Options(**options))  # type: ignore[arg-type]


def told(plan: Plan, target: str) -> list[str]:
    return notes(Loaded(plan, "a.plan.json", ""), target_named(target), Options())


def test_micro_batches_are_renumbered_by_the_last_stage() -> None:
    assert exported(V, "torch-csv").splitlines() == [
        "0F1,0F0,3F0,3B0,0B0,3F1,3B1,0B1",
        "1F1,1F0,2F0,2F1,2I0,1B0,2W0,2B1,1I1,1W1",
    ]
    assert told(V, "torch-csv") == [
        "micro-batches are renumbered: the runtime wants the last stage's forwards in ascending order"
    ]


def test_the_first_stage_runs_b_where_the_step_is_shortest() -> None:
    """F, I and W take 10 ms each: B of micro-batch 0 fills the gap before that of 1, from 30 to 50 ms."""
    assert exported(SPLIT, "torch-csv").splitlines() == ["0F0,0F1,0B0,0B1", "1F0,1I0,1F1,1I1,1W0,1W1"]
    assert told(SPLIT, "torch-csv") == [
        "stage 0 runs B in place of I and W, which PyTorch's runtime cannot split there: "
        "10.00 ms a step (12.5 %) faster"
    ]


def test_b_goes_to_the_place_of_w_where_that_is_faster() -> None:
    """The second F of stage 2 need not wait for the gradient of stage 1 (from 50 to 70 ms) that B waits for."""
    plan = plan_of(
        [["embedding"], ["transformer"], ["head"]],
        [0, 1, 0],
        order_of("0F0 0F1 2F0 2B0 0I0 2F1 2B1 0I1 0W0 0W1", "1F0 1F1 1B0 1B1"),
        2,
    )
    assert exported(plan, "torch-csv").splitlines()[0] == "0F0,0F1,2F0,2B0,2F1,2B1,0B0,0B1"
    loaded = Loaded(plan, "a.plan.json", "")
    assert (for_torch(loaded)[1].step_time_ns, replay(plan, "").step_time_ns) == (120 * MS, 160 * MS)


def test_a_stage_that_recomputes_runs_b_at_the_place_of_i() -> None:
    plan = with_stage(SPLIT, 1, recompute=True)
    assert exported(plan, "torch-csv").splitlines() == ["0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1"]


@pytest.mark.parametrize("seed", range(40))
def test_both_forms_hold_every_action_once(seed: int) -> None:
    plan = plan_from(random_instance(Random(seed)))
    if any(stage.layers[0] == stage.layers[1] for stage in plan.stages):
        return
    loaded = Loaded(plan, "a.plan.json", "")
    orders = [list(map(str, actions)) for actions in for_torch(loaded)[1].orders]
    assert list(csv.reader(io.StringIO(exported(plan, "torch-csv")))) == orders
    rows = list(csv.reader(io.StringIO(exported(plan, "torch-csv", comms=True))))
    assert [[cell for cell in row if "_" not in cell] for row in rows] == orders
    for rank, row in enumerate(rows):
        mine = [number for number, stage in enumerate(plan.stages) if stage.rank == rank]
        assert sorted(cell for cell in row if "REDUCE" in cell) == sorted(f"{stage}REDUCE_GRAD" for stage in mine)
        for stage in mine:  # nothing of the stage's backward comes behind its reduction
            rest = row[row.index(f"{stage}REDUCE_GRAD") :]
            gone = [f"{stage}{kind}{m}" for kind in ("I", "W", "B", "SEND_B") for m in range(6)]
            assert not set(rest) & set(gone)


def test_messages_stand_around_their_actions() -> None:
    rows = exported(SPLIT, "torch-csv", comms=True).splitlines()
    assert rows == [
        "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD",
        "1RECV_F0,1RECV_F1,1F0,1I0,1SEND_B0,1F1,1I1,1SEND_B1,1W0,1W1,1REDUCE_GRAD",
    ]


def titan(plan: Plan) -> dict[str, object]:
    """Return what the Python file of an export defines."""
    found: dict[str, object] = {"__name__": "plan"}
    exec(compile(exported(plan, "torchtitan"), "plan.py", "exec"), found)
    return found


def test_torchtitan_gets_modules_schedule_and_the_name_that_places() -> None:
    found = titan(V)
    assert found["MODULES"] == [
        ["tok_embeddings", "layers.0"],
        ["layers.1"],
        ["layers.2", "layers.3"],
        ["layers.4", "norm", "lm_head"],
    ]
    assert found["SCHEDULE"] == exported(V, "torch-csv")
    settings = found["PARALLELISM"]
    assert isinstance(settings, dict)
    assert (settings["pipeline_parallel_degree"], settings["pipeline_parallel_schedule"]) == (2, "ZBVZeroBubble")
    assert "Interleaved1F1B" in exported(SPLIT, "torchtitan")


def test_automodel_uses_hugging_face_names() -> None:
    text = exported(SPLIT, "automodel")
    assert "      - [model.embed_tokens, model.layers.0, model.rotary_emb]\n" in text
    assert "      - [model.rotary_emb, model.norm, lm_head]\n" in text
    assert "    pp_schedule: Interleaved1F1B\n" in text


def two_stages(*stages: list[str]) -> Plan:
    return plan_of(stages, [0, 1], order_of("0F0 0B0", "1F0 1B0"), 1)


def test_halves_of_a_layer_count_as_one() -> None:
    plan = two_stages(["embedding", "attention", "mlp", "attention", "moe"], ["attention", "mlp", "head"])
    assert titan(plan)["MODULES"] == [["tok_embeddings", "layers.0", "layers.1"], ["layers.2", "norm", "lm_head"]]


def test_where_not_all_layers_have_both_halves_each_counts() -> None:
    plan = two_stages(["embedding", "mamba", "mlp", "mamba"], ["attention", "mlp", "head"])
    assert titan(plan)["MODULES"] == [
        ["tok_embeddings", "layers.0", "layers.1", "layers.2"],
        ["layers.3", "layers.4", "norm", "lm_head"],
    ]


def test_a_cut_inside_a_layer_is_refused_with_its_place() -> None:
    plan = two_stages(["embedding", "attention", "mlp", "attention"], ["mlp", "head"])
    with pytest.raises(InvalidPlanError, match=r"cuts through layer 1 of the model") as caught:
        exported(plan, "torchtitan")
    assert caught.value.path == "$.stages[1].layers"


@pytest.mark.parametrize("target", ["torchtitan", "automodel"])
def test_mtp_is_refused(target: str) -> None:
    plan = two_stages(["embedding", "transformer"], ["mtp", "head"])
    with pytest.raises(InvalidPlanError, match="stage 1 holds an MTP depth"):
        exported(plan, target)


def test_a_model_without_a_head_is_refused() -> None:
    with pytest.raises(InvalidPlanError, match="the last layer, and no other, must have the role head"):
        exported(two_stages(["embedding"], ["transformer"]), "torchtitan")


def test_what_neither_can_run_is_refused() -> None:
    free = msgspec.structs.replace(V, stages=[msgspec.structs.replace(s, rank=1 - s.rank) for s in V.stages])
    free = msgspec.structs.replace(free, orders=[V.orders[1], V.orders[0]])
    exported(free, "torch-csv")
    with pytest.raises(InvalidPlanError, match="rule placement"):
        exported(free, "torchtitan")


def test_names_cannot_break_out_of_the_file() -> None:
    inputs = msgspec.structs.replace(
        V.inputs, profile=msgspec.structs.replace(V.inputs.profile, name='x"""\nimport os')
    )
    plan = msgspec.structs.replace(V, inputs=inputs)
    assert "\nimport os" not in exported(plan, "torchtitan")
    assert "\nimport os" not in exported(plan, "automodel")
