"""Layouts written by hand for Megatron-LM, priced in the order it would run them."""

from __future__ import annotations

from itertools import accumulate
from typing import Final, NamedTuple

from octopipe_cli.cluster import Cluster
from octopipe_cli.engines import engine_p2p
from octopipe_cli.engines.megatron_layout import LayoutSyntaxError, layout_problems, read_layout
from octopipe_cli.engines.megatron_orders import interleaved_1f1b, least_group_size, one_f_one_b
from octopipe_cli.engines.symbols import whole_layer
from octopipe_cli.errors import InputError
from octopipe_cli.formats import show
from octopipe_cli.pipeline import Assignment, build_pipeline
from octopipe_cli.plan import Orders, Recompute
from octopipe_cli.profile import Profile, Role
from octopipe_cli.simulate import Timeline, simulate

_LETTER_OF: Final[dict[Role, str]] = {"embedding": "E", "decoder": "t", "mtp": "m", "head": "L"}


class PricedLayout(NamedTuple):
    """A layout and what it costs; `order` is ``1f1b`` or ``interleaved-1f1b``, `group_size` None under the first."""

    stages_per_rank: int
    order: str
    group_size: int | None
    recompute: bool
    assignment: Assignment
    timeline: Timeline


def price_layout(
    profile: Profile,
    cluster: Cluster,
    num_microbatches: int,
    layout: str,
    *,
    group_size: int | None = None,
    recompute: Recompute = "auto",
) -> PricedLayout:
    """Return what a layout string costs under Megatron-LM.

    The group size of interleaving is the number of ranks, or the smallest legal one, unless given. With `recompute`
    ``auto`` a layout that does not fit is priced with full recomputation where that fits.

    Raises
    ------
    InputError
        Where it is no layout of this model on so many ranks, breaks a rule of the profile, or cannot be interleaved.
    """
    cuts = _cuts(profile, cluster.num_ranks, layout)
    stages, ranks = len(cuts) - 1, cluster.num_ranks
    placed = tuple(stage % ranks for stage in range(stages))
    _check_same_rank(profile, cuts, placed)
    orders, size = _orders(ranks, num_microbatches, stages // ranks, group_size)
    p2p = engine_p2p("megatron", stages // ranks, cluster.p2p)
    runs = []
    for again in {"none": (False,), "full": (True,), "auto": (False, True)}[recompute]:
        assignment = Assignment(cuts, placed, (again,) * stages)
        timeline = simulate(build_pipeline(profile, cluster, assignment, num_microbatches, p2p), orders)
        order = "1f1b" if size is None else "interleaved-1f1b"
        runs.append(PricedLayout(stages // ranks, order, size, again, assignment, timeline))
        if timeline.fits:
            return runs[-1]
    return runs[0]


def _cuts(profile: Profile, num_ranks: int, layout: str) -> tuple[int, ...]:
    """Return the layers each stage of a layout begins with, and the end."""
    letters = "".join(_LETTER_OF[profile.kinds[kind].role] for kind in profile.layer_kinds)
    half = next((k for k in profile.layer_kinds if profile.kinds[k].role == "decoder" and not whole_layer(k)), None)
    if half is not None:
        raise InputError(
            f"a layout counts transformer layers, and {show(half)} is none",
            path="--layout",
            remedy="use a profile with a kind for each whole layer (profile estimate --granularity layer)",
        )
    try:
        stages = read_layout(layout)
        problems = list(layout_problems(stages, num_ranks, letters.count("t"), letters.count("m")))
    except LayoutSyntaxError as error:
        problems = [error.problem]
    if problems:
        raise InputError(
            f"not a layout of this model on {num_ranks} ranks, rule {problems[0].rule}: {problems[0].message}",
            path="--layout",
            found=show(layout),
            remedy="`octopipe layout check` lists all that is wrong, and what each rank holds",
        )
    if "".join(stages) != letters:
        raise InputError(
            "the profile's layers are no model of Megatron's",
            path="--layout",
            found=f"layers of roles {', '.join(dict.fromkeys(profile.kinds[k].role for k in profile.layer_kinds))}",
            expected="one embedding, decoder layers, MTP depths, one head, in this order",
        )
    cuts = (0, *accumulate(map(len, stages)))
    banned = [layer for layer in profile.rules.no_cut_after if layer + 1 in cuts[1:-1]]
    if banned:
        raise InputError(
            f"the layout cuts after layer {min(banned)}, which the profile forbids",
            path="--layout",
            remedy="move that cut: the profile's rules.no_cut_after lists where none may be",
        )
    return cuts


def _check_same_rank(profile: Profile, cuts: tuple[int, ...], placed: tuple[int, ...]) -> None:
    rank_of = [rank for stage, rank in enumerate(placed) for _ in range(cuts[stage], cuts[stage + 1])]
    for group in profile.rules.same_rank:
        if len({rank_of[layer] for layer in group}) > 1:
            raise InputError(
                "the layout parts layers that must share a rank",
                path="--layout",
                expected=f"layers {', '.join(map(str, group[:8]))} on one rank, says the profile",
            )


def _orders(num_ranks: int, num_microbatches: int, per_rank: int, group_size: int | None) -> tuple[Orders, int | None]:
    if per_rank == 1:
        if group_size is not None:
            raise InputError(
                "a layout of one stage a rank has no groups",
                path="--group-size",
                found=str(group_size),
                remedy="leave it out",
            )
        return one_f_one_b(num_ranks, num_microbatches), None
    size = group_size or least_group_size(num_ranks, num_microbatches)
    return interleaved_1f1b(num_ranks, num_microbatches, per_rank, size), size
