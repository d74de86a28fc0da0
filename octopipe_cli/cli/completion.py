"""``octopipe completion``: the script that completes octopipe's command line in a shell."""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from typing import Annotated

import typer

from octopipe_cli.cli.output import emit


class Shell(str, Enum):
    """What there is a script for."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="For which shell.", show_choices=False)],
) -> None:
    """Print the completion script for a shell; its first lines say where it goes.

    It completes commands, options, their values and files of the right kind, and starts no Python at a TAB. Print it
    again after an update of octopipe.

    Example: octopipe completion bash > ~/.local/share/bash-completion/completions/octopipe
    """
    emit(completion_script(shell.value))


def completion_script(shell: str) -> str:
    """Return the completion script for ``bash``, ``zsh`` or ``fish``."""
    from octopipe_cli.cli.shells.tree import nodes

    text: str = import_module(f"octopipe_cli.cli.shells.{shell}").script(nodes())
    return text
