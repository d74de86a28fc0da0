"""The plan file's record of what a search found."""

from __future__ import annotations

from collections.abc import Sequence

from octopipe_cli import __version__
from octopipe_cli.bounds import plan_bound_ns
from octopipe_cli.classic import ClassicRow
from octopipe_cli.cluster import Cluster
from octopipe_cli.engines.memory import engine_memory
from octopipe_cli.formats import Loaded
from octopipe_cli.pipeline import Assignment
from octopipe_cli.plan import (
    Baseline,
    Bound,
    Engine,
    InputFile,
    Inputs,
    Plan,
    PlanRank,
    PlanStage,
    Predicted,
    PredictedRank,
    Request,
    RobustFigures,
    Search,
    TransferTimes,
    write_orders,
)
from octopipe_cli.profile import Group, Profile, compress
from octopipe_cli.search.relaxation import CertifiedBound
from octopipe_cli.simulate import Timeline
from octopipe_cli.throughput import training_of


def plan_record(
    profile: Loaded[Profile],
    cluster: Loaded[Cluster],
    request: Request,
    assignment: Assignment,
    timeline: Timeline,
    bound: CertifiedBound,
    rows: Sequence[ClassicRow],
    stopped_by: str,
    engines: dict[str, int],
    rank_order: tuple[int, ...] | None = None,
    robust: RobustFigures | None = None,
) -> Plan:
    """Return the plan of an assignment and its timeline, with all that a plan file repeats of its inputs."""
    pipeline = timeline.pipeline
    model = profile.value
    return Plan(
        schema="octopipe.plan",
        version=1,
        created_by=f"octopipe {__version__}",
        inputs=Inputs(
            profile=InputFile(name=model.name, digest=profile.digest),
            cluster=InputFile(name=cluster.value.name, digest=cluster.digest),
        ),
        request=request,
        predicted=_predicted(timeline, request.engine),
        bound=_bound(request, timeline, bound),
        p2p=pipeline.p2p,
        kinds={name: kind.role for name, kind in model.kinds.items() if name in model.layer_kinds},
        ranks=[
            PlanRank(
                hardware=member.hardware,
                node=member.node,
                memory_limit_bytes=member.memory_limit_bytes,
                step_ns=pipeline.step_ns[member.number],
            )
            for member in cluster.value.members
        ],
        baseline=_baseline(timeline, rows),
        rank_order=rank_order,
        training=training_of(model),
        stages=[_stage(model, assignment, timeline, stage) for stage in range(assignment.num_stages)],
        orders=write_orders(timeline.orders),
        robust=robust,
        microbatch_order=None if pipeline.microbatch_order is None else list(pipeline.microbatch_order),
        search=Search(stopped_by=stopped_by, reproducible=stopped_by in ("effort", "bound"), engines=engines),
    )


def _predicted(timeline: Timeline, engine: Engine) -> Predicted:
    pipeline = timeline.pipeline
    sizes = [stage.bytes for stage in pipeline.stages]
    kept = engine_memory(sizes, pipeline.rank_of, pipeline.num_ranks, pipeline.num_microbatches, engine)
    return Predicted(
        step_time_ns=timeline.step_time_ns,
        span_ns=timeline.span_ns,
        bubble_ratio=timeline.bubble_ratio,
        ranks=[
            PredictedRank(
                rank=rank,
                busy_ns=timeline.busy_ns[rank],
                peak_memory_bytes=timeline.peak_memory_bytes[rank],
                first_start_ns=timeline.first_start_ns(rank),
                last_end_ns=timeline.last_end_ns(rank),
                engine_memory_bytes=kept[rank],
            )
            for rank in range(pipeline.num_ranks)
        ],
    )


def _bound(request: Request, timeline: Timeline, bound: CertifiedBound) -> Bound:
    value, least = timeline.step_time_ns, bound.step_time_ns
    if request.objective == "span":
        assert bound.span_ns is not None
        value, least = timeline.span_ns, bound.span_ns
    return Bound(
        step_time_ns=bound.step_time_ns,
        span_ns=bound.span_ns,
        gap=value / least - 1 if least else 0.0,
        scope=_scope(request),
        plan_ns=plan_bound_ns(timeline.pipeline),
        argument=bound.argument,
    )


def _scope(request: Request) -> str:
    """Return in words what the bound speaks of: any plan, or those that keep the request's restrictions."""
    parts = []
    if request.backward == "fused":
        parts.append("fused backward")
    if request.placement != "free":
        parts.append(f"{'V' if request.placement == 'v' else request.placement} placement")
    if request.reorder_ranks:
        parts.append("the ranks in this order")
    if request.recompute == "full":
        parts.append("full recomputation")
    elif request.recompute == "none":
        parts.append("no recomputation")
    if request.max_stages_per_rank is not None:
        parts.append(f"at most {request.max_stages_per_rank} stages a rank")
    if request.keep is not None and "partition" in request.keep:
        placed = "placement" in request.keep or "order" in request.keep
        parts.append("the kept partition and placement" if placed else "the kept cuts")
    whose = "any plan" if request.engine == "any" else f"any plan for {request.engine}"
    return whose + (f" with {', '.join(parts)}" if parts else "")


def _baseline(timeline: Timeline, rows: Sequence[ClassicRow]) -> Baseline | None:
    fitting = [row for row in rows if row.fits]
    if not fitting or not timeline.step_time_ns:
        return None
    best = min(fitting, key=lambda row: row.step_time_ns)
    return Baseline(
        schedule=best.schedule,
        partition=best.partition,
        step_time_ns=best.step_time_ns,
        speedup=best.step_time_ns / timeline.step_time_ns,
    )


def _stage(model: Profile, assignment: Assignment, timeline: Timeline, stage: int) -> PlanStage:
    cost = timeline.pipeline.stages[stage]
    layers = assignment.layers(stage)
    groups = compress(model.layer_kinds[layers.start : layers.stop])
    return PlanStage(
        layers=(layers.start, layers.stop),
        kinds=[item if isinstance(item, str) else Group(**item) for item in groups],
        rank=assignment.ranks[stage],
        recompute=cost.recompute,
        bytes=cost.bytes,
        action_ns=cost.action_ns,
        transfer_ns=TransferTimes(forward=cost.forward_transfer_ns, backward=cost.backward_transfer_ns),
    )
