"""Going through a sweep: each point planned from the plan before it, verified, kept, shown."""

from __future__ import annotations

import json
import os
from decimal import Decimal
from itertools import count
from pathlib import Path

import msgspec
import typer

from octopipe_cli.classic import classic_rows
from octopipe_cli.cli.inputs import check_inputs
from octopipe_cli.cli.output import emit, emit_json, note, save, warn
from octopipe_cli.cli.searching import Interrupted, cores, search
from octopipe_cli.cluster import Cluster
from octopipe_cli.errors import EXIT_INFEASIBLE, EXIT_INTERRUPTED, EXIT_LIMIT, InfeasibleError, InputError, LimitError
from octopipe_cli.formats import Loaded
from octopipe_cli.named import miscounted, read_cluster, read_profile
from octopipe_cli.plan import Plan, Request, plan_document, plan_from_document, plan_text
from octopipe_cli.sweep.inputs import cluster_at, cluster_document, request_at
from octopipe_cli.sweep.points import Point, best_classic, sweep_csv, sweep_document, tokens_of, with_pareto
from octopipe_cli.sweep.quantities import Quantity
from octopipe_cli.sweep.reuse import step_time_there
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
        self.profile, self.cluster = read_profile(profile_file), read_cluster(cluster_file)
        if (said := miscounted(self.profile.value, self.cluster)) is not None:
            warn(said)
        self.request, self.quantity = request, quantity
        # Before the first search: what is wrong with any of the values.
        self.inputs = [(v, cluster_at(self.cluster, quantity, v), request_at(request, quantity, v)) for v in values]
        self.jobs = jobs or cores()
        self.folder = None if folder is None else _made(folder)
        self.points: list[Point] = []
        self.interrupted = False

    def run(self) -> None:
        """Plan all points, from the least value to the largest; Ctrl-C leaves those there are."""
        start: Loaded[Plan] | None = None
        for at in range(len(self.inputs)):
            if not self._plan(at, start):
                break
            start = self._plan_of(at) or start
        if self.quantity.helps and not self.interrupted:
            self._even_out()
            self._check_no_slower()
        self.points = with_pareto(self.points)

    def _even_out(self) -> None:
        """Plan points again that a neighbour's plan would serve better: larger values first, then smaller ones.

        A plan found with more may hold with less: not all of what was allowed need be used.
        """
        for at in reversed(range(len(self.points) - 1)):
            if self._serves_better(at + 1, at) and not self._plan(at, self._plan_of(at + 1)):
                return
        for at in range(1, len(self.points)):
            if self._serves_better(at - 1, at) and not self._plan(at, self._plan_of(at - 1)):
                return

    def _serves_better(self, source: int, at: int) -> bool:
        """Return whether the plan of one point, on the inputs of another, holds and is faster than the one there."""
        plan, there = self.points[source].plan, self.points[at].step_time_ns
        _, cluster, request = self.inputs[at]
        step = None if plan is None else step_time_there(plan, self.profile.value, cluster.value, request)
        return step is not None and (there is None or step < there)

    def _plan_of(self, at: int) -> Loaded[Plan] | None:
        """Return the plan of a point as if read from its file."""
        plan = self.points[at].plan
        return None if plan is None else plan_from_document(plan_document(plan), f"the plan of {self._name(at)}")

    def _plan(self, at: int, start: Loaded[Plan] | None) -> bool:
        """Plan a point, or plan it again; return whether to go on."""
        point = self._point(*self.inputs[at], start)
        if point is None:
            self.interrupted = True
            return False
        again = at < len(self.points)
        if again:
            self.points[at] = point
        else:
            self.points.append(point)
        self._keep(at, again)
        self._tell(at, again)
        return not self.interrupted

    def _point(
        self, value: Decimal, cluster: Loaded[Cluster], request: Request, start: Loaded[Plan] | None
    ) -> Point | None:
        """Return a point; None where Ctrl-C came before there was a plan."""
        warm = start if self.quantity.same_shape else None
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
        return Point(value, number, "planned", plan=found, classic=best_classic(rows))

    def _check_no_slower(self) -> None:
        """Assert that more of what helps makes no plan slower: the plan before it holds there too.

        Where links are faster tensors arrive earlier, and under a memory limit an old order need not fit any more.
        """
        for at in range(1, len(self.points)):
            before, here = self.points[at - 1].step_time_ns, self.points[at].step_time_ns
            if before is None or (here is not None and here <= before):
                continue
            assert not self._serves_better(at - 1, at), "a plan was not taken over by the next point"
            warn(f"{self._name(at)}: the faster plan before it does not fit, as its tensors arrive earlier")

    def _keep(self, at: int, again: bool) -> None:
        """Write a point's plan; the one it replaces stays beside it, as other plans began from that."""
        plan = self.points[at].plan
        if self.folder is None or plan is None:
            return
        value, cluster, _ = self.inputs[at]
        stem = self.folder / self.quantity.file_stem(value)
        file = Path(f"{stem}.plan.json")
        if again and file.exists():
            number = next(n for n in count(1) if not Path(f"{stem}.start-{n}.plan.json").exists())
            file.replace(f"{stem}.start-{number}.plan.json")
        save(str(file), plan_text(plan))
        if cluster is not self.cluster:
            text = json.dumps(cluster_document(cluster.value), indent=2, ensure_ascii=False)
            save(f"{stem}.cluster.json", text + "\n")

    def _name(self, at: int) -> str:
        return f"{self.quantity.name} {self.quantity.text(self.inputs[at][0])}"

    def _tell(self, at: int, again: bool) -> None:
        point = self.points[at]
        said = f"{point.status}: {point.message}"
        if point.plan is not None:
            step, bound = point.plan.predicted.step_time_ns, point.plan.bound.step_time_ns
            said = f"{time_text(step)}, {percent_text(step - bound, bound, 2)} % above the bound"
        number = "again" if again else f"{at + 1}/{len(self.inputs)}"
        note(f"octopipe: {number} {self._name(at)}: {said}")

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
        raise InputError(
            f"cannot make the folder: {error.strerror or error}", file=folder, remedy="name another folder with -o"
        ) from None
    return Path(folder)
