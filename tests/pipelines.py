"""Random pipelines, built without a profile: costs, sizes and limits as awkward as they may be."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from octopipe_cli.list_scheduler import HELD, NEXT, ROOM, SLOT, stage_costs
from octopipe_cli.pipeline import Pipeline, StageCost
from octopipe_cli.plan import ActionKind, StageBytes


def random_pipeline(rng: Random, fused: tuple[bool, ...] | None = None, *, most_stages: int = 4) -> Pipeline:
    """Return stages of random costs on ranks of no limit: several a rank, neighbours on one rank now and then."""
    num_ranks, num_microbatches = rng.randint(1, 4), rng.randint(1, 8)
    num_stages = len(fused) if fused is not None else rng.randint(num_ranks, most_stages * num_ranks)
    ranks = [*range(min(num_ranks, num_stages)), *rng.choices(range(num_ranks), k=num_stages - num_ranks)]
    if rng.random() < 0.3:
        ranks = [stage % num_ranks for stage in range(num_stages)]
    else:
        rng.shuffle(ranks)
    unit = rng.choice((1, 1, 1000))
    shape = rng.choice(("any", "big boundaries", "big workspaces", "kept above held", "small"))
    boundary = [0, *(_size(rng, 300 if shape == "big boundaries" else 20) for _ in range(num_stages - 1)), 0]
    lag = rng.choice((0, 0, 3, 40))
    stages = []
    for s in range(num_stages):
        forward, back, weight, whole = (rng.choice((0, 1, rng.randint(1, 9 * unit))) for _ in range(4))
        recompute = rng.random() < 0.3
        times: dict[ActionKind, int] = {"F": forward, "B": whole if rng.random() < 0.5 else back + weight}
        if rng.random() < 0.8:
            times |= {"I": back, "W": weight}
        held = _size(rng, 40)
        size = StageBytes(
            state=rng.randint(0, 9),
            held=held,
            weight=_size(rng, 200 if shape == "kept above held" else 40),
            transient=_size(rng, 90) if recompute else 0,
            workspace=_size(rng, 300 if shape == "big workspaces" else 10),
            input=boundary[s],
            output=boundary[s + 1],
        )
        ahead = rng.randint(0, lag * unit) if s + 1 < num_stages and ranks[s + 1] != ranks[s] else 0
        behind = rng.randint(0, lag * unit) if s and ranks[s - 1] != ranks[s] else 0
        stages.append(StageCost(times, ahead, behind, size, recompute))
    step = tuple(rng.choice((0, rng.randint(0, 5 * unit))) for _ in range(num_ranks))
    p2p = rng.choice(("overlapped", "overlapped", "blocking"))
    return Pipeline(num_microbatches, tuple(ranks), tuple(stages), step, (None,) * num_ranks, p2p)


def _size(rng: Random, most: int) -> int:
    return rng.choice((0, rng.randint(0, most), rng.randint(0, most)))


def with_limits(rng: Random, pipeline: Pipeline, fused: tuple[bool, ...] | None = None) -> Pipeline:
    """Return the pipeline with limits that leave every rank the room for one micro-batch and its reserve, or more."""
    roomy = replace(pipeline, limit_bytes=(1 << 50,) * pipeline.num_ranks)
    costs, _, memory = stage_costs(roomy, fused)
    assert memory is not None
    how = rng.choice(("least", "mixed", "roomy"))
    limits: list[int | None] = []
    for rank, stages in enumerate(pipeline.stages_of):
        held = int(sum(costs.sizes[HELD, s] for s in stages))
        least = (1 << 50) - int(memory[ROOM, rank]) + int(memory[SLOT, rank]) + int(memory[NEXT, rank]) + held
        more = {"least": 0, "mixed": rng.choice((0, 1, rng.randint(0, 60))), "roomy": rng.randint(0, 300)}[how]
        limits.append(None if how == "mixed" and rng.random() < 0.2 else least + more)
    if all(limit is None for limit in limits):
        limits[0] = 1 << 40
    return replace(pipeline, limit_bytes=tuple(limits))
