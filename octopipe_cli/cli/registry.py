"""Every command, by name: where its function is, in what section of the help it stands, and one line about it.

Nothing is imported until a command is invoked: a new command is one entry here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple


class Entry(NamedTuple):
    """A command.

    Attributes
    ----------
    function
        ``module:function``, the module one of `octopipe_cli.cli`.
    help
        The first paragraph of the function's docstring.
    panel
        The section of the help that lists it.
    """

    function: str
    help: str
    panel: str = "Commands"


class Branch(NamedTuple):
    """A group of commands."""

    help: str
    example: str
    commands: Mapping[str, Entry | Branch]
    panel: str = "Commands"


PLANS, ENGINES, INPUTS, MORE = "Plans", "Engines", "Profiles and other inputs", "More"

_IMPORT: Final[Mapping[str, Entry | Branch]] = {
    "simpipe": Entry(
        "profile:import_simpipe",
        "Make a profile from a file of the SimPipe simulator: a pattern of layer symbols, and ms for each symbol.",
    ),
    "trace": Entry(
        "trace:import_trace",
        "Make a profile from traces of pipeline steps: the times of layers, from those of stages.",
    ),
    "megatron": Entry(
        "megatron:import_megatron",
        "Make a profile from Megatron-LM's timers: the times of layers, from those of pipeline ranks.",
    ),
}

_PROFILE: Final[Mapping[str, Entry | Branch]] = {
    "show": Entry("profile:show_profile", "Show the layers, times and sizes of a model profile."),
    "estimate": Entry(
        "estimate:estimate",
        "Estimate a profile from a model's config: a roofline for each operation, and the bytes each layer keeps.",
    ),
    "measure": Entry(
        "measure:measure_profile",
        "Measure a model's layers with PyTorch and transformers: one of each kind, at random weights.",
    ),
    "import": Branch("Make a profile from another tool's file.", "octopipe profile import simpipe --help", _IMPORT),
    "calibrate": Entry(
        "calibrate:calibrate_profile", "Scale a profile's times to measured ones, and report what remains."
    ),
    "merge": Entry(
        "merge:merge_profiles",
        "Make one profile with the hardware columns of several, for clusters of mixed hardware.",
    ),
}

_LAYOUT: Final[Mapping[str, Entry | Branch]] = {
    "check": Entry("layout:check", "Check a layout string of Megatron-LM's, and list what each rank holds."),
}

ROOT: Final = Branch(
    "Plan pipeline-parallel training of large language models: partition, placement and schedule together.",
    "octopipe plan model.json cluster.json -m 8",
    {
        "plan": Entry(
            "plan:plan", "Find partition, placement and schedule together, write the plan and show it.", PLANS
        ),
        "show": Entry("show:show", "Show the Gantt chart and the report of a plan, from its file alone.", PLANS),
        "compare": Entry(
            "compare:compare",
            "List the classic schedules on the same inputs, a plan and layouts written by hand beside them.",
            PLANS,
        ),
        "sweep": Entry(
            "sweep:sweep",
            "Plan over a range of memory, micro-batches, ranks, stages or bandwidth; or replay one plan under noise.",
            PLANS,
        ),
        "verify": Entry("verify:verify", "Check a plan against its profile and cluster, rule by rule.", PLANS),
        "diff": Entry(
            "diff:diff",
            "Compare two plans: times, memory, partition, placement, orders, request and inputs.",
            PLANS,
        ),
        "export": Entry(
            "export:export",
            "Write a plan in the format of an engine or a viewer; the table of what each rank holds goes to standard "
            "error.",
            ENGINES,
        ),
        "run": Entry(
            "run_plan:run",
            "Run a plan with PyTorch: its ranks as processes of this machine, or those that torchrun has started.",
            ENGINES,
        ),
        "layout": Branch(
            "Judge layouts written by hand.",
            "octopipe layout check 'Et|tL' --ranks 2 --layers 2",
            _LAYOUT,
            ENGINES,
        ),
        "init": Entry(
            "init:init",
            "Make profile, cluster file and settings from a model's config and a line, and tell what to run next.",
            INPUTS,
        ),
        "profile": Branch("Make and look at model profiles.", "octopipe profile show model.json", _PROFILE, INPUTS),
        "models": Entry(
            "shipped:list_models", "List the model profiles that ship: their names can stand for PROFILE.", INPUTS
        ),
        "clusters": Entry(
            "shipped:list_clusters", "List the clusters that ship: their names can stand for CLUSTER.", INPUTS
        ),
        "hardware": Entry(
            "shipped:list_hardware",
            "List the hardware that ships: for profile estimate, init, and clusters in a line.",
            INPUTS,
        ),
        "configs": Entry(
            "shipped:list_configs", "List the model configs that ship: for init and profile estimate.", INPUTS
        ),
        "schema": Entry(
            "schema:schema",
            "Print the JSON Schema (draft 2020-12) of a file, or of what `octopipe diff --format json` prints.",
            MORE,
        ),
        "help": Entry(
            "manual:manual",
            "Explain what several commands have in common, a page each: semantics, files, engines, exit codes.",
            MORE,
        ),
        "completion": Entry(
            "completion:completion",
            "Print the completion script for a shell; its first lines say where it goes.",
            MORE,
        ),
    },
)
