"""A vision-language model with 0 to 8 images a micro-batch: octopipe's plan against the usual places of its encoder.

``python -m tests.benchmarks.vision [--effort EFFORT] [--ranks P] [--microbatches M]``: the shipped profile of Gemma 3
27B; 32 steps of micro-batches, 0 to 8 images in each (fixed seed). Plans are made for the even-numbered steps and for
equal ones, times are those of the odd-numbered steps. The rivals, each as octopipe's own search for the same steps, for
equal micro-batches, and the best classic schedule make it:

- *first rank*: the encoder and the projector in one stage of the first rank, text layers beside it;
- *own rank*: a rank for encoder and projector alone; for equal micro-batches and classic schedules it runs ahead of the
  best plan for the text on the others, for many steps all is searched together (`_apart`).
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from typing import Any

from octopipe_cli.classic import classic_rows
from octopipe_cli.cluster import Cluster, cluster_from_document
from octopipe_cli.formats import Document, Loaded, digest
from octopipe_cli.length_sets import LengthLists, SetTimes, found_with, reported, set_times
from octopipe_cli.pipeline import Assignment, assignment_of
from octopipe_cli.plan import Action, Orders, Plan, Request, Robust
from octopipe_cli.profile import Profile, load_profile, profile_document, profile_from_document
from octopipe_cli.replay import replay
from octopipe_cli.search import make_plan
from tests import documents
from tests.benchmarks.tables import print_table

SEED, SETS, MOST_IMAGES = 7, 32, 8
#: Hardware of all ranks, the name of that of an encoder's own, and how many times slower a search sees what it must not
#: put there.
HARDWARE, OWN, SLOWER = "h100-sxm", "encoder", 4
Case = tuple[Assignment, Orders]


def image_sets(number: int, seed: int = SEED) -> list[LengthLists]:
    """Return the steps: how many images each micro-batch has."""
    rng = random.Random(seed)
    return [{"vision": [float(rng.randint(0, MOST_IMAGES)) for _ in range(number)]} for _ in range(SETS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--effort", choices=("quick", "standard", "thorough"), default="standard")
    parser.add_argument("--robust", choices=("mean", "p95", "worst"), default="mean")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    bench = Bench(options.ranks, options.microbatches, options.effort, options.jobs)
    rows = []
    for name, case in bench.cases(options.robust):
        times = bench.times(case)
        rows.append((name, *(f"{ns / 1e6:.1f}" for ns in (times.mean_ns, times.p95_ns, times.worst_ns)), times.mean_ns))
        print(f"{time.process_time():.0f} s: {name}", flush=True)
    ours = rows[0][-1]
    print(f"gemma-3-27b, {options.ranks} ranks, {options.microbatches} micro-batches, effort {options.effort}; ms")
    heads = ("plan", "mean", "p95", "worst", "mean to ours %")
    print_table(heads, [(*row[:-1], f"{100 * (row[-1] / ours - 1):+.1f}") for row in rows])


class Bench:
    """The profile, as it is and with the encoder in a fixed place, and what searches it."""

    def __init__(self, ranks: int, microbatches: int, effort: Any, jobs: int) -> None:
        self.effort, self.jobs, self.number = effort, jobs, microbatches
        self.profile = load_profile(str(documents.MODELS / "gemma-3-27b.json"))
        self.ahead = sum(kind.startswith(("vision", "projector")) for kind in self.profile.value.layer_kinds)
        self.cluster = loaded_cluster(ranks)
        self.sets = image_sets(microbatches)

    def cases(self, robust: Robust) -> list[tuple[str, Case]]:
        """Return the plans to compare, ours first."""
        together = self._changed("one stage", {"no_cut_after": list(range(self.ahead - 1))})
        text, fewer = self._text(), loaded_cluster(self.cluster.value.num_ranks - 1)
        found = [
            (f"octopipe, --robust {robust}", self._plan(self.profile, self.cluster, robust)),
            ("octopipe, one image each", self._plan(self.profile, self.cluster)),
            (f"first rank, --robust {robust}", self._plan(together, self.cluster, robust)),
            (f"own rank, --robust {robust}", self._alone(robust)),
            ("first rank, octopipe", self._plan(together, self.cluster)),
            ("own rank, octopipe", self._with_encoder(self._plan(text, fewer))),
        ]
        found += self._best_classic("first rank, ", self._classic(together, self.cluster))
        own = [(name, self._with_encoder(case)) for name, case in self._classic(text, fewer)]
        return found + self._best_classic("own rank, ", own)

    def times(self, case: Case) -> SetTimes:
        """Return what a plan costs over the steps that it was not made for."""
        return set_times(self.profile.value, self.cluster.value, *case, reported(self.sets))

    def _best_classic(self, where: str, cases: Sequence[tuple[str, Case]]) -> list[tuple[str, Case]]:
        """Return the best of classic schedules by the steps to choose by."""
        sets = found_with(self.sets)

        def mean(named: tuple[str, Case]) -> int:
            return set_times(self.profile.value, self.cluster.value, *named[1], sets).mean_ns

        name, case = min(cases, key=mean)
        return [(where + name, case)]

    def _classic(self, profile: Loaded[Profile], cluster: Loaded[Cluster]) -> list[tuple[str, Case]]:
        rows = classic_rows(profile.value, cluster.value, self.number, recompute="none")
        return [(f"{row.schedule} {row.partition}", (row.assignment, row.orders)) for row in rows]

    def _plan(self, profile: Loaded[Profile], cluster: Loaded[Cluster], robust: Robust | None = None) -> Case:
        """Return a plan for equal micro-batches, or for the steps that plans are found with."""
        request = Request(num_microbatches=self.number, effort=self.effort)
        if robust is not None:
            spoken_of = digest({"lengths": [dict(lists) for lists in self.sets]})
            request = Request(num_microbatches=self.number, effort=self.effort, robust=robust, lengths_digest=spoken_of)
        plan: Plan = make_plan(
            profile, cluster, request, jobs=self.jobs, sets=self.sets if robust is not None else None
        )
        return assignment_of(plan), replay(plan, "plan", None).orders

    def _changed(self, name: str, rules: dict[str, Any]) -> Loaded[Profile]:
        document = dict(profile_document(self.profile.value))
        document["rules"] = {**document.get("rules", {}), **rules}
        return loaded_profile(document, name)

    def _text(self) -> Loaded[Profile]:
        """Return the language model by itself."""
        document = dict(profile_document(self.profile.value))
        document["layers"] = list(self.profile.value.layer_kinds[self.ahead :])
        used = set(document["layers"])
        document["kinds"] = {name: kind for name, kind in document["kinds"].items() if name in used}
        tied = self.profile.value.rules.tied
        document["rules"] = {"tied": [[layer - self.ahead for layer in group] for group in tied]}
        return loaded_profile(document, "text")

    def _alone(self, robust: Robust) -> Case:
        """Return the robust plan found where every layer but the encoder's is slow on rank 0, and those elsewhere."""
        document = dict(profile_document(self.profile.value))
        document["kinds"] = {name: _slow_elsewhere(kind) for name, kind in document["kinds"].items()}
        document["rules"] = {**document["rules"], "no_cut_after": list(range(self.ahead - 1))}
        case = self._plan(loaded_profile(document, "apart"), loaded_cluster(self.cluster.value.num_ranks, OWN), robust)
        assignment = case[0]
        where = [rank for rank, cut in zip(assignment.ranks, assignment.cuts, strict=False) if cut < self.ahead]
        assert where == [0], "the encoder is not in one stage of rank 0"
        assert assignment.ranks.count(0) == 1, "rank 0 has other layers too"
        return case

    def _with_encoder(self, case: Case) -> Case:
        """Return a plan for the text with a rank ahead that holds the encoder: F first, backward as it comes."""
        text, orders = case
        cuts = (0, *(cut + self.ahead for cut in text.cuts))
        assignment = Assignment(cuts, (0, *(rank + 1 for rank in text.ranks)), (False, *text.recompute))
        back = [
            action.microbatch for actions in orders for action in actions if action.stage == 0 and action.kind in "IB"
        ]
        encoder = [Action(0, "F", microbatch) for microbatch in range(self.number)]
        encoder += [Action(0, "B", microbatch) for microbatch in back]
        moved = [tuple(Action(a.stage + 1, a.kind, a.microbatch) for a in actions) for actions in orders]
        return assignment, (tuple(encoder), *moved)


def loaded_profile(document: Document, name: str) -> Loaded[Profile]:
    """Return a profile of a document."""
    return Loaded(profile_from_document(document, name), name, digest(document))


def _slow_elsewhere(kind: dict[str, Any]) -> dict[str, Any]:
    """Return a kind with times for the encoder's own rank, where only it is fast, and for the others."""
    times = kind["times"][HARDWARE]
    slow = {name: value * SLOWER if name != "step_ms" else value for name, value in times.items()}
    of_encoder = kind.get("modality") == "vision"
    return kind | {"times": {OWN: times if of_encoder else slow, HARDWARE: slow if of_encoder else times}}


def loaded_cluster(ranks: int, first: str = HARDWARE) -> Loaded[Cluster]:
    """Return ranks of four H100 each, two a node, memory unlimited, 50 GB/s a device between nodes."""
    names = [first] + [HARDWARE] * (ranks - 1)
    group = [{"count": 1, "hardware": name, "memory_gib": None, "node": rank // 2} for rank, name in enumerate(names)]
    document: Document = {
        "schema": "octopipe.cluster",
        "version": 1,
        "name": f"h100-{ranks}",
        "ranks": group,
        "links": {
            "within_node": {"bandwidth_gb_per_s": 450, "latency_us": 5},
            "between_nodes": {"bandwidth_gb_per_s": 50, "latency_us": 10},
        },
    }
    return Loaded(cluster_from_document(document, "cluster"), "cluster", digest(document))


if __name__ == "__main__":
    main()
