"""What the imports of measured stage times have in common: which stage holds which layers, table, profile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from octopipe_cli.cli.output import note, save, warn
from octopipe_cli.errors import InputError

if TYPE_CHECKING:
    from octopipe_cli.formats import Loaded
    from octopipe_cli.plan import ActionKind, Plan
    from octopipe_cli.profile import Profile
    from octopipe_cli.profiling.stage_fit import Row, Stage
    from octopipe_cli.profiling.trace import Observed

LAYERS: Final = "Which stage holds which layers"

PlanOption = Annotated[
    str | None, typer.Option(metavar="PLAN", help="The plan that ran.", rich_help_panel=LAYERS, show_default=False)
]
BaseOption = Annotated[
    str | None,
    typer.Option(
        metavar="PROFILE",
        help="The model's profile: sizes, rules and other columns are kept; its times decide where the measured ones"
        " leave several answers.",
        rich_help_panel=LAYERS,
        show_default=False,
    ),
]
StageLayers = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="Without a plan: how many of the profile's layers each stage has: 5,4,4,3.",
        rich_help_panel=LAYERS,
        show_default=False,
    ),
]
HardwareOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="What the times were taken on; by default the plan's.", show_default=False),
]
NameOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Name of the profile; by default the model's.", show_default=False)
]


class Layout(NamedTuple):
    """Which stage holds which layers, on what hardware, and the files that say so."""

    stages: list[Stage]
    hardware: str
    plan: Loaded[Plan] | None
    base: Loaded[Profile] | None


def layout_of(
    plan: str | None, profile: str | None, stage_layers: str | None, hardware: str | None, by_rank: bool = False
) -> Layout:
    """Return the stages that the options tell (`by_rank`: a rank's stages as one); raises InputError."""
    from octopipe_cli.named import read_profile
    from octopipe_cli.plan import load_plan
    from octopipe_cli.profiling.trace_profile import (
        check_same_layers,
        hardware_of_plan,
        ranks_of_plan,
        stages_of_counts,
        stages_of_plan,
    )

    made = None if plan is None else load_plan(plan)
    base = None if profile is None else read_profile(profile)
    if made is not None and stage_layers is None:
        if base is not None:
            check_same_layers(made, base)
        stages = ranks_of_plan(made) if by_rank else stages_of_plan(made)
        return Layout(stages, hardware or hardware_of_plan(made), made, base)
    if made is None and base is not None and stage_layers is not None and hardware is not None:
        return Layout(stages_of_counts(base, _counts(stage_layers)), hardware, None, base)
    raise InputError(
        "which stage holds which layers?",
        expected="--plan, or --profile with --stage-layers and --hardware",
        remedy="give the plan that ran",
    )


def _counts(text: str) -> list[int]:
    """Return a list of whole numbers above zero."""
    if not re.fullmatch(r"[1-9]\d{0,4}(,[1-9]\d{0,4})*", text):
        raise InputError("not a list of layers a stage", found=text, expected="whole numbers above zero: 5,4,4,3")
    return [int(part) for part in text.split(",")]


def finish(
    layout: Layout,
    observed: Mapping[tuple[int, ActionKind], Observed],
    files: str,
    provenance: dict[str, Any],
    output: str,
    name: str | None,
    first: str = "stage",
) -> None:
    """Fit the kinds' times, print the table on stderr and write the profile."""
    from octopipe_cli.formats import document_text
    from octopipe_cli.profiling.trace_profile import check_stages, import_stage_times

    check_stages(layout.stages, observed, files)
    plan, base = layout.plan, layout.base
    model = base.value.name if base is not None else plan.value.inputs.profile.name if plan is not None else "model"
    told = {
        "method": "imported",
        **provenance,
        "runs": {f"{stage}{action}": seen.runs for (stage, action), seen in observed.items()},
        **({} if plan is None else {"plan_digest": plan.digest}),
    }
    roles = None if plan is None else plan.value.kinds
    found = import_stage_times(
        layout.stages, observed, layout.hardware, told, base=base, roles=roles, name=name or model
    )
    for warning in found.warnings:
        warn(warning)
    _report(found.fit.rows, found.fit.residual, first)
    save(output, document_text(found.document))


def _report(rows: list[Row], residual: float, first: str) -> None:
    from octopipe_cli.render.console import glyphs_of, make_console, rendered
    from octopipe_cli.render.profiling import fit_table

    console = make_console(stderr=True)
    table = [
        {"of": row.stage, "time": row.action, "measured_ms": row.measured_ms, "fitted_ms": row.fitted_ms}
        for row in rows
    ]
    note(rendered(console, fit_table(table, first, glyphs_of(console), console.width)).rstrip("\n"))
    note(f"residual: {residual:.1%}")
