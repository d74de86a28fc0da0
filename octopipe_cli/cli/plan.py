"""``octopipe plan``: profile and cluster in, plan file and chart out."""

from __future__ import annotations

import datetime
import math
import platform
import time
from typing import Annotated

import msgspec
import typer

from octopipe_cli.cli.check import check_plans
from octopipe_cli.cli.inputs import check_stdin, kept_parts, load_inputs, percent
from octopipe_cli.cli.lengths import planned_lengths
from octopipe_cli.cli.output import Format, check_not_an_input, emit_plan, note, safe_name, save, warn
from octopipe_cli.errors import EXIT_INTERRUPTED, InputError
from octopipe_cli.plan import (
    MAX_MICROBATCHES,
    Backward,
    Effort,
    Engine,
    Objective,
    Placement,
    Plan,
    Recompute,
    Request,
    Robust,
)

SEARCH, LENGTHS, OUTPUT, CHECK = "Search", "Micro-batches that differ", "Output", "Check of a plan there is"


def plan(
    context: typer.Context,
    profile: Annotated[
        str | None,
        typer.Argument(
            metavar="PROFILE",
            show_default=False,
            help="Model profile: a file, or a name of `octopipe models`; - is standard input.",
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Argument(
            metavar="CLUSTER",
            show_default=False,
            help="Cluster spec: a file, a name of `octopipe clusters`, or a line: 8xh100-sxm; - is standard input.",
        ),
    ] = None,
    num_microbatches: Annotated[
        int | None,
        typer.Option(
            "-m",
            "--num-microbatches",
            min=1,
            max=MAX_MICROBATCHES,
            metavar="N",
            help="Micro-batches of a step. Needed but where a plan is checked.",
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PLAN",
            show_default=False,
            rich_help_panel=OUTPUT,
            help="The plan file; by default PROFILE's name with .plan.json, here. - is standard output: "
            "chart and report then go to standard error.",
        ),
    ] = None,
    effort: Annotated[
        Effort, typer.Option(rich_help_panel=SEARCH, help="How much is tried: a fixed amount of work, not of time.")
    ] = "standard",
    seed: Annotated[
        int, typer.Option(rich_help_panel=SEARCH, min=0, max=2**31 - 1, metavar="S", help="Of every random choice.")
    ] = 0,
    time_limit: Annotated[
        float | None,
        typer.Option(
            rich_help_panel=SEARCH,
            metavar="SECONDS",
            help="A safety net: the best plan by then. A plan it cut short is not reproducible, and says so.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=SEARCH,
            min=1,
            max=1024,
            metavar="J",
            show_default=False,
            help="Searches side by side; by default one a core. The plan does not depend on it.",
        ),
    ] = None,
    engine: Annotated[
        Engine,
        typer.Option(help="What is to run the plan: the search keeps to what that engine executes."),
    ] = "any",
    recompute: Annotated[
        Recompute, typer.Option(help="Activation recomputation: where it pays, never, always.")
    ] = "auto",
    backward: Annotated[Backward, typer.Option(help="Whether backward may be split in input and weights.")] = "split",
    max_stages_per_rank: Annotated[
        int | None, typer.Option(min=1, metavar="V", help="At most so many stages a rank.")
    ] = None,
    placement: Annotated[Placement, typer.Option(help="Which rank a stage may sit on.")] = "free",
    objective: Annotated[
        Objective,
        typer.Option(
            rich_help_panel=SEARCH,
            help="What is minimised: the step's time with its flush, or the longest span of a rank.",
        ),
    ] = "step",
    warm_start: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SEARCH,
            metavar="PLAN",
            help="Begin from this plan too, so that small changes of the inputs change little; it is no worse than "
            "that plan on these inputs. - is standard input.",
        ),
    ] = None,
    stability: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SEARCH,
            metavar="W",
            help="With --warm-start: a plan up to W per cent (1%, 0.5%) slower than the best found, if it moves fewer "
            "layers to other ranks.",
        ),
    ] = None,
    keep: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SEARCH,
            metavar="PARTS",
            help="Hold these parts of --from's plan fixed, with commas between: partition (its cuts), placement (the "
            "rank of each stage), order (what each rank runs; keeps the placement). All three: that plan on these "
            "inputs.",
        ),
    ] = None,
    from_plan: Annotated[
        str | None,
        typer.Option("--from", rich_help_panel=SEARCH, metavar="PLAN", help="With --keep: the plan with these parts."),
    ] = None,
    robust_noise: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=SEARCH,
            metavar="PERCENT",
            help="Of plans up to 0.5 % slower than the best found, take the one with the least 95th percentile of the "
            "step time where the profile's times are off by so many per cent (8%), over a fixed set of draws.",
        ),
    ] = None,
    reorder_ranks: Annotated[
        bool,
        typer.Option(
            "--reorder-ranks",
            rich_help_panel=SEARCH,
            help="Search in which order the ranks stand along the model too, where a placement in a circle or a V "
            "goes through them; the plan's rank_order says it, ranks keep the cluster's numbers. Free placement needs "
            "no such order.",
        ),
    ] = False,
    lengths: Annotated[
        str | None,
        typer.Option(
            rich_help_panel=LENGTHS,
            metavar="FILE",
            help="Lengths of the micro-batches relative to the profile's: JSON with a list for each modality "
            '({"text": [1, 0.5]}), or CSV with a column for each. Several steps: JSON lines, or their rows one after '
            "another. - is standard input.",
        ),
    ] = None,
    tokens: Annotated[
        bool,
        typer.Option(
            "--tokens",
            rich_help_panel=LENGTHS,
            help="The file counts tokens: they are divided by sequence_length x micro_batch_size of the profile.",
        ),
    ] = False,
    robust: Annotated[
        Robust | None,
        typer.Option(
            rich_help_panel=LENGTHS,
            help="With several steps' lengths: one plan, its order of actions kept in all of them. Of their step times "
            "mean searches for the least mean, p95 for the least half of the mean and half of the 95th percentile, "
            "worst for that with the largest. Even-numbered steps are for finding, odd for reporting (from 0 on).",
        ),
    ] = None,
    keep_order: Annotated[
        bool,
        typer.Option(
            "--keep-order",
            rich_help_panel=LENGTHS,
            help="Keep the micro-batches in the order of the lists; else they may change places.",
        ),
    ] = False,
    format: Annotated[Format, typer.Option(rich_help_panel=OUTPUT, help="How the report is printed.")] = Format.text,
    no_gantt: Annotated[bool, typer.Option("--no-gantt", rich_help_panel=OUTPUT, help="Print no chart.")] = False,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="PLAN",
            rich_help_panel=CHECK,
            help="Write nothing: is this plan still what PROFILE and CLUSTER give (its own request, seed and effort)? "
            "Exit 0: unchanged; 1: stale or invalid, with what differs; 2: it cannot be made again. Searches only "
            "where the inputs or octopipe's version changed. Without PROFILE and CLUSTER they are the ones that the "
            "settings name for the plan: [tool.octopipe.plans] of pyproject.toml, or [plans] of octopipe.toml, has "
            'lines like "a.plan.json" = { profile = "a.json", cluster = "b.json" }, files seen from there.',
        ),
    ] = None,
    check_all: Annotated[
        bool, typer.Option("--check-all", rich_help_panel=CHECK, help="--check of all plans that the settings name.")
    ] = False,
) -> None:
    """Find partition, placement and schedule together, write the plan and show it.

    The plan's step time is what the profile and the cluster predict; beside it stands a certified lower bound that no
    plan can beat. Ctrl-C ends the search and keeps the best plan so far (exit 130); a second one ends at once.

    Example: octopipe plan profiles/models/llama3-8b.json profiles/clusters/a100-4.json -m 16
    """
    from octopipe_cli.formats import check_writable
    from octopipe_cli.plan import load_plan, plan_text

    files = {"--check": check, "--warm-start": warm_start, "--from": from_plan, "--lengths": lengths}
    check_stdin(PROFILE=profile, CLUSTER=cluster, **files)
    _check_flags(time_limit)
    if check is not None or check_all:
        check_plans(context, None if check_all else check, jobs, time_limit, format)
        return
    if profile is None or cluster is None or num_microbatches is None:
        raise _missing(profile, cluster)
    model, machine = load_inputs(profile, cluster, num_microbatches)
    sets = planned_lengths(lengths, (model, machine, num_microbatches), tokens=tokens, robust=robust, keep=keep_order)
    target = f"{safe_name(model.value.name)}.plan.json" if output is None else output
    check_not_an_input(target, {"profile": profile, "cluster": cluster})
    check_writable(target)
    _check_kept(keep, from_plan, warm_start)
    begin = warm_start or from_plan
    warm = None if begin is None else load_plan(begin)
    request = Request(
        num_microbatches=num_microbatches,
        engine=engine,
        recompute=recompute,
        effort=effort,
        seed=seed,
        backward=backward,
        placement=placement,
        objective=objective,
        max_stages_per_rank=max_stages_per_rank,
        warm_start=None if warm is None else warm.digest,
        stability_percent=None if stability is None else percent(stability, "--stability"),
        keep=None if keep is None else kept_parts(keep),
        reorder_ranks=reorder_ranks or None,
        robust_noise_percent=None if robust_noise is None else percent(robust_noise, "--robust-noise"),
        lengths=None if sets is None or robust else sets.sets[0],
        lengths_digest=None if sets is None else sets.digest,
        robust=robust,
        keep_order=keep_order or None,
    )
    if stability is not None and warm_start is None:
        raise InputError("--stability asks for a plan to be close to", remedy="give it: --warm-start PLAN")
    from octopipe_cli.cli.searching import cores, search  # only now: the search loads compilers and solvers

    began = time.monotonic()
    many = sets.sets if sets is not None and robust else None
    found, interrupted = search(model, machine, request, jobs or cores(), time_limit, warm, many)
    found = _with_provenance(found, time.monotonic() - began)
    save(target, plan_text(found))
    if interrupted:
        warn("interrupted: this is the best plan so far")
    to_stderr = target == "-"
    emit_plan(found, (model.value, machine.value), format, not no_gantt, to_stderr)
    if not to_stderr:
        note(f"octopipe: wrote {target}")
        _tell_settings(target, profile, cluster, begin)
    if interrupted:
        raise typer.Exit(EXIT_INTERRUPTED)


def _tell_settings(plan: str, profile: str, cluster: str, warm_start: str | None) -> None:
    """Say how the gate comes to see a new plan, where the settings name others."""
    from octopipe_cli.cli.settings_file import missing_line

    missing = missing_line(plan, profile, cluster, warm_start)
    if missing is not None:
        note(f"octopipe: {missing[0]} does not name this plan, for `verify --all`; its line in the plans: {missing[1]}")


def _check_flags(time_limit: float | None) -> None:
    if time_limit is not None and not (math.isfinite(time_limit) and time_limit > 0):
        raise InputError("not a time limit", path="--time-limit", found=str(time_limit), expected="seconds above 0")


def _check_kept(keep: str | None, from_plan: str | None, warm_start: str | None) -> None:
    if (keep is None) != (from_plan is None):
        raise InputError(
            "--keep holds parts of a plan fixed that --from names" if keep else "--from names a plan to keep parts of",
            remedy="give the plan: --from PLAN" if keep else "say which: --keep partition,placement,order",
        )
    if keep is not None and warm_start is not None:
        raise InputError("with --keep the search begins from the plan of --from", remedy="leave out --warm-start")


def _missing(profile: str | None, cluster: str | None) -> InputError:
    what = "argument 'PROFILE'" if profile is None else "argument 'CLUSTER'" if cluster is None else ""
    return InputError(
        f"missing {what or 'option -m, --num-microbatches'}",
        remedy="`octopipe plan --help` lists what can stand here",
    )


def _with_provenance(plan: Plan, wall_s: float) -> Plan:
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    facts = {**plan.provenance, "wall_s": round(wall_s, 2), "date": date, "host": platform.node()}
    return msgspec.structs.replace(plan, provenance=facts)
