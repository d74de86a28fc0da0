"""DeepSpeed: a `PipelineModule` that takes the plan's partition as it stands.

DeepSpeed balances layers by its own measure and has no option for a list of cuts; its `PipelineModule` keeps them in
`parts` and takes its own slice by `_set_bounds`, so a subclass can set both (deepspeed/runtime/pipe/module.py).
"""

from __future__ import annotations

from octopipe_cli.export import Options
from octopipe_cli.export.refusal import check_runs
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan

TEMPLATE = '''\
# A plan of octopipe's for DeepSpeed: {ranks} stages, one a rank; DeepSpeed runs its own 1F1B.
# Give the model as {layers} layers in the plan's order (embedding first, head last), and in DeepSpeed's configuration
#   "gradient_accumulation_steps": {microbatches}
from deepspeed.pipe import PipelineModule


class PlannedPipelineModule(PipelineModule):
    """A pipeline whose stage s holds the layers PARTS[s] to PARTS[s + 1] - 1."""

    PARTS = {parts}

    def _partition_layers(self, method="planned"):
        if self._num_layers != self.PARTS[-1] or self._topo.get_dim("pipe") != len(self.PARTS) - 1:
            raise ValueError(f"the plan is for {{self.PARTS[-1]}} layers on {{len(self.PARTS) - 1}} stages")
        self.parts = list(self.PARTS)
        stage = self._topo.get_coord(self.global_rank).pipe
        self._set_bounds(start=self.parts[stage], stop=self.parts[stage + 1])


# model = PlannedPipelineModule(layers=layers, num_stages={ranks}, loss_fn=loss_fn{checkpoints})
'''


def export(plan: Loaded[Plan], options: Options) -> str:
    """Return a Python snippet that gives DeepSpeed the plan's partition."""
    check_runs(plan, "deepspeed")
    stages = plan.value.stages
    return TEMPLATE.format(
        ranks=len(stages),
        layers=stages[-1].layers[1],
        microbatches=plan.value.request.num_microbatches,
        checkpoints=", activation_checkpoint_interval=1" if stages[0].recompute else "",
        parts=[0, *(stage.layers[1] for stage in stages)],
    )
