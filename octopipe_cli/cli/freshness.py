"""Is a committed plan still what its inputs give? Verified first, searched for again only where something differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import msgspec

from octopipe_cli import __version__
from octopipe_cli.cli.inputs import load_inputs
from octopipe_cli.cli.lengths import LengthSet, read_lengths
from octopipe_cli.errors import InfeasibleError, InputError, LimitError
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan, is_edited, load_plan

if TYPE_CHECKING:
    from octopipe_cli.cluster import Cluster
    from octopipe_cli.config import PlanEntry
    from octopipe_cli.profile import Profile

    #: Profile, cluster, and the plan to begin from.
    Inputs = tuple[Loaded[Profile], Loaded[Cluster], Loaded[Plan] | None]

State = Literal["unchanged", "stale", "invalid"]


@dataclass(frozen=True)
class Verdict:
    """What became of a plan.

    Attributes
    ----------
    file
        The plan's file.
    state
        Whether its inputs still give it, give another one, or it breaks a rule.
    remarks
        (id, JSON path, sentence): the rules it breaks, or what a new plan would change.
    """

    file: str
    state: State
    remarks: Sequence[tuple[str, str, str]] = field(default=())


def judge(plan: Loaded[Plan], files: PlanEntry, jobs: int | None = None, time_limit_s: float | None = None) -> Verdict:
    """Return whether a plan is still what profile and cluster give.

    The plan is always verified. It is searched for again, with its own request, where inputs or version are not those
    it names, or where it has no content digest that would show an edit.

    Raises
    ------
    InputError
        Where the search cannot be repeated: a file is missing or another one, or the plan was cut short.
    LimitError
        Where a limit ended the new search.
    """
    try:
        return _judge(plan, files, jobs, time_limit_s)
    except InfeasibleError as error:
        return Verdict(plan.file, "stale", [("no-plan", "$.inputs", f"there is no plan any more: {error.message}")])


def _judge(plan: Loaded[Plan], files: PlanEntry, jobs: int | None, time_limit_s: float | None) -> Verdict:
    profile, cluster = load_inputs(files.profile, files.cluster, plan.value.request.num_microbatches)
    findings = _findings(plan, profile, cluster)
    if findings:
        return Verdict(plan.file, "invalid", findings)
    if not plan.value.search.reproducible:
        raise InputError(
            f"the plan cannot be made again: its search was ended by the {plan.value.search.stopped_by}",
            file=plan.file,
            path="$.search.reproducible",
            remedy="plan again without a time limit, and let it finish",
        )
    warm = _begun_from(plan, files.warm_start)
    if _made_from(plan.value, profile, cluster) and _made_by_this_version(plan.value):
        return Verdict(plan.file, "unchanged")
    sets = _robust_over(plan, files.lengths, profile)
    again = _again(plan, (profile, cluster, warm), sets, jobs, time_limit_s)
    if _bare(again) == _bare(plan.value):
        return Verdict(plan.file, "unchanged")
    return Verdict(plan.file, "stale", _changes(plan.value, again))


def _begun_from(plan: Loaded[Plan], file: str | None) -> Loaded[Plan] | None:
    """Return the plan that the search began from, where it began from one.

    Raises
    ------
    InputError
        Where it is not given, or another one is.
    """
    wanted = plan.value.request.warm_start
    begun = None if file is None else load_plan(file)
    found = None if begun is None else begun.digest
    if found != wanted:
        raise InputError(
            "the plan was not made from this one" if begun else "the plan was made from an older one, which is needed",
            file=plan.file,
            path="$.request.warm_start",
            found="none" if begun is None else begun.digest,
            expected="none" if wanted is None else wanted,
            remedy="leave out --warm-start" if wanted is None else "give the older plan: --warm-start PLAN",
        )
    return begun


def _made_from(plan: Plan, profile: Loaded[Profile], cluster: Loaded[Cluster]) -> bool:
    return (plan.inputs.profile.digest, plan.inputs.cluster.digest) == (profile.digest, cluster.digest)


def _made_by_this_version(plan: Plan) -> bool:
    """Return whether this version wrote the plan as it stands: its plans carry their content's digest."""
    return plan.created_by == f"octopipe {__version__}" and plan.content_digest is not None


def _findings(plan: Loaded[Plan], profile: Loaded[Profile], cluster: Loaded[Cluster]) -> list[tuple[str, str, str]]:
    """Return the rules a plan breaks; with other inputs than its own, those that the plan alone can break."""
    if _made_from(plan.value, profile, cluster):
        from octopipe_cli.verify import verify

        return [(rule, path, text) for rule, path, text in verify(plan.value, profile, cluster)]
    if is_edited(plan.value):
        return [("content-digest", "$.content_digest", "the plan was edited by hand")]
    from octopipe_cli.diff.validity import findings

    return [("figures", path, text) for path, text in findings(plan.value)]


def _robust_over(plan: Loaded[Plan], file: str | None, profile: Loaded[Profile]) -> list[LengthSet] | None:
    """Return the sets of lengths that a plan for many was made for, None for a plan for one step.

    Raises
    ------
    InputError
        Where the file is not given, or holds other lengths.
    """
    request = plan.value.request
    if request.robust is None:
        return None
    if file is None:
        raise InputError(
            "the plan was made for many sets of lengths, which its file does not hold",
            file=plan.file,
            path="$.request.robust",
            remedy='name them in the settings, beside the plan\'s profile and cluster: lengths = "FILE"',
        )
    errors = []
    for tokens in (False, True):
        try:
            found = read_lengths(file, profile, request.num_microbatches, tokens=tokens)
        except InputError as error:
            errors.append(error)
        else:
            if found.digest == request.lengths_digest:
                return found.sets
    if len(errors) > 1:
        raise errors[0]
    raise InputError(
        "the plan was made for other lengths",
        file=plan.file,
        path="$.request.lengths_digest",
        found=request.lengths_digest,
        expected=f"that of {file}",
        remedy="plan again with --lengths and --robust, and compare: octopipe diff",
    )


def _again(
    plan: Loaded[Plan],
    inputs: Inputs,
    sets: list[LengthSet] | None,
    jobs: int | None,
    time_limit_s: float | None,
) -> Plan:
    """Return what the search finds today; here the compilers and solvers are loaded."""
    from octopipe_cli.cli.searching import Interrupted, cores, search

    profile, cluster, warm = inputs
    found, interrupted = search(profile, cluster, plan.value.request, jobs or cores(), time_limit_s, warm, sets)
    if interrupted:
        raise Interrupted(f"interrupted before {plan.file} was made again")
    if not found.search.reproducible:
        raise LimitError(f"the time limit was reached before {plan.file} was made again", remedy="allow more time")
    return found


def _bare(plan: Plan) -> Plan:
    """Return all of a plan that its inputs decide."""
    return msgspec.structs.replace(plan, created_by="", content_digest=None, provenance={})


def _changes(old: Plan, new: Plan) -> list[tuple[str, str, str]]:
    """Return what the plan that the inputs give today changes."""
    from octopipe_cli.diff.compare import compare_plans

    return [(change.id, change.path, change.message) for change in compare_plans(_bare(old), _bare(new))]
