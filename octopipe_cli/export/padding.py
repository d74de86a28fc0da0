"""Plans with lengths for engines that take micro-batches of one shape: padded, and what that costs."""

from __future__ import annotations

import msgspec

from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InvalidPlanError
from octopipe_cli.formats import Loaded
from octopipe_cli.lengths import Lengths, request_lengths
from octopipe_cli.pipeline import assignment_of, build_pipeline
from octopipe_cli.plan import Plan, TransferTimes
from octopipe_cli.profile import Profile
from octopipe_cli.replay import replay
from octopipe_cli.simulate import simulate
from octopipe_cli.words import percent_text, time_text

#: Targets that show a plan; all others are for something that runs it.
VIEWERS = ("chrome-trace", "svg", "html", "json", "csv")


def padded(plan: Loaded[Plan], profile: Profile, cluster: Cluster) -> tuple[Loaded[Plan], str]:
    """Return a plan with all micro-batches as long as the longest in each modality, and in words what that costs.

    Raises
    ------
    InvalidPlanError
        Where it does not fit into memory so.
    """
    before = replay(plan.value, plan.file, (profile, cluster))
    lengths = request_lengths(profile, plan.value.request)
    assert lengths is not None
    names = lengths.microbatches[0]
    longest = {name: max(entry[name] for entry in lengths.microbatches) for name in names}
    number = plan.value.request.num_microbatches
    alike = Lengths((longest,) * number)
    pipeline = build_pipeline(profile, cluster, assignment_of(plan.value), number, plan.value.p2p, alike)
    after = simulate(pipeline, before.orders)
    more = percent_text(after.step_time_ns - before.step_time_ns, max(before.step_time_ns, 1))
    cost = f"a step takes {time_text(after.step_time_ns)} in place of {time_text(before.step_time_ns)} ({more} % more)"
    if not after.fits:
        raise InvalidPlanError(
            "the engine takes micro-batches of one length, and padded to the longest they do not fit into memory",
            file=plan.file,
            path="$.request.lengths",
            found=f"padded, {cost}",
            remedy="plan for equal lengths: without --lengths, or with --robust",
        )
    stages = [
        msgspec.structs.replace(
            stage,
            bytes=costs[0].bytes,
            action_ns=costs[0].action_ns,
            transfer_ns=TransferTimes(forward=costs[0].forward_transfer_ns, backward=costs[0].backward_transfer_ns),
        )
        for stage, costs in zip(plan.value.stages, map(pipeline.costs, range(pipeline.num_stages)), strict=True)
    ]
    request = msgspec.structs.replace(plan.value.request, lengths=None)
    even = msgspec.structs.replace(plan.value, request=request, stages=stages, microbatch_order=None)
    return Loaded(even, plan.file, plan.digest), f"micro-batches are padded to the longest: {cost}"
