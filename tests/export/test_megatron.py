from __future__ import annotations

import re

import msgspec
import pytest

from octopipe_cli.engines.megatron_layout import read_layout
from octopipe_cli.engines.megatron_orders import interleaved_1f1b, one_f_one_b
from octopipe_cli.errors import InputError, InvalidPlanError
from octopipe_cli.export import Options, export, target_named
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import InputFile, Plan
from tests.engines.plans import gpt, order_of, plan_of, with_stage
from tests.render.plans import GIB, v_plan

LOOPED = gpt("Ett|t|t|t|t|tmL", 2, interleaved_1f1b(2, 5, 3, 3), 5)


def exported(plan: Plan, target: str = "megatron", **symbols: str) -> str:
    return export(Loaded(plan, "a.plan.json", ""), target_named(target), Options(symbols=symbols))


def refusal(plan: Plan, target: str = "megatron", **symbols: str) -> InvalidPlanError:
    with pytest.raises(InvalidPlanError) as caught:
        exported(plan, target, **symbols)
    return caught.value


def test_all_forms_of_an_interleaved_plan() -> None:
    assert exported(LOOPED).splitlines() == [
        "# toy for Megatron's GPTModel: 6 stages on 2 ranks, interleaved 1F1B in groups of 3.",
        "# A step has 5 micro-batches: global batch size = 5 x micro-batch size x data-parallel size.",
        "",
        "# Megatron-LM; the layout leaves no place for its other switches that cut the model (--decoder-first-...)",
        "--num-layers 7",
        "--mtp-num-layers 1",
        "--pipeline-model-parallel-size 2",
        "--pipeline-model-parallel-layout 'Et*2|(t|)*4tmL'",
        "--microbatch-group-size-per-virtual-pipeline-stage 3",
        "",
        "# Megatron-Bridge, NeMo",
        "cfg.model.pipeline_model_parallel_size = 2",
        "cfg.model.virtual_pipeline_model_parallel_size = 3",
        "cfg.model.microbatch_group_size_per_vp_stage = 3",
        "cfg.model.pipeline_model_parallel_layout = 'Et*2|(t|)*4tmL'",
        "",
        "# ms-swift",
        "--pipeline_model_parallel_size 2",
        "--microbatch_group_size_per_vp_stage 3",
        "--pipeline_model_parallel_layout 'Et*2|(t|)*4tmL'",
        "",
        "# verl; its checkpoint mergers know no layouts",
        '"actor_rollout_ref.actor.megatron.pipeline_model_parallel_size=2"',
        '"actor_rollout_ref.actor.megatron.virtual_pipeline_model_parallel_size=3"',
        '"+actor_rollout_ref.actor.megatron.override_transformer_config.microbatch_group_size_per_vp_stage=3"',
        "\"+actor_rollout_ref.actor.megatron.override_transformer_config.pipeline_model_parallel_layout='Et*2|(t|)*4tmL'\"",
    ]


@pytest.mark.parametrize("text", ["E|t||tL", "Ettt|tttmL", "E||t|mL", "Et|t|t|t|t|t|m|L", "EtttL"])
def test_the_layout_is_the_plan_s_stages(text: str) -> None:
    stages = text.split("|")
    ranks = 1 if len(stages) == 1 else 4 if len(stages) == 8 else 2
    orders = one_f_one_b(ranks, 4) if len(stages) == ranks else interleaved_1f1b(ranks, 4, len(stages) // ranks)
    match = re.search(r"--pipeline-model-parallel-layout '(.*)'", exported(gpt(text, ranks, orders, 4)))
    assert match is not None
    assert list(read_layout(match[1])) == stages


def test_recomputation() -> None:
    plan = gpt("Et|tL", 2, one_f_one_b(2, 2), 2)
    assert "recompute" not in exported(plan)
    plan = with_stage(with_stage(plan, 0, recompute=True), 1, recompute=True)
    assert "\n--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n" in exported(plan)


def test_a_name_cannot_add_a_line() -> None:
    inputs = msgspec.structs.replace(
        LOOPED.inputs, profile=InputFile(name="a\n--evil\u2028", digest="sha256:" + "0" * 64)
    )
    first = exported(msgspec.structs.replace(LOOPED, inputs=inputs)).splitlines()[0]
    assert first.startswith("# a\\n--evil\\u2028 for ")


def test_a_refusal_names_the_rule_and_what_another_order_costs() -> None:
    # Rank 1 runs 1F1 from 40 on either way, and 1I1 to 60 where B ends at 70: rank 0 ends at 80, and at 90 under 1F1B.
    plan = gpt("Et|tL", 2, order_of("0F0 0F1 0I0 0W0 0I1 0W1", "1F0 1I0 1W0 1F1 1I1 1W1"), 2)
    error = refusal(plan)
    assert error.message.startswith("megatron cannot run this plan, rule fused: the backward is split")
    assert error.path == "$.orders"
    assert error.remedy is not None
    assert error.remedy.startswith("the same stages with 1F1B take 90.00 ms a step, 12.5 % more; `octopipe plan ")
    assert "-m 2 --engine megatron" in error.remedy


def test_the_nearest_order_may_not_fit() -> None:
    # 1F1B holds two micro-batches on rank 0; this order one: 0.5 GiB of state and 0.4 of activations on 1 GiB.
    orders = order_of("0F0 0B0 0F1 0B1", "1F0 1B0 1F1 1B1")
    plan = gpt("Et|tL", 2, orders, 2)
    size = msgspec.structs.replace(plan.stages[0].bytes, state=GIB // 2, held=2 * GIB // 5)
    tight = [msgspec.structs.replace(rank, memory_limit_bytes=GIB) for rank in plan.ranks]
    error = refusal(msgspec.structs.replace(with_stage(plan, 0, bytes=size), ranks=tight))
    assert error.remedy is not None
    assert "but do not fit: rank 0 needs 1.3 GiB of 1.0" in error.remedy


def test_what_orders_cannot_mend_is_left_to_the_search() -> None:
    orders = order_of("0F0 2F0 2B0 0B0", "1F0 1B0")
    error = refusal(plan_of([["embedding"], ["transformer"], ["head"]], [0, 1, 0], orders, 1))
    assert error.message == (
        "megatron cannot run this plan, rule placement: 3 stages are not the same number on each of 2 ranks"
    )
    assert (error.path, error.found) == ("$.stages", None)
    command = "octopipe plan PROFILE CLUSTER -m 1 --engine"
    assert error.remedy == f"`{command} megatron` finds the best plan that megatron runs"
    error = refusal(plan_of([["embedding"], ["mamba"], ["head"]], [0, 1, 0], orders, 1))
    assert error.found == "other rules it breaks: kinds"
    assert error.remedy == f"`{command} megatron-hybrid` finds the best plan that megatron-hybrid runs"


def test_a_model_without_ends_has_no_plan_there() -> None:
    error = refusal(v_plan())
    assert error.path == "$.stages[4].rank"
    assert error.found == "other rules it breaks: fused, recompute, layer-order, kinds"
    assert "give its kinds of layers their roles" in str(error.remedy)


HYBRID = plan_of(
    [["embedding", "mamba", "mlp"], ["mamba"], ["attention"], ["moe", "mlp_2", "head"]],
    [0, 1, 0, 1],
    interleaved_1f1b(2, 2, 2),
    2,
)


def test_a_hybrid_pattern() -> None:
    assert exported(HYBRID, "megatron-hybrid").splitlines() == [
        "# toy for Megatron's HybridModel (pretrain_hybrid.py): 4 stages on 2 ranks, interleaved 1F1B in groups of 2.",
        "# A step has 2 micro-batches: global batch size = 2 x micro-batch size x data-parallel size.",
        "# Symbols of kinds: mamba M, mlp -, attention *, moe E, mlp_2 -; where one means another, --symbol says so.",
        "# Older releases call the pattern --hybrid-override-pattern, and take no | in it.",
        "--pipeline-model-parallel-size 2",
        "--hybrid-layer-pattern 'M-|M|*|E-'",
        "--microbatch-group-size-per-virtual-pipeline-stage 2",
    ]
    assert "'G-|G|*|E-'" in exported(HYBRID, "megatron-hybrid", mamba="G")
    assert refusal(HYBRID).message.startswith("megatron cannot run this plan, rule kinds: ")


def test_mtp_of_hybrids() -> None:
    plan = gpt("Et|ttmmL", 2, one_f_one_b(2, 2), 2)
    error = refusal(plan, "megatron-hybrid")
    assert "an MTP depth of kind" in error.message
    assert error.remedy == "name the symbols with --symbol"
    text = exported(plan, "megatron-hybrid", mtp="*E")
    assert "--hybrid-layer-pattern '*-|*-*-/*E/*E'\n--mtp-num-layers 2\n" in text


def test_symbols_that_are_wrong() -> None:
    with pytest.raises(InputError, match="no kind"):
        exported(HYBRID, "megatron-hybrid", mambas="M")
    with pytest.raises(InputError, match="no symbols of layers"):
        exported(HYBRID, "megatron-hybrid", mamba="X")
    assert "rule attention" in refusal(HYBRID, "megatron-hybrid", mamba="+").message


def test_deepspeed_takes_its_own_1f1b_alone() -> None:
    text = exported(gpt("Et|ttL", 2, one_f_one_b(2, 3), 3), "deepspeed")
    assert "    PARTS = [0, 2, 5]\n" in text
    assert '"gradient_accumulation_steps": 3' in text
    assert refusal(LOOPED, "deepspeed").message.startswith("deepspeed cannot run this plan, rule placement")


class _Module:
    """What a `PipelineModule` of DeepSpeed's has to do with a partition."""

    def __init__(self, num_layers: int, stage: int) -> None:
        self._num_layers, self.stage, self.global_rank = num_layers, stage, 0
        self._topo = self
        self.bounds: dict[str, int] = {}
        self._partition_layers()  # type: ignore[attr-defined]

    def get_dim(self, name: str) -> int:
        return 2

    def get_coord(self, rank: int) -> object:
        return type("Coordinate", (), {"pipe": self.stage})

    def _set_bounds(self, start: int, stop: int) -> None:
        self.bounds = {"start": start, "stop": stop}


def test_deepspeed_s_snippet_takes_its_slice() -> None:
    text = exported(gpt("Et|ttL", 2, one_f_one_b(2, 3), 3), "deepspeed")
    scope: dict[str, object] = {"PipelineModule": _Module}
    exec(text.replace("from deepspeed.pipe import PipelineModule", ""), scope)
    module = scope["PlannedPipelineModule"]
    assert [module(5, stage).bounds for stage in (0, 1)] == [  # type: ignore[operator]
        {"start": 0, "stop": 2},
        {"start": 2, "stop": 5},
    ]
    with pytest.raises(ValueError, match="the plan is for 5 layers"):
        module(6, 0)  # type: ignore[operator]
