"""What of a given plan a search holds fixed: its partition, its placement, its order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import msgspec

from octopipe_cli.bounds import plan_bound_ns, plan_bound_parts, plan_span_bound_ns
from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded
from octopipe_cli.lengths import request_lengths
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Plan, Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.moves import MOVE_COUNT, MOVE_RANKS
from octopipe_cli.search.relaxation import CertifiedBound
from octopipe_cli.search.starts import even_cuts
from octopipe_cli.search.tables import Tables
from octopipe_cli.search.warm import WarmStart, broken_request


@dataclass(frozen=True)
class Keep:
    """What is held fixed of a plan; of nothing where all is False. An order speaks of ranks: it keeps the placement."""

    partition: bool
    placement: bool
    order: bool
    given: WarmStart | None

    @property
    def all_but_order(self) -> bool:
        """Whether the order is all that is searched."""
        return self.partition and self.placement

    def admits(self, assignment: Assignment) -> bool:
        """Return whether an assignment has what is held fixed."""
        if self.given is None:
            return True
        kept = self.given.assignment
        same_cuts = not self.partition or assignment.cuts == kept.cuts
        return same_cuts and (not self.placement or assignment.ranks == kept.ranks)

    def moves(self, allowed: int) -> int:
        """Return the tuner's moves without those that would change what is held fixed."""
        if self.placement:
            allowed &= ~MOVE_RANKS
        return allowed & ~MOVE_COUNT if self.partition or self.placement else allowed

    def profile(self, profile: Profile) -> Profile:
        """Return the profile as a search with a kept partition sees it: it may be cut where the plan cuts it alone.

        Cuts, bounds and classic schedules follow from the profile's rules, so that none of them needs to know more.
        """
        if self.given is None or not self.partition:
            return profile
        cuts = self.given.assignment.cuts
        whole = [layer for layer in range(profile.num_layers - 1) if layer + 1 not in cuts]
        return msgspec.structs.replace(profile, rules=msgspec.structs.replace(profile.rules, no_cut_after=whole))

    def starts(self, tables: Tables, num_ranks: int, request: Request) -> list[Assignment]:
        """Return where the search starts besides the plan itself.

        With the partition kept: its cuts on ranks in a circle and in a V. With the placement kept: its ranks with even
        cuts.
        """
        if self.given is None or not (self.partition or self.placement):
            return []
        kept = self.given.assignment
        if self.all_but_order:
            return [kept]
        if self.placement:
            even = even_cuts(tables, kept.ranks)
            return [kept] if even is None else [kept, Assignment(even, kept.ranks, kept.recompute)]
        up = tuple(range(num_ranks))
        sequences = [(pattern * kept.num_stages)[: kept.num_stages] for pattern in (up, up + up[::-1])]
        made = [kept, *(Assignment(kept.cuts, ranks, kept.recompute) for ranks in sequences)]
        return [assignment for assignment in made if broken_request(assignment, num_ranks, request) is None]

    def tightened(self, bound: CertifiedBound, profile: Profile, cluster: Cluster, request: Request) -> CertifiedBound:
        """Return the bound, that of the pipeline itself where partition and placement are kept.

        Stages are taken as not recomputed unless all must be, transfers as overlapped: the other way is never faster.
        """
        if self.given is None or not self.all_but_order:
            return bound
        kept = self.given.assignment
        again = (request.recompute == "full",) * kept.num_stages
        bare = replace(kept, recompute=again)
        lengths = request_lengths(profile, request)
        pipeline = build_pipeline(profile, cluster, bare, request.num_microbatches, "overlapped", lengths)
        pipeline = replace(pipeline, limit_bytes=(None,) * pipeline.num_ranks)
        span = None if bound.span_ns is None else max(bound.span_ns, plan_span_bound_ns(pipeline))
        if span == bound.span_ns and (parts := plan_bound_parts(pipeline)).total_ns > bound.step_time_ns:
            return replace(bound, step_time_ns=parts.total_ns, argument=parts.argument)
        return replace(bound, step_time_ns=max(bound.step_time_ns, plan_bound_ns(pipeline)), span_ns=span)


def keep_of(request: Request, given: WarmStart | None, plan: Loaded[Plan] | None) -> Keep:
    """Return what a request holds fixed of the plan that its search begins from.

    Raises
    ------
    InputError
        Where an order is to be kept that the new inputs or the request do not admit, or a partition with empty stages
        is to be kept without its placement.
    """
    parts: Sequence[str] = request.keep or ()
    order = "order" in parts
    keep = Keep("partition" in parts, "placement" in parts or order, order, given if parts else None)
    if keep.given is None or plan is None:
        return keep
    if order and keep.given.orders is None:
        raise InputError(
            "the order cannot be kept: it is one of other micro-batches, another backward, or not the engine's",
            file=plan.file,
            path="$.orders",
            remedy="ask for what the plan was made for, or keep partition and placement alone",
        )
    if keep.partition and any(a == b for a, b in pairwise(keep.given.assignment.cuts)) and not keep.placement:
        raise InputError(
            "a partition with empty stages is kept with its placement only",
            file=plan.file,
            path="$.stages",
            remedy="add placement to --keep",
        )
    return keep
