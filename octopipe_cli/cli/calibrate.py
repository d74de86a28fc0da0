"""``octopipe profile calibrate``: a profile's times scaled to measured ones."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from octopipe_cli.cli.inputs import ProfileFile, check_stdin
from octopipe_cli.cli.output import check_not_an_input, note, save, warn

FIT = "What is scaled"


class CalibrationScale(str, Enum):
    """What has a factor of its own."""

    kind = "kind"
    each_pass = "pass"


def calibrate_profile(
    profile: ProfileFile,
    measured: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help='Measured times: a profile, or kind -> ms of a layer: {"mlp": {"forward_ms": 2.5, "backward_ms": 5}}.',
        ),
    ],
    scale: Annotated[
        CalibrationScale,
        typer.Option(
            rich_help_panel=FIT,
            help="kind: one factor a kind, its proportions of F, I and W stay; pass: F, I and W apart, measured times"
            " are met.",
        ),
    ] = CalibrationScale.kind,
    hardware: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=FIT,
            help="The column that is scaled, where there are several.",
            show_default=False,
        ),
    ] = None,
    measured_hardware: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=FIT,
            help="The measured profile's column, where it has several.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="PROFILE", help="The profile file; - is standard output.")
    ] = "-",
) -> None:
    """Scale a profile's times to measured ones, and report what remains.

    Measured may be some kinds and some of forward_ms, backward_input_ms, backward_weight_ms and backward_ms (in one
    piece). Kinds that were not measured take the factor that fits the measured ones together. Sizes and step_ms stay.
    The table on stderr has every measured time, before and after; the residual is the root mean square of the relative
    errors, each weighted by what it costs the model.

    Example: octopipe profile calibrate model.json --measured times.json -o model-calibrated.json
    """
    from octopipe_cli.formats import check_writable, document_text
    from octopipe_cli.named import read_profile
    from octopipe_cli.profiling.calibrate import calibrate, load_measured
    from octopipe_cli.render.console import glyphs_of, make_console, rendered
    from octopipe_cli.render.profiling import fit_table

    check_stdin(PROFILE=profile, measured=measured)
    check_writable(output)
    check_not_an_input(output, {"profile": profile, "measured file": measured})
    loaded = read_profile(profile)
    result = calibrate(loaded, load_measured(measured, measured_hardware), measured, hardware, scale.value)
    if result.unmeasured:
        warn(f"not measured, scaled as the rest together: {', '.join(result.unmeasured)}")
    rows = [
        {"of": row.kind, "time": row.time, "before_ms": row.before_ms}
        | {"measured_ms": row.measured_ms, "fitted_ms": row.after_ms}
        for row in result.rows
    ]
    console = make_console(stderr=True)
    note(rendered(console, fit_table(rows, "kind", glyphs_of(console), console.width)).rstrip("\n"))
    note(f"residual: {result.residual:.1%} (before: {result.before:.1%})")
    save(output, document_text(result.document))
