"""The CP-SAT solver as every model here wants it: one worker, one seed, and Ctrl-C left to the command line."""

from __future__ import annotations

from ortools.sat.python import cp_model


def new_solver(deterministic_time: float) -> cp_model.CpSolver:
    """Return a solver whose answer depends on nothing but its model and its deterministic time."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 0
    solver.parameters.catch_sigint_signal = False  # its own handler ends the process in a thread's solve
    solver.parameters.max_deterministic_time = deterministic_time
    return solver
