"""The CP-SAT solver as every model here wants it: one worker, one seed, and Ctrl-C left to the command line."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ortools.sat.python import cp_model


def new_solver(deterministic_time: float) -> cp_model.CpSolver:
    """Return a solver whose answer depends on nothing but its model and its deterministic time."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.catch_sigint_signal = False  # its own handler ends the process in a thread's solve
    solver.parameters.max_deterministic_time = deterministic_time
    return solver


def solve(solver: cp_model.CpSolver, model: cp_model.CpModel, stop: Callable[[], bool] | None) -> int:
    """Return the status of a model's solution; the solver ends soon after `stop`, asked ten times a second, is true.

    The solver's own callbacks would ask only where it finds or proves something.
    """
    if stop is None:
        return int(solver.solve(model))
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            if stop():
                solver.stop_search()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        return int(solver.solve(model))
    finally:
        done.set()
        watcher.join()
