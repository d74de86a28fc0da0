"""Plans in the formats of engines and viewers: one module a target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Final, NamedTuple, Protocol, cast

from octopipe_cli.engines.renumber import along_model
from octopipe_cli.errors import InputError
from octopipe_cli.formats import Loaded, did_you_mean, show
from octopipe_cli.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Options:
    """What a user may choose about an export; each target says which of these it takes.

    Attributes
    ----------
    symbols
        Layer symbols by kind, before those that the kinds' names suggest.
    comms
        Whether sends and receives stand in the schedule.
    """

    symbols: Mapping[str, str] = field(default_factory=dict)
    comms: bool = False


class Exporter(Protocol):
    """What a target's module offers; it may also have `notes`, of the same arguments: lines to tell beside the text."""

    def export(self, plan: Loaded[Plan], options: Options) -> str:
        """Return the text of the export.

        Raises
        ------
        InvalidPlanError
            Where the plan does not make a whole (`octopipe_cli.replay`), or the target cannot hold it.
        InputError
            Where an option is wrong.
        """


class Target(NamedTuple):
    """A target: its name, its module in this package, what it is in one line, how its files end, its options."""

    name: str
    module: str
    description: str
    suffix: str
    options: tuple[str, ...] = ()


#: All targets; their modules are loaded when they are used.
TARGETS: Final = (
    Target("megatron", "megatron", "layout string and flags (Megatron-LM, Bridge, ms-swift, verl)", ".txt"),
    Target(
        "megatron-hybrid", "megatron_hybrid", "layer pattern with cuts and flags (Megatron-LM)", ".txt", ("symbols",)
    ),
    Target("torch-csv", "torch_csv", "schedule of torch.distributed.pipelining (CSV)", ".csv", ("comms",)),
    Target("torchtitan", "torchtitan", "module lists, schedule and settings for torchtitan (Python)", ".py"),
    Target("automodel", "automodel", "pipeline settings for NeMo Automodel (YAML)", ".yaml"),
    Target("deepspeed", "deepspeed", "a PipelineModule with the plan's partition (Python)", ".py"),
    Target("chrome-trace", "chrome_trace", "a trace for Perfetto and chrome://tracing", ".trace.json"),
    Target("svg", "svg", "a picture: chart, bound, memory", ".svg"),
    Target("html", "html", "one page to zoom and point into, no network needed", ".html"),
    Target("json", "timeline_json", "the timeline, an action a line", ".json"),
    Target("csv", "timeline_csv", "the timeline as a table", ".csv"),
)


def target_named(name: str) -> Target:
    """Return the target of that name; raises InputError where there is none."""
    targets = {target.name: target for target in TARGETS}
    if name not in targets:
        raise InputError(
            f"no export target {show(name)}",
            path="--to",
            expected="one of " + ", ".join(targets),
            remedy=did_you_mean(name, targets, "`octopipe export --help` lists the targets"),
        )
    return targets[name]


#: Targets whose engine places stages itself, by the ranks' places along the model.
ALONG_MODEL: Final = ("megatron", "megatron-hybrid", "torchtitan", "automodel", "deepspeed")


def _for_target(plan: Loaded[Plan], target: Target) -> Loaded[Plan]:
    """Return the plan with the numbers that the target's engine gives its ranks."""
    return replace(plan, value=along_model(plan.value)) if target.name in ALONG_MODEL else plan


def export(plan: Loaded[Plan], target: Target, options: Options) -> str:
    """Return the plan in a target's format; raises what the target's `Exporter.export` does."""
    plan = _for_target(plan, target)
    module = cast(Exporter, import_module(f"octopipe_cli.export.{target.module}"))
    return module.export(plan, options)


def notes(plan: Loaded[Plan], target: Target, options: Options) -> list[str]:
    """Return what a reader of an export should know beside its text."""
    module = import_module(f"octopipe_cli.export.{target.module}")
    said = module.notes(_for_target(plan, target), options) if hasattr(module, "notes") else []
    if plan.value.rank_order is None or target.name not in ALONG_MODEL:
        return said
    order = ", ".join(map(str, plan.value.rank_order))
    return [*said, f"ranks are numbered along the model: launch them so that 0, 1, ... are the cluster's {order}"]
