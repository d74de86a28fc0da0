"""``octopipe profile merge``: profiles of one model on several hardwares, made one."""

from __future__ import annotations

from typing import Annotated

import typer

from octopipe_cli.cli.output import check_not_an_input, save
from octopipe_cli.errors import InputError


def merge_profiles(
    profiles: Annotated[
        list[str], typer.Argument(metavar="PROFILE...", help="Two or more profiles of one model; - is standard input.")
    ],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="PROFILE", help="The profile file; - is standard output.")
    ] = "-",
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the profile; by default the first's.", show_default=False),
    ] = None,
    take_larger: Annotated[
        bool,
        typer.Option(
            "--take-larger", help="Where activations or workspace differ (kernels do), the larger size counts."
        ),
    ] = False,
) -> None:
    """Make one profile with the hardware columns of several, for clusters of mixed hardware.

    The profiles must have the same kinds, layers, rules and sizes, and times for different hardware.

    Example: octopipe profile merge model-a100.json model-h100.json -o model.json
    """
    from octopipe_cli.cli.inputs import check_stdin
    from octopipe_cli.formats import check_writable, document_text
    from octopipe_cli.named import read_profile
    from octopipe_cli.profiling.merge import merge

    if len(profiles) < 2:
        raise InputError("one profile alone has nothing to be merged with", expected="two or more profiles")
    check_stdin(**{f"profile {number}": file for number, file in enumerate(profiles, 1)})
    check_writable(output)
    check_not_an_input(output, {f"profile {number}": file for number, file in enumerate(profiles, 1)})
    save(output, document_text(merge([read_profile(file) for file in profiles], name, take_larger)))
