"""``octopipe sweep --noise``: a plan and the classic schedules, replayed with times drawn anew."""

from __future__ import annotations

from typing import Any

from octopipe_cli.classic import classic_rows
from octopipe_cli.cli.inputs import check_digests, check_microbatches, load_inputs
from octopipe_cli.cli.output import emit, emit_json
from octopipe_cli.cli.replayed import refuse_lengths
from octopipe_cli.cli.searching import Interrupted, cores, search
from octopipe_cli.cluster import Cluster
from octopipe_cli.formats import Loaded
from octopipe_cli.noise import Ints, Noise, quantile
from octopipe_cli.pipeline import assignment_of
from octopipe_cli.plan import Plan, Request, load_plan, plan_document, plan_from_document
from octopipe_cli.profile import Profile
from octopipe_cli.replay import replay


def show_noise(
    profile_file: str,
    cluster_file: str,
    request: Request,
    percent: float,
    draws: int,
    plan_file: str | None,
    jobs: int | None,
    format: str,
) -> None:
    """Print how step times vary where the profile's times are off by so many per cent."""
    profile, cluster = load_inputs(profile_file, cluster_file, request.num_microbatches)
    if plan_file is None:
        made, interrupted = search(profile, cluster, request, jobs or cores(), None)
        if interrupted:
            raise Interrupted("interrupted before the plan was finished")
        plan = plan_from_document(plan_document(made), "the plan")
    else:
        plan = load_plan(plan_file)
        refuse_lengths(plan, "the draws are of the profile's own times")
        check_digests(plan, profile, cluster)
        check_microbatches(plan, request.num_microbatches)
    document = noise_document(profile.value, cluster.value, plan, request, percent, draws)
    if format == "json":
        emit_json(document)
        return
    if format == "csv":
        emit(_csv(document))
        return
    from octopipe_cli.render.console import glyphs_of, make_console, rendered
    from octopipe_cli.render.noise import noise_table

    console = make_console()
    emit(rendered(console, noise_table(document, glyphs_of(console), console.width)))


def noise_document(
    profile: Profile, cluster: Cluster, plan: Loaded[Plan], request: Request, percent: float, draws: int
) -> dict[str, Any]:
    """Return the figures of the plan and of each classic schedule's best partition that fits, the fastest first.

    `plan_wins` is the share of draws in which the plan is at least as fast; on its own row, as all others at once.
    """
    noise = Noise(profile, cluster, percent, draws, request.seed)
    planned = replay(plan.value, plan.file)
    own = noise.step_times_ns(assignment_of(plan.value), planned)
    rows, others = [], []
    recompute, most = plan.value.request.recompute, plan.value.request.max_stages_per_rank
    found = classic_rows(profile, cluster, request.num_microbatches, recompute=recompute, max_stages_per_rank=most)
    best = {row.schedule: row for row in sorted(found, key=lambda row: -row.step_time_ns) if row.fits}
    for row in sorted(best.values(), key=lambda row: row.step_time_ns):
        times = noise.step_times_ns(row.assignment, row.timeline)
        others.append(times)
        rows.append(_row(row.schedule, row.step_time_ns, times, float((own <= times).mean())))
    return {
        "noise_percent": percent,
        "draws": draws,
        "seed": request.seed,
        "rows": [_row("plan", planned.step_time_ns, own, _all_at_once(own, others)), *rows],
    }


def _all_at_once(own: Ints, others: list[Ints]) -> float | None:
    if not others:
        return None
    held = others[0] >= own
    for times in others[1:]:
        held &= times >= own
    return float(held.mean())


def _row(schedule: str, predicted_ns: int, times: Ints, wins: float | None) -> dict[str, Any]:
    return {
        "schedule": schedule,
        "step_time_ns": predicted_ns,
        "median_ns": quantile(times, 50),
        "p95_ns": quantile(times, 95),
        "worst_ns": int(times.max()),
        "plan_wins": wins,
    }


def _csv(document: dict[str, Any]) -> str:
    heads = list(document["rows"][0])
    lines = [",".join("" if row[head] is None else str(row[head]) for head in heads) for row in document["rows"]]
    return "\n".join([",".join(heads), *lines]) + "\n"
