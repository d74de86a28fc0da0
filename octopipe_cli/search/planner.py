"""From a profile, a cluster and a request to a verified plan: bound, classic schedules, tuner, polish, check."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import NamedTuple

import msgspec

from octopipe_cli.classic import ALL_NAMES, ClassicRow, classic_rows
from octopipe_cli.cluster import P2P, Cluster
from octopipe_cli.engines import engine_p2p
from octopipe_cli.engines.memory import engine_memory
from octopipe_cli.errors import LimitError
from octopipe_cli.length_sets import LengthLists, found_with
from octopipe_cli.lengths import request_lengths
from octopipe_cli.list_scheduler import NEVER
from octopipe_cli.noise import SEARCH_DRAWS, Noise, quantile
from octopipe_cli.pipeline import Assignment, Pipeline, build_pipeline
from octopipe_cli.plan import Orders, Request
from octopipe_cli.profile import Profile
from octopipe_cli.search.effort import BUDGETS, Budget
from octopipe_cli.search.engine_view import FIXED_ORDERS, TORCH_ENGINES, engine_profile, engine_request
from octopipe_cli.search.exact import best_plan, is_small
from octopipe_cli.search.fixed_orders import FixedSearch, fixed_schedules
from octopipe_cli.search.fusing import fuse_neighbours
from octopipe_cli.search.keep import Keep
from octopipe_cli.search.kept_orders import cuts_for_order
from octopipe_cli.search.least_memory import check_feasible, roomiest_assignments, serial_orders
from octopipe_cli.search.partition_model import balanced_cuts
from octopipe_cli.search.polish import polish
from octopipe_cli.search.progress import Progress
from octopipe_cli.search.reach import reach_ns
from octopipe_cli.search.relaxation import CertifiedBound, lower_bound
from octopipe_cli.search.reorder import promising
from octopipe_cli.search.robust import RobustSearch
from octopipe_cli.search.stability import Steadier, limit_ns
from octopipe_cli.search.starts import places_freely, starts
from octopipe_cli.search.tuner import Found, Tuner, Watch
from octopipe_cli.search.warm import WarmStart, labels_as_before, moved_layers, relabelled
from octopipe_cli.simulate import Timeline, simulate

Observer = Callable[[Progress], None]

# Where memory is short a better order is worth enough to change which partition is best.
POLISHED_UNDER_LIMITS = 4
POLISHED_TWICE = 2
# How many of the last partitions are compared under noise, and how near the best one, in per cent, they must be.
STURDY_POOL = 12
NEAR_PERCENT = 0.5
# Temperatures of the first round and of reordering, as shares of a rank's even share of the work.
FIRST_HEAT = 0.002
LAST_HEAT = 0.0003
BLIND_HEAT = 0.001
# How many of the best partitions of a short instance are scheduled at full length.
LENGTHENED = 6
# How many of the best partitions for equal micro-batches a search for many lengths begins from.
ROBUST_STARTS = 12
# How many starts are annealed where unlike ranks, or memory limits, give many times as many.
FIRST_ROUND = 16
# The part of the work without schedules that evens out starts where memory alone is short.
ALIKE_PART = 8
# The part of the work for settled orders that is spent where they are one candidate among others.
SETTLED_PART = 8
# The part of the bound's time that the exact search of a small instance may take.
EXACT_PART = 4


NOTHING_KEPT = Keep(False, False, False, None)


class Scheduled(NamedTuple):
    """A plan to be: partition and placement, and its timeline."""

    assignment: Assignment
    timeline: Timeline


class Planner:
    """One search; see `make_plan`."""

    def __init__(
        self,
        profile: Profile,
        cluster: Cluster,
        request: Request,
        jobs: int,
        time_limit_s: float | None,
        observer: Observer | None,
        stop: threading.Event,
        budget: Budget | None = None,
        warm: WarmStart | None = None,
        keep: Keep = NOTHING_KEPT,
        sets: Sequence[LengthLists] | None = None,
    ) -> None:
        self.given_profile = profile
        self.whole_profile = engine_profile(profile, request.engine)
        self.profile = keep.profile(self.whole_profile)
        self.keep = keep
        self.cluster = cluster
        self.request = engine_request(request)
        self.warm = warm
        self.jobs = jobs
        self.began = time.monotonic()
        self.watch = Watch(stop, None if time_limit_s is None else self.began + time_limit_s)
        self.observer = observer
        self.phase = "reading"
        actions = 3 * request.num_microbatches * min(profile.num_layers, 4 * cluster.num_ranks)
        self.budget = budget or BUDGETS[request.effort].for_size(actions, cluster.limited, _interchangeable(cluster))
        self.bound: CertifiedBound | None = None
        self.lengths = request_lengths(profile, request)
        self.sets = None if sets is None else found_with(sets)
        equal = self.lengths is None and sets is None  # as engines want them
        self.glance = budget is None and request.engine == "any" and equal
        self.engines: dict[str, int] = {}

    @property
    def floor(self) -> int | None:
        """The certified bound on the objective; None while there is none."""
        if self.bound is None:
            return None
        return self.bound.step_time_ns if self.request.objective == "step" else self.bound.span_ns

    def value(self, timeline: Timeline) -> tuple[int, int]:
        """Return what a timeline is judged by: the objective, then the other of step time and span."""
        pair = (timeline.step_time_ns, timeline.span_ns)
        return pair if self.request.objective == "step" else (pair[1], pair[0])

    def search(self) -> tuple[Scheduled, list[ClassicRow], CertifiedBound]:
        """Return the best plan, the classic schedules, and the bound.

        Raises
        ------
        InfeasibleError
            Where it is proven that no plan fits.
        LimitError
            Where none was found.
        """
        with self._watched():
            self.phase = "memory"
            check_feasible(self.profile, self.cluster, self.request)
            if self.request.engine in FIXED_ORDERS:
                return self._search_fixed()
            if self.keep.order:
                return self._search_cuts()
            tuner = Tuner(self.profile, self.cluster, self.request, self.watch, self.jobs)
            tuner.allowed = self.keep.moves(tuner.allowed)
            with ThreadPoolExecutor(1) as solver:
                pending = solver.submit(self._bound) if self.jobs > 1 else None
                self.phase = "classic schedules"
                rows = [self._beside_engine(row) for row in self._classic_rows() if self._engine_runs(row)]
                plans = [Scheduled(row.assignment, row.timeline) for row in rows if self._may_serve(row)]
                plans += self._serial_plans() if tuner.limited or not plans else []
                plans += self._settled_plans(rows)
                plans = [plan for plan in plans if self.keep.admits(plan.assignment)] + self._warm_plans()
                if self.warm is not None and self.keep.placement and not self.keep.partition:
                    plans += self._cut_anew(self.warm)
                found = self._tune(tuner, plans, pending)
            most = POLISHED_UNDER_LIMITS if tuner.limited else 1
            plans = [self._scheduled(tuner, entry) for entry in found[:most]] + plans
            if not plans:
                raise self._none_found()
            self.phase = "polishing"
            plans.sort(key=lambda plan: self.value(plan.timeline))
            polished = self._all_polished(plans[:most], self.budget.polish_time)
            if tuner.limited:
                best_two = self._all_polished(polished[:POLISHED_TWICE], 2 * self.budget.polish_time)
                polished = best_two + polished[POLISHED_TWICE:]
            best = self._exactly(min(polished, key=lambda plan: self.value(plan.timeline)))
            if self.warm is not None and self.keep.given is None:
                best = self._steadier(tuner, self.warm, best, found)
            if self.sets is not None:
                self.phase = "many lengths"
                best = self._robust(tuner, self.sets, best, [*polished, *plans], found)
            if self.request.robust_noise_percent is not None:
                self.phase = "noise"
                more = [self._scheduled(tuner, entry) for entry in found[most:STURDY_POOL]]
                best = self._sturdiest(best, [*polished, *plans, *more])
            if self.glance and self.keep.given is None:
                self.phase = "engines"
                arguments = (self.request, best.assignment, self.watch, self.jobs)
                self.engines = reach_ns(self.profile, self.cluster, *arguments)
        assert self.bound is not None
        return best, rows, self.bound

    def _search_fixed(self) -> tuple[Scheduled, list[ClassicRow], CertifiedBound]:
        """Return the same for an engine whose orders are settled: there is only the partition to find."""
        self.phase = "classic schedules"
        rows = []
        for name, p2p in fixed_schedules(self.request.engine, self.cluster):
            rows += self._classic_rows((name,), p2p)
        self.phase = "bound"
        self.bound = self._bound()
        self.phase = "cuts"
        known = [row.assignment for row in rows] + ([] if self.warm is None else [self.warm.assignment])
        search = FixedSearch(self.profile, self.cluster, self.request, self.watch, self.jobs, known)
        if self.keep.given is not None:
            search.keep(self.keep)
        found = search.best(self.budget.fixed_work)
        plans = [Scheduled(*found)] if found is not None else []
        others = [Scheduled(row.assignment, row.timeline) for row in rows if row.fits] + self._warm_plans()
        plans += [plan for plan in others if search.keeps(plan.assignment) and self.keep.admits(plan.assignment)]
        if not plans:
            raise self._none_found()
        best = min(plans, key=lambda plan: self.value(plan.timeline))
        if self.warm is not None and self.keep.given is None:
            plans += [Scheduled(*plan) for plan in search.replays(self.warm.assignment)]
            best = min(self._within(best, plans), key=self._steadiness)
        return self._sturdiest(best, plans), rows, self.bound

    def _search_cuts(self) -> tuple[Scheduled, list[ClassicRow], CertifiedBound]:
        """Return the same where an order is kept: there are only the cuts to find, or nothing but the plan itself."""
        assert self.warm is not None
        assert self.warm.orders is not None
        self.phase = "classic schedules"
        rows = [row for row in self._classic_rows() if self._engine_runs(row)]
        self.phase = "bound"
        self.bound = self._bound()
        plans = self._warm_plans()
        if not self.keep.partition:
            plans += self._cut_anew(self.warm)
        if not plans:
            raise self._none_found()
        return min(plans, key=lambda plan: self.value(plan.timeline)), rows, self.bound

    def _cut_anew(self, warm: WarmStart) -> list[Scheduled]:
        """Return a given plan with the best cuts found for its ranks and orders, where they fit."""
        if warm.orders is None:
            return []
        self.phase = "cuts"
        found = cuts_for_order(
            self.profile, self.cluster, self.request, warm.assignment, warm.orders,
            work=self.budget.fixed_work, watch=self.watch, jobs=self.jobs,
        )  # fmt: skip
        if found is None:
            return []
        timeline = simulate(self._pipeline(found), warm.orders)
        return [Scheduled(found, timeline)] if timeline.fits else []  # beside what the engine keeps

    def _classic_rows(self, names: Collection[str] = ALL_NAMES, p2p: P2P | None = None) -> list[ClassicRow]:
        return classic_rows(
            self.whole_profile,
            self.cluster,
            self.request.num_microbatches,
            recompute=self.request.recompute,
            max_stages_per_rank=self.request.max_stages_per_rank,
            names=names,
            p2p=p2p,
            lengths=self.lengths,
        )

    def _bound(self) -> CertifiedBound:
        deadline = self.watch.deadline
        left = None if deadline is None else max(0.1, deadline - time.monotonic())
        request = self.request
        if request.engine == "torchtitan" and request.placement == "free":  # either way ranks open in their order
            request = msgspec.structs.replace(request, placement="cyclic")
        bound = lower_bound(
            self.profile,
            self.cluster,
            request,
            deterministic_time=self.budget.bound_time,
            time_limit_s=left,
            stop=self.watch.over,
        )
        return self.keep.tightened(bound, self.profile, self.cluster, self.request)

    def _pipeline(self, assignment: Assignment, order: tuple[int, ...] | None = None) -> Pipeline:
        """Return the pipeline of an assignment, what the engine itself keeps taken out of the memory limits.

        `order` is that of the micro-batches, where these differ.
        """
        lengths = self.lengths if self.lengths is None or order is None else self.lengths.ordered(order)
        number = self.request.num_microbatches
        return self._less_engine_memory(build_pipeline(self.profile, self.cluster, assignment, number, lengths=lengths))

    def _less_engine_memory(self, pipeline: Pipeline) -> Pipeline:
        if self.request.engine not in TORCH_ENGINES:
            return pipeline
        sizes = [stage.bytes for stage in pipeline.stages]
        kept = engine_memory(
            sizes, pipeline.rank_of, pipeline.num_ranks, pipeline.num_microbatches, self.request.engine
        )
        limits = (None if limit is None else limit - k for limit, k in zip(pipeline.limit_bytes, kept, strict=True))
        return dataclasses.replace(pipeline, limit_bytes=tuple(limits))

    def _beside_engine(self, row: ClassicRow) -> ClassicRow:
        """Return the row with its memory limits less what the engine keeps."""
        timeline = row.timeline
        pipeline = self._less_engine_memory(timeline.pipeline)
        return (
            row
            if pipeline is timeline.pipeline
            else dataclasses.replace(row, timeline=dataclasses.replace(timeline, pipeline=pipeline))
        )

    def _engine_runs(self, row: ClassicRow) -> bool:
        """Return whether the engine runs the row: torchtitan has a V of two stages a rank, PyTorch recomputes in B."""
        placed = self.request.engine != "torchtitan" or row.placement == "cyclic" or row.stages_per_rank == 2
        return placed and not (self.request.engine in TORCH_ENGINES and row.recompute and row.split)

    def _may_serve(self, row: ClassicRow) -> bool:
        """Return whether a classic schedule keeps what the request asks for."""
        placed = self.request.placement in ("free", row.placement)
        return row.fits and placed and not (self.request.backward == "fused" and row.split)

    def _serial_plans(self) -> list[Scheduled]:
        """Return plans that run one micro-batch after the other on the roomiest partitions, where they fit."""
        plans = []
        free = places_freely(self.request) or self.request.placement != "free"
        request = self.request if free else msgspec.structs.replace(self.request, placement="cyclic")
        for assignment in roomiest_assignments(self.profile, self.cluster, request):
            pipeline = self._pipeline(assignment)
            timeline = simulate(pipeline, serial_orders(pipeline))
            if timeline.fits:
                plans.append(Scheduled(assignment, timeline))
        return plans

    def _settled_plans(self, rows: list[ClassicRow]) -> list[Scheduled]:
        """Return the best partition found for the orders of 1F1B and interleaved 1F1B: what Megatron-LM would run.

        Every other engine can run it too, and under memory limits little else is as good at once.
        """
        if self.request.placement == "v" or self.lengths is not None:
            return []
        self.phase = "settled orders"
        known = [row.assignment for row in rows if row.placement == "cyclic"]
        search = FixedSearch(self.profile, self.cluster, self.request, self.watch, self.jobs, known)
        found = search.best(self.budget.fixed_work // SETTLED_PART)
        if found is None:
            return []
        assignment, timeline = found
        return [Scheduled(assignment, simulate(self._pipeline(assignment), timeline.orders))]

    def _warm_plans(self) -> list[Scheduled]:
        """Return the plan the search begins from, as it is on these inputs, where it holds."""
        if self.warm is None:
            return []
        assignment, engine = self.warm.assignment, self.request.engine
        p2p = engine_p2p(engine, assignment.num_stages // self.cluster.num_ranks, self.cluster.p2p)
        number = self.request.num_microbatches
        timeline = self.warm.timeline(self.profile, self.cluster, number, p2p, self.lengths)
        if timeline is None:
            return []
        timeline = dataclasses.replace(timeline, pipeline=self._less_engine_memory(timeline.pipeline))
        return [Scheduled(assignment, timeline)] if timeline.fits else []

    def _within(self, best: Scheduled, plans: list[Scheduled]) -> list[Scheduled]:
        """Return the plans as near to the best one as stability asks for: as fast, where it is not asked for."""
        return [plan for plan in plans if self.value(plan.timeline)[0] <= self._limit(best)]

    def _limit(self, best: Scheduled) -> int:
        return limit_ns(self.value(best.timeline)[0], self.request.stability_percent or 0)

    def _steadiness(self, plan: Scheduled) -> tuple[int, tuple[int, int]]:
        """Return what plans near the best one are compared by: layers moved against the old plan, then the value."""
        assert self.warm is not None
        return moved_layers(plan.assignment, self.warm.rank_of_layer), self.value(plan.timeline)

    def _steadier(self, tuner: Tuner, warm: WarmStart, best: Scheduled, found: list[Found]) -> Scheduled:
        """Return a plan near the best one that moves as few layers as one was found for."""
        self.phase = "stability"
        plans = self._within(best, [best, *self._warm_plans()])
        if min(map(self._steadiness, plans))[0]:
            steadier = Steadier(tuner, warm, self._limit(best), self.budget.first_work // 8, self._renumbers())
            plans += [self._scheduled(tuner, entry) for entry in steadier.plans(found)[:1]]
        steady = min(plans, key=self._steadiness)
        return best if steady is best else self._polished(steady, self.budget.polish_time)

    def _sturdiest(self, best: Scheduled, plans: list[Scheduled]) -> Scheduled:
        """Return the plan near the best one that bears errors of the profile best, where that is asked for.

        It has the least 95th percentile of the step time over a fixed set of draws.
        """
        percent = self.request.robust_noise_percent
        if percent is None:
            return best
        noise = Noise(self.given_profile, self.cluster, percent, SEARCH_DRAWS, self.request.seed)
        limit = limit_ns(self.value(best.timeline)[0], NEAR_PERCENT)
        near = [best, *(plan for plan in plans if self.value(plan.timeline)[0] <= limit)]
        return min(near, key=lambda plan: quantile(noise.step_times_ns(*plan), 95))

    def _robust(
        self, tuner: Tuner, sets: Sequence[LengthLists], best: Scheduled, plans: list[Scheduled], found: list[Found]
    ) -> Scheduled:
        """Return the plan that is best over many sets of lengths, each with its orders as they are."""
        search = RobustSearch(self.profile, self.cluster, self.request, sets, tuner)
        by_stages = {entry.assignment.num_stages: entry for entry in reversed(found)}
        begins = found[:ROBUST_STARTS] + [entry for entry in by_stages.values() if entry not in found[:ROBUST_STARTS]]
        given = [(plan.assignment, plan.timeline.orders) for plan in plans]
        work = self.budget.first_work + sum(work for _, _, work in self.budget.rounds)
        for sturdy in search.best(given, begins, work // 2):
            timeline = simulate(self._pipeline(sturdy.assignment), search.orders(sturdy))
            if timeline.fits:
                return Scheduled(sturdy.assignment, timeline)
        return best

    def _exactly(self, best: Scheduled) -> Scheduled:
        """Return the best plan of a small instance; the bound becomes what is proven of every plan."""
        reached, bound = self.value(best.timeline)[0], self.bound
        bare = self.warm is None and self.lengths is None and self.sets is None
        if bound is None or not bare or reached <= bound.step_time_ns:
            return best
        if not is_small(self.profile, self.cluster, self.request):
            return best
        self.phase = "small instance"
        left = math.inf if self.watch.deadline is None else self.watch.deadline - time.monotonic()
        found = best_plan(
            self.profile, self.cluster, self.request,
            least_ns=bound.step_time_ns, most_ns=reached - 1,
            alike=_interchangeable(self.cluster), deterministic_time=self.budget.bound_time / EXACT_PART,
            time_limit_s=left, stop=self.watch.over,
        )  # fmt: skip
        if found.bound_ns > bound.step_time_ns:
            status = "optimal" if found.optimal else "bounded"
            self.bound = dataclasses.replace(bound, step_time_ns=found.bound_ns, status=status, argument="exact")
        if found.plan is None:
            return best
        assignment, timeline = found.plan
        if not self._renumbers():
            return Scheduled(assignment, timeline)
        assignment, orders = self._renumbered(assignment, timeline.orders)
        return Scheduled(assignment, simulate(self._pipeline(assignment), orders))

    def _renumbers(self) -> bool:
        """Return whether ranks may be numbered anew."""
        return places_freely(self.request) and not self.keep.placement and _interchangeable(self.cluster)

    def _tune(self, tuner: Tuner, plans: list[Scheduled], pending: Future[CertifiedBound] | None) -> list[Found]:
        """Return the best partitions the tuner found, the best first."""
        budget = self.budget
        if plans:
            self.watch.best = min(self.value(plan.timeline)[0] for plan in plans)
        self.phase = "starts"
        found = self._begin(tuner, plans)
        self.phase = "cuts"
        found = _best(found + self._better_cuts(tuner, found[: budget.rounds[0][0]]))
        self.phase = "tuning, round 1"
        if tuner.limited or not _interchangeable(self.cluster):
            found = found[:FIRST_ROUND]
        found = _best(tuner.round(found, 1, budget.first_work, FIRST_HEAT, 0))
        for number, (keep, runs, work) in enumerate(budget.rounds, 2):
            if number == len(budget.rounds) + 1:  # only now, so that the bound has been found beside the tuning
                self.phase = "bound"
                self.bound = pending.result() if pending is not None else self._bound()
                if tuner.long:
                    found = _best(tuner.lengthened(found[: max(keep, LENGTHENED)], work // 4))
            self.phase = f"tuning, round {number}"
            heat = FIRST_HEAT * 3 / (2 + number)
            found = _best(found[keep:] + tuner.round(found[:keep], runs, work, heat, self.floor or 0))
        self.phase = "reordering"
        return _best(found[2:] + tuner.reorder(found[:2], budget.reorder_work, LAST_HEAT, self.floor or 0))

    def _begin(self, tuner: Tuner, plans: list[Scheduled]) -> list[Found]:
        """Return a first schedule of every start: each family and number of stages, and the plans there are."""
        # Which of unlike ranks comes first along the model matters, and is too far away for single moves.
        free = places_freely(self.request) and not _interchangeable(self.cluster)
        orders = promising(self.cluster) if free else None
        begins = starts(tuner.tables, self.request, self.request.recompute == "full", orders)
        if tuner.limited and self.request.recompute == "auto":
            begins += starts(tuner.tables, self.request, True, orders)
        assignments = [start.assignment for start in begins if self.keep.admits(start.assignment)]
        assignments += self.keep.starts(tuner.tables, self.cluster.num_ranks, self.request)
        alike = _interchangeable(self.cluster)
        if tuner.long or tuner.limited or not alike:
            work = self.budget.blind_work if tuner.long or not alike else self.budget.blind_work // ALIKE_PART
            evened = tuner.balanced(assignments, work, BLIND_HEAT)
            assignments += [assignment for assignment in evened if self.keep.admits(assignment)]
        fused: list[tuple[bool, ...] | None] = [None] * len(assignments)
        for plan in plans:
            assignments.append(plan.assignment)
            fused.append(tuple(_fused(plan.timeline, stage) for stage in range(plan.assignment.num_stages)))
        if self.warm is not None and self.warm.assignment not in assignments:
            assignments.append(self.warm.assignment)
            fused.append(self.warm.fused)
        return _best(tuner.first_look(assignments, fused, self.budget.first_work))

    def _better_cuts(self, tuner: Tuner, found: list[Found]) -> list[Found]:
        """Return the best entries' rank sequences with the cuts CP-SAT gives them."""

        def cut(entry: Found) -> Assignment | None:
            again = all(entry.assignment.recompute)
            cuts = balanced_cuts(
                self.profile,
                self.cluster,
                self.request,
                entry.assignment.ranks,
                deterministic_time=self.budget.cuts_time,
                hint=entry.assignment.cuts,
                recompute=again,
                stop=self.watch.over,
            )
            if cuts is None:
                return None
            return Assignment(cuts, entry.assignment.ranks, (again,) * entry.assignment.num_stages)

        with ThreadPoolExecutor(self.jobs) as pool:
            made = list(pool.map(lambda entry: None if self.watch.over() else cut(entry), found))
        assignments = [assignment for assignment in made if assignment is not None]
        return tuner.first_look(assignments, [None] * len(assignments), self.budget.first_work)

    def _scheduled(self, tuner: Tuner, found: Found) -> Scheduled:
        """Return a partition's plan, exactly as the simulator has it."""
        assignment, orders = found.assignment, tuner.orders(found)
        if self._renumbers():
            assignment, orders = self._renumbered(assignment, orders)
        timeline = simulate(self._pipeline(assignment, found.order), orders)
        assert timeline.fits, "the list scheduler left a rank's memory"
        if self.request.backward == "split":
            timeline = fuse_neighbours(timeline, self.value)
        return Scheduled(assignment, timeline)

    def _renumbered(self, assignment: Assignment, orders: Orders) -> tuple[Assignment, Orders]:
        """Return the same plan, interchangeable ranks numbered as in the old plan, or as the model first meets them."""
        if self.warm is None:
            labels = _in_order_of_appearance(assignment)
        else:
            labels = labels_as_before(assignment, self.warm.rank_of_layer, self.cluster.num_ranks)
        rank_with = sorted(range(len(labels)), key=lambda rank: labels[rank])
        return relabelled(assignment, labels), tuple(orders[rank] for rank in rank_with)

    def _all_polished(self, plans: list[Scheduled], deterministic_time: float) -> list[Scheduled]:
        """Return plans with better orders where CP-SAT finds some, the best first."""
        with ThreadPoolExecutor(self.jobs) as pool:
            polished = list(pool.map(lambda plan: self._polished(plan, deterministic_time), plans))
        return sorted(polished, key=lambda plan: self.value(plan.timeline))

    def _polished(self, plan: Scheduled, deterministic_time: float) -> Scheduled:
        """Return a plan with a better order where CP-SAT finds one."""
        timeline = polish(
            plan.timeline,
            objective=self.request.objective,
            floor_ns=self.floor or 0,
            deterministic_time=deterministic_time,
            deadline=self.watch.deadline,
            stop=self.watch.stop.is_set,
        )
        self.watch.best = min(self.watch.best, self.value(timeline)[0])
        return Scheduled(plan.assignment, timeline)

    def _none_found(self) -> LimitError:
        if not self.cluster.limited:
            return LimitError(
                "no plan was found that keeps the profile's rules and the request",
                remedy="allow more stages a rank, free placement, or more effort (--effort thorough)",
            )
        return LimitError(
            "no plan was found that fits, though none is proven impossible",
            remedy="allow recomputation (--recompute auto), more effort (--effort thorough), more memory or more ranks",
        )

    def stopped_by(self, value: int) -> str:
        """Return what ended the search: ``interrupt``, ``time limit``, ``bound`` or ``effort``."""
        if self.watch.stop.is_set():
            return "interrupt"
        if self.watch.deadline is not None and time.monotonic() > self.watch.deadline:
            return "time limit"
        return "bound" if value == self.floor else "effort"

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Tell the observer where the search stands, five times a second."""
        if self.observer is None:
            yield
            return
        done = threading.Event()
        observer = self.observer

        def tell() -> None:
            while not done.wait(0.2):
                observer(self._progress())

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        try:
            yield
        finally:
            done.set()
            teller.join()
            observer(self._progress())

    def _progress(self) -> Progress:
        best = self.watch.best if self.watch.best < NEVER else None
        return Progress(self.phase, best, self.floor, self.watch.candidates, time.monotonic() - self.began)


def _best(found: list[Found]) -> list[Found]:
    """Return entries that have a schedule, the best first, each assignment once."""
    seen = set()
    kept = []
    for entry in sorted((e for e in found if e.value < NEVER), key=lambda entry: entry.value):
        if entry.assignment not in seen:
            seen.add(entry.assignment)
            kept.append(entry)
    return kept


def _interchangeable(cluster: Cluster) -> bool:
    """Return whether all ranks, and all links between them, are alike."""
    first = cluster.members[0]
    alike = all(member._replace(number=0, node=first.node) == first for member in cluster.members)
    one_node = all(member.node == first.node for member in cluster.members)
    links = cluster.links
    return alike and not links.pairs and (one_node or links.within_node == links.between_nodes)


def _in_order_of_appearance(assignment: Assignment) -> list[int]:
    """Return a number for each rank, in the order in which the model first meets them: easier to read."""
    order = list(dict.fromkeys(assignment.ranks))
    return [order.index(rank) for rank in range(len(order))]


def _fused(timeline: Timeline, stage: int) -> bool:
    rank = timeline.pipeline.rank_of[stage]
    return any(action.kind == "B" for action in timeline.orders[rank] if action.stage == stage)
