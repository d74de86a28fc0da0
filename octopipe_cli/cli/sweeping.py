"""Going through a sweep: each point planned from the plan before it, verified, kept, shown."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from pathlib import Path

import msgspec
import typer

from octopipe_cli.classic import classic_rows
from octopipe_cli.cli.inputs import check_inputs
from octopipe_cli.cli.output import emit, emit_json, note, save, warn
from octopipe_cli.cli.searching import Interrupted, cores, search
from octopipe_cli.cluster import Cluster, load_cluster
from octopipe_cli.errors import EXIT_INFEASIBLE, EXIT_INTERRUPTED, EXIT_LIMIT, InfeasibleError, InputError, LimitError
from octopipe_cli.formats import Loaded
from octopipe_cli.plan import Plan, Request, plan_document, plan_from_document, plan_text
from octopipe_cli.profile import load_profile
from octopipe_cli.sweep.inputs import cluster_at, cluster_document, request_at
from octopipe_cli.sweep.points import Point, best_classic, sweep_csv, sweep_document, tokens_of, with_pareto
from octopipe_cli.sweep.quantities import BANDWIDTH, Quantity
from octopipe_cli.words import percent_text, time_text


class Sweep:
    """One sweep; `run` fills `points`.

    Parameters
    ----------
    quantity, values
        What is swept; ascending.
    folder
        Where plans are kept, None where they are not.
    """

    def __init__(
        self,
        profile_file: str,
        cluster_file: str,
        request: Request,
        quantity: Quantity,
        values: list[Decimal],
        jobs: int | None,
        folder: str | None,
    ) -> None:
        self.profile, self.cluster = load_profile(profile_file), load_cluster(cluster_file)
        self.request, self.quantity = request, quantity
        # Before the first search: what is wrong with any of the values.
        self.inputs = [(v, cluster_at(self.cluster, quantity, v), request_at(request, quantity, v)) for v in values]
        self.jobs = jobs or cores()
        self.folder = None if folder is None else _made(folder)
        self.points: list[Point] = []
        self.interrupted = False

    def run(self) -> None:
        """Plan all points, from the least value to the largest; Ctrl-C leaves those there are."""
        before: Loaded[Plan] | None = None
        for value, cluster, request in self.inputs:
            point = self._point(value, cluster, request, before)
            if point is None:
                self.interrupted = True
                break
            self.points.append(point)
            if point.plan is not None:
                self._check_no_slower(before, point.plan, cluster)
                before = plan_from_document(plan_document(point.plan), f"the plan of {self._name(value)}")
            self._tell(point)
            if self.interrupted:
                break
        self.points = with_pareto(self.points)

    def _point(
        self, value: Decimal, cluster: Loaded[Cluster], request: Request, before: Loaded[Plan] | None
    ) -> Point | None:
        """Return a point; None where Ctrl-C came before there was a plan."""
        warm = before if self.quantity.same_shape else None
        request = msgspec.structs.replace(request, warm_start=None if warm is None else warm.digest)
        number = request.num_microbatches
        try:
            check_inputs(self.profile, cluster, number)
            found, self.interrupted = search(self.profile, cluster, request, self.jobs, None, warm)
        except Interrupted:
            return None
        except InfeasibleError as error:
            return Point(value, number, "infeasible", error.message)
        except LimitError as error:
            return Point(value, number, "no plan", error.message)
        most = request.max_stages_per_rank
        rows = classic_rows(
            self.profile.value, cluster.value, number, recompute=request.recompute, max_stages_per_rank=most
        )
        self._keep(value, cluster, found)
        return Point(value, number, "planned", plan=found, classic=best_classic(rows))

    def _check_no_slower(self, before: Loaded[Plan] | None, plan: Plan, cluster: Loaded[Cluster]) -> None:
        """Assert that more of what helps does not make the plan slower: the plan before it is one for this point too.

        Where links are faster tensors arrive earlier, and under a memory limit an old order need not fit any more.
        """
        if before is None or not self.quantity.helps:
            return
        limited = any(member.memory_limit_bytes is not None for member in cluster.value.members)
        slower = plan.predicted.step_time_ns > before.value.predicted.step_time_ns
        if slower and self.quantity is BANDWIDTH and limited:
            warn(
                f"slower than {before.file}: that one does not fit here, its tensors arrive earlier and are held longer"
            )
            return
        assert not slower, f"{before.file} is faster than the one after it, which it holds for"

    def _keep(self, value: Decimal, cluster: Loaded[Cluster], plan: Plan) -> None:
        if self.folder is None:
            return
        stem = self.folder / self.quantity.file_stem(value)
        save(f"{stem}.plan.json", plan_text(plan))
        if cluster is not self.cluster:
            save(
                f"{stem}.cluster.json", json.dumps(cluster_document(cluster.value), indent=2, ensure_ascii=False) + "\n"
            )

    def _name(self, value: Decimal) -> str:
        return f"{self.quantity.name} {self.quantity.text(value)}"

    def _tell(self, point: Point) -> None:
        said = f"{point.status}: {point.message}"
        if point.plan is not None:
            step, bound = point.plan.predicted.step_time_ns, point.plan.bound.step_time_ns
            said = f"{time_text(step)}, {percent_text(step - bound, bound, 2)} % above the bound"
        note(f"octopipe: {len(self.points)}/{len(self.inputs)} {self._name(point.value)}: {said}")

    def show(self, format: str, with_plot: bool, svg: str | None) -> None:
        """Print the points, and write the picture where one is asked for."""
        from octopipe_cli.sweep.chart import sweep_chart

        tokens = tokens_of(self.profile.value.training)
        document = sweep_document(self.quantity, self.points, tokens)
        chart = sweep_chart(self.quantity, self.points)
        if svg is not None:
            from octopipe_cli.export.svg_plot import svg_plot

            save(svg, svg_plot(chart, self._title()))
        if format == "json":
            emit_json(document)
        elif format == "csv":
            emit(sweep_csv(document, tokens))
        else:
            from octopipe_cli.render.console import glyphs_of, make_console, rendered
            from octopipe_cli.render.plot import plot
            from octopipe_cli.render.sweep import sweep_table

            console = make_console()
            glyphs, width = glyphs_of(console), console.width
            texts = [sweep_table(document, glyphs, width)]
            texts += [plot(chart, width, glyphs)] if with_plot and chart.main.points else []
            emit(rendered(console, *texts))

    def _title(self) -> str:
        number = "" if self.quantity.name == "microbatches" else f", {self.request.num_microbatches} micro-batches"
        return f"{self.profile.value.name} on {self.cluster.value.name}{number}"

    def leave(self) -> None:
        """End the process where there is something to report: interrupted, or no point with a plan."""
        if self.interrupted:
            warn("interrupted: these are the points so far")
            raise typer.Exit(EXIT_INTERRUPTED)
        if not any(point.plan for point in self.points):
            proven = all(point.status == "infeasible" for point in self.points)
            raise typer.Exit(EXIT_INFEASIBLE if proven else EXIT_LIMIT)


def _made(folder: str) -> Path:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder: {error.strerror or error}", file=folder) from None
    return Path(folder)
