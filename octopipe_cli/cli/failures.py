"""What a failed command says on stderr, and the exit code it leaves with."""

from __future__ import annotations

import os
import re
import sys
import traceback
from typing import Final

import typer

from octopipe_cli import __version__
from octopipe_cli.cli.interrupts import CTRL_C
from octopipe_cli.errors import EXIT_BUG, EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK, OctopipeError

MAX_TEXT: Final = 400

#: The base of the command line parser's own errors, whichever package holds it.
USAGE_ERRORS: Final = tuple(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")


def report(error: BaseException) -> int:
    """Return the exit code of an error, after telling the user what happened."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else EXIT_OK
    if isinstance(error, BrokenPipeError):
        close_stdout()
        return EXIT_OK
    # A library whose import is interrupted raises errors of its own.
    if isinstance(error, (KeyboardInterrupt, typer.Abort)) or CTRL_C.asked:
        _say("octopipe: interrupted")
        return EXIT_INTERRUPTED
    if isinstance(error, OctopipeError):
        _say(error_text(error))
        return error.exit_code
    if isinstance(error, USAGE_ERRORS):
        _say(usage_text(error))
        return EXIT_INPUT
    _say(bug_text(error))
    return EXIT_BUG


def close_stdout() -> None:
    """Send what is still to be printed nowhere: whoever read it has gone away."""
    sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 (the stream until the process ends)


def error_text(error: OctopipeError) -> str:
    """Return an error as text: what is wrong, then where, found, expected and remedy, a line each."""
    lines = []
    for label, text in error.lines():
        shown = _printable(text)
        lines.append(f"  {label + ':':<9} {shown}" if label else f"octopipe: error: {shown}")
    return "\n".join(lines)


def usage_text(error: BaseException) -> str:
    """Return what was wrong with the arguments, what may have been meant, and where the right ones are listed."""
    from octopipe_cli.formats import did_you_mean  # it loads the readers, which not every command needs

    message = getattr(error, "format_message", lambda: str(error))()
    context = getattr(error, "ctx", None)
    command = context.command_path if context is not None else "octopipe"
    # The parser's own suggestions are left out: there is one way to make them.
    text = _printable(re.split(r"\.? Did you mean | \(Possible options:", " ".join(message.split()))[0])
    text = re.sub(r"not a valid (?:int|float)(?: range)?", "no number that can stand here", text)
    wrong, names = _misspelt(error, text)
    help_text = f"`{command} --help` lists what can stand here"
    near = "" if wrong in names else did_you_mean(wrong, names, "")
    return f"octopipe: error: {text}\n  remedy:   {near + ' ' if near else ''}{help_text}"


def _misspelt(error: BaseException, text: str) -> tuple[str, list[str]]:
    """Return the word that is none of those which may stand there, and these."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    option = getattr(error, "option_name", None)
    if context is None:
        return "", []
    if option is not None:
        return option, [name for each in context.command.get_params(context) for name in each.opts]
    quoted = re.search(r"'([^']*)' is not one of|No such command '([^']*)'", text)
    if quoted is None:
        return "", []
    if quoted[2] is not None:
        return quoted[2], list(context.command.commands)
    return quoted[1], [
        str(getattr(each, "value", each)) for each in getattr(getattr(parameter, "type", None), "choices", ())
    ]


def bug_text(error: BaseException) -> str:
    """Return what is said where octopipe itself is wrong; with OCTOPIPE_DEBUG=1 the traceback too."""
    lines = [
        f"octopipe: this is a bug of octopipe's ({_printable(f'{type(error).__name__}: {error}')})",
        f"  version:  octopipe {__version__}, Python {sys.version.split()[0]}",
        "  remedy:   please report it, with the command and its files; OCTOPIPE_DEBUG=1 shows where it happened",
    ]
    if os.environ.get("OCTOPIPE_DEBUG") == "1":
        lines.insert(0, "".join(traceback.format_exception(error)).rstrip())
    return "\n".join(lines)


def _printable(text: str) -> str:
    """Return a text cut to what fits a screen, control characters (of file names, say) written out."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return shown if len(shown) <= MAX_TEXT else shown[: MAX_TEXT - 3] + "..."


def _say(text: str) -> None:
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:  # nobody listens
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
