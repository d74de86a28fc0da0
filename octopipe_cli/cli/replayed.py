"""The timeline of a plan file: from itself alone, or with its profile and cluster where its micro-batches differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from octopipe_cli.errors import InputError

if TYPE_CHECKING:
    from octopipe_cli.cluster import Cluster
    from octopipe_cli.formats import Loaded
    from octopipe_cli.plan import Plan
    from octopipe_cli.profile import Profile
    from octopipe_cli.simulate import Timeline

LENGTHS: Final = "Plans with lengths"
_WHEN = "needed where the plan's micro-batches differ in length and no settings name it."

PlanProfile = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="FILE",
        show_default=False,
        rich_help_panel=LENGTHS,
        help=f"The profile the plan was made from; {_WHEN}",
    ),
]
PlanCluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="FILE",
        show_default=False,
        rich_help_panel=LENGTHS,
        help=f"The cluster spec the plan was made from; {_WHEN}",
    ),
]


def inputs_of(plan: Loaded[Plan], profile: str | None, cluster: str | None) -> tuple[Profile, Cluster] | None:
    """Return what a plan's timeline needs besides its file; None where it needs nothing.

    Raises
    ------
    InputError
        Where it needs them and neither the options nor the settings name them, or they are others.
    """
    from octopipe_cli.cli.check import entry_of
    from octopipe_cli.cli.inputs import check_digests
    from octopipe_cli.cluster import load_cluster
    from octopipe_cli.profile import load_profile
    from octopipe_cli.replay import needs_inputs

    files = {name: file for name, file in (("profile", profile), ("cluster", cluster)) if file is not None}
    if len(files) == 1:
        missing = "cluster" if profile is not None else "profile"
        raise InputError(f"missing option '--{missing}'", remedy="give --profile and --cluster, or neither")
    if not files and not needs_inputs(plan.value):
        return None
    try:
        entry = entry_of(plan.file, files)
    except InputError:
        raise InputError(
            "the plan's micro-batches differ in length: its timeline follows from its profile and cluster",
            file=plan.file,
            path="$.request.lengths",
            remedy="give them: --profile FILE --cluster FILE, or name them in [tool.octopipe.plans] of pyproject.toml",
        ) from None
    model, machine = load_profile(entry.profile), load_cluster(entry.cluster)
    check_digests(plan, model, machine)
    return model.value, machine.value


def replayed(plan: Loaded[Plan], profile: str | None, cluster: str | None) -> Timeline:
    """Return the timeline of a plan; raises what `inputs_of` and `octopipe_cli.replay.replay` do."""
    from octopipe_cli.replay import replay

    return replay(plan.value, plan.file, inputs_of(plan, profile, cluster))


def refuse_lengths(plan: Loaded[Plan], why: str) -> None:
    """Raise InputError where a plan's micro-batches differ in length."""
    from octopipe_cli.replay import needs_inputs

    if needs_inputs(plan.value):
        raise InputError(
            f"the plan's micro-batches differ in length: {why}",
            file=plan.file,
            path="$.request.lengths",
            remedy="make a plan without --lengths, or one for many sets of them (--robust): both are for equal lengths",
        )
