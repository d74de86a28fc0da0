"""The command line: ``main`` runs a command and turns every error into one screen of text and an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from octopipe_cli import __version__


def main(arguments: Sequence[str] | None = None) -> None:
    """Run octopipe on the arguments (default: the process's own) and leave with its exit code."""
    try:
        from octopipe_cli.cli.interrupts import CTRL_C

        if arguments is None:  # a process of our own
            CTRL_C.listen()
    except KeyboardInterrupt:
        sys.exit(130)
    try:
        code = run(sys.argv[1:] if arguments is None else arguments)
    except BaseException:  # outside of what is reported: while the first modules are imported
        if not CTRL_C.asked:
            raise
        sys.stderr.write("octopipe: interrupted\n")
        code = 130
    CTRL_C.finish()
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Return the exit code of a run of octopipe; never raises what a user could have brought about."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 (it is the stream from here on)
    if list(arguments[:1]) == ["--version"]:  # answered before anything is imported
        sys.stdout.write(f"octopipe {__version__}\n")
        return 0
    from octopipe_cli.cli import failures
    from octopipe_cli.cli.interrupts import CTRL_C

    try:
        from octopipe_cli.cli.app import command

        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # a terminal that cannot show a character shows another
        # A list of its own: without arguments the help is what is wanted.
        result = command().main(list(arguments) or ["--help"], prog_name="octopipe", standalone_mode=False)
        sys.stdout.flush()
        if CTRL_C.asked:  # the parser makes an exit of it, without a word
            raise KeyboardInterrupt
    except BaseException as error:
        return failures.report(error)
    return result if isinstance(result, int) else 0
