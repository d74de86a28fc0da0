"""``octopipe diff``: what changed from one plan to another, and whether that is worse."""

from __future__ import annotations

import contextlib
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from octopipe_cli.cli.change_kinds import show_kinds
from octopipe_cli.cli.inputs import check_stdin
from octopipe_cli.cli.output import emit
from octopipe_cli.errors import EXIT_NO, InputError
from octopipe_cli.render.diff.choose import DiffFormatName, diff_format

if TYPE_CHECKING:
    from octopipe_cli.cli.plan_files import Pair
    from octopipe_cli.cluster import Cluster
    from octopipe_cli.diff.change import Change, PlanDiff
    from octopipe_cli.diff.settings import Settings
    from octopipe_cli.formats import Loaded
    from octopipe_cli.plan import InputFile, Plan
    from octopipe_cli.profile import Profile

GATE = "What makes it fail"
INPUTS = "Input files of the two plans"


class FailOn(str, Enum):
    """Which changes make the command fail."""

    any = "any"
    regression = "regression"
    never = "never"


def _input(metavar: str, help_text: str) -> Any:
    return typer.Option(metavar=metavar, help=help_text, rich_help_panel=INPUTS)


def diff(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="OLD NEW",
            help="The two plan files, each also as REVISION:FILE of git (main:plans/a.json); - is standard input. "
            "With --base: files and folders.",
        ),
    ],
    base: Annotated[
        str | None,
        typer.Option(
            metavar="REVISION", help="Compare the plans at or below the paths named with those of a git revision."
        ),
    ] = None,
    output_format: Annotated[
        DiffFormatName,
        typer.Option(
            "--format",
            help="markdown: a pull request's comment; github: annotations of a workflow's run; junit: XML for CI "
            "systems; json: by `octopipe schema diff`.",
        ),
    ] = DiffFormatName.text,
    fail_on: Annotated[
        FailOn | None,
        typer.Option("--fail-on", help="Leave with 1 for these [default: regression].", rich_help_panel=GATE),
    ] = None,
    max_slowdown: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="Slower by up to this is neutral: 1%.", rich_help_panel=GATE),
    ] = None,
    max_memory_growth: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT", help="More peak memory of a rank than this is a regression: 5%.", rich_help_panel=GATE
        ),
    ] = None,
    min_headroom_gib: Annotated[
        float | None,
        typer.Option(
            metavar="GIB", help="What must be left of a rank's memory, in GiB [default: 0].", rich_help_panel=GATE
        ),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Read these settings [default: [tool.octopipe.diff] of pyproject.toml, or [diff] of octopipe.toml].",
            rich_help_panel=GATE,
        ),
    ] = None,
    old_profile: Annotated[str | None, _input("PROFILE", "The profile of OLD: what changed in it is told too.")] = None,
    new_profile: Annotated[str | None, _input("PROFILE", "The profile of NEW.")] = None,
    old_cluster: Annotated[str | None, _input("CLUSTER", "The cluster of OLD: what changed in it is told too.")] = None,
    new_cluster: Annotated[str | None, _input("CLUSTER", "The cluster of NEW.")] = None,
    kinds: Annotated[
        bool,
        typer.Option(
            "--kinds",
            help="List the ids of all changes, with their effects and thresholds, and leave.",
            is_eager=True,
            callback=show_kinds,
            rich_help_panel=GATE,
        ),
    ] = False,
) -> None:
    """Compare two plans: times, memory, partition, placement, orders, request and inputs.

    Leaves with 0 where nothing is as bad as --fail-on, 1 where something is, 2 where a file cannot be read.

    Example: octopipe diff main:plans/a.json plans/a.json --max-slowdown 1%

    Example: octopipe diff --base main plans/
    """
    import gc

    from octopipe_cli.config import load_config, read_config
    from octopipe_cli.diff.settings import read_settings

    gc.disable()  # a replay makes a few hundred thousand tuples and no cycles: a fifth of the time would go here
    options: dict[str, Any] = {"fail_on": fail_on and fail_on.value, "max_slowdown": max_slowdown}
    options |= {"max_memory_growth": max_memory_growth, "min_headroom_gib": min_headroom_gib}
    settings = read_settings(read_config() if config is None else load_config(config), options)
    inputs = {"old_profile": old_profile, "new_profile": new_profile}
    inputs |= {"old_cluster": old_cluster, "new_cluster": new_cluster}
    given = {name: file for name, file in inputs.items() if file is not None}
    reports = _of_folders(base, files, given, settings) if base is not None else _of_two(files, given, settings)
    emit(diff_format(output_format).format(reports))
    if any(report.failing for report in reports):
        raise typer.Exit(EXIT_NO)


def _of_two(files: list[str], given: dict[str, str], settings: Settings) -> list[PlanDiff]:
    """Return the comparison of two files."""
    from octopipe_cli.cli.plan_files import Pair, read_plan
    from octopipe_cli.diff.compare import compare_plans

    if len(files) != 2:
        raise InputError(
            "two plans are compared",
            found=f"{len(files)} files",
            expected="OLD NEW",
            remedy="name two files, or a git revision with --base",
        )
    check_stdin(OLD=files[0], NEW=files[1], **given)
    old, new = map(read_plan, files)
    inputs = _inputs(given, old, new)
    for side, plan in (("old", old), ("new", new)):
        _replay(plan, inputs.get(f"{side}_profile"), inputs.get(f"{side}_cluster"))
    changes = compare_plans(old.value, new.value, thresholds=settings.thresholds, **inputs)
    return [_report(Pair(old, new), changes, settings)]


def _replay(plan: Loaded[Plan], profile: Profile | None, cluster: Cluster | None) -> None:
    """Make the timeline of a plan whose micro-batches differ known to what follows; without its inputs, warn."""
    from octopipe_cli.cli.output import warn
    from octopipe_cli.errors import InvalidPlanError
    from octopipe_cli.replay import needs_inputs, replay

    if not needs_inputs(plan.value):
        return
    if profile is None or cluster is None:
        warn(
            f"{plan.file}: its micro-batches differ in length, and its figures are taken as it gives them: what they "
            "follow from was not given (--old-profile, --old-cluster, --new-profile, --new-cluster)"
        )
        return
    with contextlib.suppress(InvalidPlanError):  # the comparison tells
        replay(plan.value, plan.file, (profile, cluster))


def _of_folders(base: str, paths: list[str], given: dict[str, str], settings: Settings) -> list[PlanDiff]:
    """Return the comparison of each plan that differs from a revision's."""
    from octopipe_cli.cli.plan_files import changed_plans
    from octopipe_cli.diff.compare import added_plan, compare_plans, removed_plan

    if given:
        name = next(iter(given)).replace("_", "-")
        raise InputError(f"--{name} has no meaning with --base", remedy="leave it out, or compare two files")
    reports = []
    for pair in changed_plans(base, paths):
        if pair.old is None:
            assert pair.new is not None
            changes = added_plan(pair.new.value, settings.thresholds)
        elif pair.new is None:
            changes = removed_plan(pair.old.value, settings.thresholds)
        else:
            changes = compare_plans(pair.old.value, pair.new.value, thresholds=settings.thresholds)
        reports.append(_report(pair, changes, settings))
    return reports


def _report(pair: Pair, changes: list[Change], settings: Settings) -> PlanDiff:
    from octopipe_cli.diff.change import PlanDiff

    old, new = pair
    return PlanDiff(
        old_file=None if old is None else old.file,
        new_file=None if new is None else new.file,
        old=None if old is None else old.value,
        new=None if new is None else new.value,
        changes=changes,
        failing=settings.failing(changes),
    )


def _inputs(given: dict[str, str], old: Loaded[Plan], new: Loaded[Plan]) -> dict[str, Any]:
    """Return the profiles and clusters named, checked to be those the plans were made from."""
    from octopipe_cli.cli.plan_files import read_cluster, read_profile

    found: dict[str, Any] = {}
    for what, read in (("profile", read_profile), ("cluster", read_cluster)):
        names = [f"{side}_{what}" for side in ("old", "new")]
        if sum(name in given for name in names) == 1:
            missing = next(name for name in names if name not in given).replace("_", "-")
            raise InputError(
                f"--{missing} is missing: both {what}s are needed to compare them",
                remedy=f"give --{missing} too, or neither",
            )
        for name, plan in zip(names, (old, new), strict=True):
            if name in given:
                loaded = read(given[name])
                wanted: InputFile = getattr(plan.value.inputs, what)
                if wanted.digest != loaded.digest:
                    raise InputError(
                        f"the plan was made from another {what} than {loaded.file}",
                        file=plan.file,
                        path=f"$.inputs.{what}.digest",
                        found=f"{wanted.digest} ({wanted.name})",
                        expected=loaded.digest,
                        remedy=f"give --{name.replace('_', '-')} the {what} this plan was made from",
                    )
                found[name] = loaded.value
    return found
