"""What every output format of a comparison is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from octopipe_cli.diff.change import PlanDiff


class DiffFormat(ABC):
    """A way to write comparisons of plans down; it reads no terminal and prints nothing."""

    @abstractmethod
    def format(self, reports: Sequence[PlanDiff]) -> str:
        """Return the comparisons as one text; names from the plans can do no harm in it."""
