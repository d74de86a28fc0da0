"""Every error a user can meet: what is wrong, where, what was expected, what to do."""

from __future__ import annotations

from typing import Final

EXIT_OK: Final = 0
EXIT_NO: Final = 1
EXIT_INPUT: Final = 2
EXIT_INFEASIBLE: Final = 3
EXIT_LIMIT: Final = 4
EXIT_BUG: Final = 70
EXIT_INTERRUPTED: Final = 130


class OctopipeError(Exception):
    """An error whose text is for the user.

    Parameters
    ----------
    message
        What is wrong, one sentence.
    file, path
        Where: the file as the user named it, and the place in it as a JSON path (``$.layers[3]``).
    found, expected, remedy
        What stands there, what should, and what the user can do about it.
    """

    exit_code: int = EXIT_INPUT

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        path: str | None = None,
        found: str | None = None,
        expected: str | None = None,
        remedy: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.path = path
        self.found = found
        self.expected = expected
        self.remedy = remedy

    def lines(self) -> list[tuple[str, str]]:
        """Return the error as (label, text) pairs, the message first, labels empty where there is none."""
        where = ", ".join(part for part in (self.file, self.path) if part)
        pairs = [("", self.message), ("where", where)]
        pairs += [("found", self.found or ""), ("expected", self.expected or ""), ("remedy", self.remedy or "")]
        return [(label, text) for label, text in pairs if text]

    def __str__(self) -> str:
        return "\n".join(f"{label}: {text}" if label else text for label, text in self.lines())


class InputError(OctopipeError):
    """A file, a value or a flag that cannot be used (exit 2)."""

    exit_code = EXIT_INPUT


class InvalidPlanError(OctopipeError):
    """A plan that breaks a rule (exit 1)."""

    exit_code = EXIT_NO


class DeadlockError(InvalidPlanError):
    """Orders that wait on themselves (exit 1).

    Attributes
    ----------
    circle
        The actions that wait for one another, as tokens; each waits for the next, the last for the first.
    """

    def __init__(self, circle: tuple[str, ...], **where: str | None) -> None:
        super().__init__(f"deadlock: {' waits for '.join((*circle, circle[0]))}", **where)
        self.circle = circle


class InfeasibleError(OctopipeError):
    """Proven: no plan exists under these limits (exit 3)."""

    exit_code = EXIT_INFEASIBLE


class LimitError(OctopipeError):
    """A limit was reached before any plan was found (exit 4)."""

    exit_code = EXIT_LIMIT
