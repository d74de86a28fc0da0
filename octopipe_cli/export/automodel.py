"""``automodel``: the YAML of NeMo Automodel's pipeline settings, with the module names of Hugging Face models.

Automodel builds its stages as torchtitan does, from the schedule's name
(nemo_automodel/components/distributed/pipelining/functional.py); its `PipelineConfig` has the settings.
"""

from __future__ import annotations

from typing import Final

from octopipe_cli.export import Options
from octopipe_cli.export.model_parts import Names, model_parts
from octopipe_cli.export.torch_csv import runnable
from octopipe_cli.export.torchtitan import notes, recomputing, schedule_name
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan
from octopipe_cli.words import visible

__all__ = ["export", "notes"]

NAMES: Final = Names(
    "NeMo Automodel", "model.embed_tokens", "model.layers.{}", ("model.norm", "lm_head"), ("model.rotary_emb",)
)

TEMPLATE: Final = """\
# {model} for NeMo Automodel: {stages} stages on {ranks} ranks, {microbatches} micro-batches a step.
# schedule.csv is written by: octopipe export PLAN --to torch-csv -o schedule.csv
# The local batch size is {microbatches} x pp_microbatch_size.{recompute}
distributed:
  strategy: fsdp2
  pp_size: {ranks}
  pipeline:
    pp_schedule: {name}
    pp_schedule_csv: schedule.csv
    pp_microbatch_size: 1
    module_fqns_per_model_part:
{modules}
"""


def export(plan: Loaded[Plan], options: Options) -> str:
    """Return the YAML of the plan's settings."""
    changed, _ = runnable(plan, "torchtitan")
    parts = model_parts(plan, NAMES)
    return TEMPLATE.format(
        model=visible(plan.value.inputs.profile.name, ascii_only=True),
        stages=len(parts),
        ranks=len(changed.ranks),
        microbatches=changed.request.num_microbatches,
        recompute=recomputing(changed, "# "),
        modules="\n".join(f"      - [{', '.join(names)}]" for names in parts),
        name=schedule_name(changed),
    )
