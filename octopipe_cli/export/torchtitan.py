"""``torchtitan``: a Python file with a plan's module lists, schedule and settings.

torchtitan takes the placement from the schedule's name (torchtitan/distributed/pipeline_parallel.py,
`_get_pp_rank_to_stage_indices_mapping`): cyclic, but for ZBVZeroBubble and DualPipeV, which are a V. With a CSV it
runs that, whatever the name.
"""

from __future__ import annotations

from typing import Final

from octopipe_cli.export import Options
from octopipe_cli.export.model_parts import Names, model_parts
from octopipe_cli.export.torch_csv import compute_only, runnable
from octopipe_cli.export.torch_orders import changes, for_torch
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.replay import replay
from octopipe_cli.words import visible

NAMES: Final = Names("torchtitan", "tok_embeddings", "layers.{}", ("norm", "lm_head"))

TEMPLATE: Final = '''\
# {model} for torchtitan: {stages} stages on {ranks} ranks, {microbatches} micro-batches a step.
# `python THIS_FILE` writes schedule.csv; every rank reads it. The local batch size is {microbatches} x the micro-batch
# size (or num_pp_microbatches = {microbatches}, where torchtitan has it).{recompute}
# Older releases of torchtitan call the module lm_head "output".

#: The modules of each stage.
MODULES = [
{modules}
]

#: The actions of each rank, a line a rank.
SCHEDULE = """\\
{schedule}"""

PARALLELISM = {{
    "pipeline_parallel_degree": {ranks},
    "pipeline_parallel_schedule": "{name}",
    "pipeline_parallel_schedule_csv": "schedule.csv",
    "module_fqns_per_model_part": MODULES,
}}


def parallelism(**more):
    """Return torchtitan's settings of the plan, beside those given."""
    from torchtitan.config import ParallelismConfig

    return ParallelismConfig(**PARALLELISM, **more)


# Versions that read TOML:
# [parallelism]
# pipeline_parallel_degree = {ranks}
# pipeline_parallel_schedule = "{name}"
# pipeline_parallel_schedule_csv = "schedule.csv"
# module_fqns_per_model_part = [
{toml}
# ]

if __name__ == "__main__":
    with open("schedule.csv", "w") as file:
        file.write(SCHEDULE)
'''


def export(plan: Loaded[Plan], options: Options) -> str:
    """Return a Python file with the plan's settings for torchtitan, its schedule in it."""
    changed, timeline = runnable(plan, "torchtitan")
    parts = model_parts(plan, NAMES)
    lists = ["[" + ", ".join(f'"{name}"' for name in names) + "]" for names in parts]
    return TEMPLATE.format(
        model=visible(plan.value.inputs.profile.name, ascii_only=True),
        stages=len(parts),
        ranks=len(changed.ranks),
        microbatches=changed.request.num_microbatches,
        recompute=recomputing(changed, "# "),
        modules="\n".join(f"    {line}," for line in lists),
        toml="\n".join(f"#     {line}," for line in lists),
        schedule=compute_only(timeline.orders),
        name=schedule_name(changed),
    )


def notes(plan: Loaded[Plan], options: Options) -> list[str]:
    """Return what a reader should know of the settings beside their text."""
    _, timeline = for_torch(plan)
    return changes(plan.value, replay(plan.value, plan.file), timeline)


def schedule_name(plan: Plan) -> str:
    """Return the schedule whose name places the stages as the plan does."""
    ranks = len(plan.ranks)
    cyclic = all(stage.rank == number % ranks for number, stage in enumerate(plan.stages))
    return "Interleaved1F1B" if cyclic else "ZBVZeroBubble"


def recomputing(plan: Plan, comment: str) -> str:
    """Return a further line of comment on recomputation; nothing where no stage recomputes."""
    stages = [str(number) for number, stage in enumerate(plan.stages) if stage.recompute]
    if not stages:
        return ""
    if len(stages) == len(plan.stages):
        return f"\n{comment}Every stage recomputes: switch on full activation checkpointing."
    listed = ", ".join(stages)
    return f"\n{comment}Stages {listed} recompute, the others do not: wrap the layers of these alone."
