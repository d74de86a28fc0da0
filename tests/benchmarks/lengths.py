"""Plans for many sets of lengths against classic schedules and the plan for equal ones.

``python -m tests.benchmarks.lengths [--effort EFFORT] [--robust p95]``: two models, P 4, M 16, attention's quadratic
share 0.4, 64 sets of log-normal lengths (sigma 0.6, mean 1).
"""

from __future__ import annotations

import argparse
import json
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.tables import print_table
from tests.documents import MODELS as FOLDER

MODELS = ("nemotron-nano-9b-v2", "llama3-8b")
RANKS, MICROBATCHES, SETS, SIGMA, SEED, SHARE = 4, 16, 64, 0.6, 7, 0.4


def length_sets(seed: int = SEED) -> list[dict[str, list[float]]]:
    """Return the sets: log-normal, of mean 1."""
    rng = random.Random(seed)
    mu = -SIGMA * SIGMA / 2
    return [{"text": [round(math.exp(rng.gauss(mu, SIGMA)), 4) for _ in range(MICROBATCHES)]} for _ in range(SETS)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--effort", default="standard")
    parser.add_argument("--robust", default="p95")
    parser.add_argument("profiles", nargs="*", help="profiles with kinds named attention, in place of the two models")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="lengths-"))
    (folder / "sets.jsonl").write_text("\n".join(map(json.dumps, length_sets())) + "\n")
    for profile in options.profiles or [FOLDER / f"{name}.json" for name in MODELS]:
        print_table(*compared(folder, Path(profile), options.effort, options.robust))


def with_share(profile: dict[str, object]) -> dict[str, object]:
    """Return a profile whose attention layers have a quadratic share."""
    kinds: dict[str, dict[str, object]] = profile["kinds"]  # type: ignore[assignment]
    for name, kind in kinds.items():
        if any(word in name for word in ("attention", "attn", "transformer")) or name in ("T", "A"):
            kind["quadratic_share"] = SHARE
    return profile


def compared(folder: Path, file: Path, effort: str, robust: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the table of one model."""
    profile = with_share(json.loads(file.read_text()))
    hardware = next(iter(next(iter(profile["kinds"].values()))["times"]))  # type: ignore[attr-defined]
    group = {"count": RANKS, "hardware": hardware, "memory_gib": None}
    cluster = {"schema": "octopipe.cluster", "version": 1, "name": "four", "ranks": [group]}
    (folder / "profile.json").write_text(json.dumps(profile))
    (folder / "cluster.json").write_text(json.dumps(cluster))
    common = ["profile.json", "cluster.json", "-m", str(MICROBATCHES)]
    plan = ["--no-gantt", "--effort", effort]
    octopipe(folder, "plan", *common, *plan, "-o", "equal.plan.json")
    octopipe(folder, "plan", *common, *plan, "--lengths", "sets.jsonl", "--robust", robust, "-o", "robust.plan.json")
    plans = ["--plan", "equal.plan.json", "--plan", "robust.plan.json"]
    text = octopipe(folder, "compare", *common, "--lengths", "sets.jsonl", *plans, "--format", "json")
    rows = []
    for row in json.loads(text)["rows"]:
        figures = (f"{row[key] / 1e6:.2f}" for key in ("mean_ns", "p95_ns", "worst_ns"))
        rows.append((row["schedule"], row["partition"], *figures))
    return (file.stem, "partition", "mean ms", "p95", "worst"), rows


def octopipe(folder: Path, *arguments: str) -> str:
    """Return what a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "octopipe_cli", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


if __name__ == "__main__":
    main()
