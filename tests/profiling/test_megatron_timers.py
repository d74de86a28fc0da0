from __future__ import annotations

from pathlib import Path

import pytest

from octopipe_cli.errors import InputError
from octopipe_cli.profiling.megatron_timers import read_timers
from octopipe_cli.profiling.trace import Observed


def block(forward: list[float], backward: list[float], prefix: str = "") -> str:
    """Return what is printed after a log interval; 0 is not printed, as Megatron does."""
    lines = ["times across ranks (ms):", "  batch-generator:", "     rank  0: 3.00"]
    for name, times in (("forward-compute", forward), ("backward-compute", backward), ("forward-recv", forward)):
        lines.append(f"  {name}:")
        lines += [f"     rank {rank:2d}: {time:.2f}" for rank, time in enumerate(times) if time > 0]
    return "".join(f"{prefix}{line}\n" for line in lines)


ITERATION = " iteration        2/    10 | consumed samples:           16 | elapsed time per iteration (ms): 900.0 |\n"


def observed(folder: Path, text: str, num_ranks: int = 2, num_microbatches: int = 4) -> dict[tuple[int, str], Observed]:
    (folder / "run.log").write_text(text)
    return dict(read_timers(str(folder / "run.log"), num_ranks, num_microbatches))


def refused(folder: Path, text: str, num_ranks: int = 2) -> InputError:
    with pytest.raises(InputError) as caught:
        observed(folder, text, num_ranks)
    assert caught.value.file == str(folder / "run.log")
    return caught.value


def test_times_are_a_rank_s_for_one_micro_batch(tmp_path: Path) -> None:
    text = ITERATION + block([40, 80], [100, 160])
    assert observed(tmp_path, text) == {
        (0, "B"): Observed(25.0, 1),
        (0, "F"): Observed(10.0, 1),
        (1, "B"): Observed(40.0, 1),
        (1, "F"): Observed(20.0, 1),
    }


def test_devices_of_a_rank_and_intervals_are_taken_by_their_medians(tmp_path: Path) -> None:
    slow = block([900] * 6, [900] * 6)
    text = slow + ITERATION + block([40, 48, 44, 8, 8, 12], [4] * 6) + ITERATION + block([36, 44, 40, 8, 8, 8], [4] * 6)
    found = observed(tmp_path, text)
    assert found[0, "F"] == Observed(11.0, 3)  # of 225, 11 and 10
    assert found[1, "F"] == Observed(2.0, 3)
    assert found[1, "B"] == Observed(1.0, 3)


def test_prefixes_of_launchers_are_passed_over(tmp_path: Path) -> None:
    plain = observed(tmp_path, block([40, 80], [100, 160]))
    assert observed(tmp_path, block([40, 80], [100, 160], "[default1]:")) == plain
    assert observed(tmp_path, block([40, 80], [100, 160], "1: 2026-08-22 15:22:22 INFO ")) == plain


def test_a_log_of_least_and_largest_times_says_what_to_run(tmp_path: Path) -> None:
    text = "(min, max) time across ranks (ms):\n    forward-compute ................: (10.00, 20.00)\n"
    error = refused(tmp_path, text)
    assert error.found == "only the least and the largest of all ranks"
    assert error.remedy == "run with --timing-log-level 2 --timing-log-option all"
    assert refused(tmp_path, "nothing\n").found is None


def test_a_log_without_the_backward_is_refused(tmp_path: Path) -> None:
    text = block([40, 80], [0, 0])
    assert refused(tmp_path, text).message == "no times of backward-compute by rank in this log"


@pytest.mark.parametrize(
    ("forward", "found"),
    [([1, 1, 1], "times of 3 ranks, the last of them 2"), ([1, 1, 0, 1], "times of 3 ranks, the last of them 3")],
)
def test_ranks_must_be_all_of_a_pipeline(tmp_path: Path, forward: list[float], found: str) -> None:
    error = refused(tmp_path, block(forward, forward))
    assert (error.message, error.found) == ("the log's ranks are not those of the pipeline", found)
