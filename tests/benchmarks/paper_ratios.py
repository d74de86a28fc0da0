"""Estimated times against the paper's profiles, relative to the MLP's: ``python -m tests.benchmarks.paper_ratios``.

The profiles (fits published with the paper's simulator) name neither device nor lengths. One setting for all: H100,
4096 positions, micro-batch 1, no tensor parallelism; there Nemotron-Nano-9B-v2 comes within 15 % of their
milliseconds too, attention's forward apart. Ratios of F, and of I + W, which the fits tell apart badly.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from octopipe_cli.profiling.configs.families import architecture_of, load_config
from octopipe_cli.profiling.estimate import estimate
from octopipe_cli.profiling.hardware import load_hardware
from octopipe_cli.profiling.setting import Setting

REFERENCE = Path(__file__).parents[3] / "shared/reference"
HARDWARE = "h100-sxm"
SETTING = Setting(4096, 1)
#: The paper's name of a model and its config; those whose profile has an MLP and whose config is known.
MODELS = {
    "nemotron-nano-v2-9B": "nemotron-nano-9b-v2",
    "nemotron-h-4B": "nemotron-h-4b",
    "nemotron-h-47B": "nemotron-h-47b",
    "jamba-52B": "jamba-v0.1",
}
KINDS = {"*": "attention", "M": "mamba", "#": "moe", "L": "head"}


class Ratio(NamedTuple):
    """A kind's time over the MLP's: estimated, and in the paper."""

    estimated: float
    paper: float

    @property
    def error(self) -> float:
        """Relative error."""
        return self.estimated / self.paper - 1


def ratios() -> dict[tuple[str, str, str], Ratio]:
    """Return the ratios by model, kind and pass (``F``, ``I+W``)."""
    published = json.loads((REFERENCE / "paper_profiles.json").read_text())["profiles"]
    found = {}
    for model, config in MODELS.items():
        architecture = architecture_of(load_config(str(REFERENCE / f"hf_configs/{config}.json")), "sublayer")
        kinds = estimate(architecture, load_hardware(HARDWARE), SETTING, {})["kinds"]
        paper, ours = _paper_times(published[model]), {name: _times(kind) for name, kind in kinds.items()}
        for symbol, kind in KINDS.items():
            if symbol in paper:
                for at, which in enumerate(("F", "I+W")):
                    mlp = ours["mlp"][at]
                    found[model, kind, which] = Ratio(ours[kind][at] / mlp, paper[symbol][at] / paper["-"][at])
    return found


def _times(kind: dict[str, Any]) -> tuple[float, float]:
    times = kind["times"][HARDWARE]
    return times["forward_ms"], times["backward_input_ms"] + times["backward_weight_ms"]


def _paper_times(profile: dict[str, Any]) -> dict[str, tuple[float, float]]:
    forward, backward, weight = (profile[table] for table in ("forward_ms", "backward_ms", "weight_ms"))
    return {symbol: (forward[symbol], backward[symbol] + weight[symbol]) for symbol in forward}


def main() -> None:
    """Print the ratios and their errors."""
    for (model, kind, which), ratio in ratios().items():
        print(f"{model:20} {kind:10} {which:4} {ratio.estimated:6.2f} {ratio.paper:6.2f} {ratio.error:+7.0%}")


if __name__ == "__main__":
    main()
