"""Megatron-LM's GPTModel: a layout string and its flags, for Megatron-LM and for the front ends that pass it on."""

from __future__ import annotations

from typing import Final

from octopipe_cli.engines.megatron_layout import layout_problems, read_layout, write_layout
from octopipe_cli.engines.megatron_orders import group_size_of
from octopipe_cli.export import Options
from octopipe_cli.export.refusal import check_runs
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan, parse_orders
from octopipe_cli.profile import Role, expand
from octopipe_cli.words import visible

LETTER_OF: Final[dict[Role, str]] = {"embedding": "E", "decoder": "t", "mtp": "m", "head": "L"}

_BRIDGE: Final = "cfg.model."
_VERL: Final = "actor_rollout_ref.actor.megatron."


def export(plan: Loaded[Plan], options: Options) -> str:
    """Return the layout string of a plan with the flags it needs, in the forms of Megatron-LM and its front ends."""
    check_runs(plan, "megatron")
    stages = stage_letters(plan.value)
    layout = write_layout(stages)
    ranks, layers, mtp = len(plan.value.ranks), "".join(stages).count("t"), "".join(stages).count("m")
    assert read_layout(layout) == stages
    assert not list(layout_problems(stages, ranks, layers, mtp))
    model = [("num-layers", str(layers)), *([("mtp-num-layers", str(mtp))] if mtp else [])]
    settings = _settings(plan.value, layout)
    flags = [("pipeline-model-parallel-layout", f"'{layout}'"), *order_flags(plan.value)]
    return "\n".join(
        [
            *heading(plan.value, "GPTModel"),
            "",
            "# Megatron-LM; the layout leaves no place for its other switches that cut the model (--decoder-first-...)",
            *(f"--{flag} {value}" for flag, value in [*model, *size_flags(plan.value), *flags]),
            *recompute_flags(plan.value),
            "",
            "# Megatron-Bridge, NeMo",
            *(f"{_BRIDGE}{_BRIDGE_NAMES[name]} = {value}" for name, value in settings),
            "",
            "# ms-swift",
            *(f"--{_SWIFT_NAMES[name]} {value}" for name, value in settings if name in _SWIFT_NAMES),
            "",
            "# verl; its checkpoint mergers know no layouts",
            *(f'"{_VERL_NAMES[name]}={value}"' for name, value in settings),
            "",
        ]
    )


def stage_letters(plan: Plan) -> tuple[str, ...]:
    """Return the letters of each stage's layers, by their roles."""
    roles = plan.kinds
    return tuple("".join(LETTER_OF[roles.get(k, "decoder")] for k in expand(stage.kinds)) for stage in plan.stages)


def heading(plan: Plan, model: str) -> list[str]:
    """Return comments on what is exported, and on what the batch sizes must be."""
    count, size = plan.request.num_microbatches, group_size(plan)
    order = "1F1B" if size is None else f"interleaved 1F1B in groups of {size}"
    stages = f"{len(plan.stages)} stages on {len(plan.ranks)} ranks"
    return [
        f"# {visible(plan.inputs.profile.name)} for Megatron's {model}: {stages}, {order}.",
        f"# A step has {count} micro-batches: global batch size = {count} x micro-batch size x data-parallel size.",
    ]


def group_size(plan: Plan) -> int | None:
    """Return the group size of interleaved orders; None where a rank has one stage."""
    if len(plan.stages) == len(plan.ranks):
        return None
    return group_size_of(parse_orders(plan.orders)[0])


def size_flags(plan: Plan) -> list[tuple[str, str]]:
    """Return the flag of the pipeline's size: a layout says the number of stages itself."""
    return [("pipeline-model-parallel-size", str(len(plan.ranks)))]


def order_flags(plan: Plan) -> list[tuple[str, str]]:
    """Return the flag of the group size where the plan is interleaved."""
    size = group_size(plan)
    return [] if size is None else [("microbatch-group-size-per-virtual-pipeline-stage", str(size))]


def recompute_flags(plan: Plan) -> list[str]:
    """Return the flags of full recomputation where the plan recomputes: every layer's input is kept."""
    if not any(stage.recompute for stage in plan.stages):
        return []
    return ["--recompute-granularity full", "--recompute-method uniform", "--recompute-num-layers 1"]


def _settings(plan: Plan, layout: str) -> list[tuple[str, str]]:
    """Return the settings of a model's configuration, as (our name, value)."""
    size, per_rank = group_size(plan), len(plan.stages) // len(plan.ranks)
    settings = [("ranks", str(len(plan.ranks)))]
    settings += [] if size is None else [("per_rank", str(per_rank)), ("size", str(size))]
    return [*settings, ("layout", f"'{layout}'")]


_BRIDGE_NAMES: Final = {
    "ranks": "pipeline_model_parallel_size",
    "per_rank": "virtual_pipeline_model_parallel_size",
    "size": "microbatch_group_size_per_vp_stage",
    "layout": "pipeline_model_parallel_layout",
}
#: ms-swift counts the stages a rank itself.
_SWIFT_NAMES: Final = {name: setting for name, setting in _BRIDGE_NAMES.items() if name != "per_rank"}
_VERL_NAMES: Final = {
    "ranks": f"{_VERL}pipeline_model_parallel_size",
    "per_rank": f"{_VERL}virtual_pipeline_model_parallel_size",
    "size": f"+{_VERL}override_transformer_config.microbatch_group_size_per_vp_stage",
    "layout": f"+{_VERL}override_transformer_config.pipeline_model_parallel_layout",
}
