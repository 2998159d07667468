"""The histogram counts every value once, whatever their spread."""

from __future__ import annotations

import re

import pytest

from rdmaqp.cli.histogram import histogram

SPREADS = {
    "one": [5.0],
    "all alike": [3.0] * 40,
    "two": [1.0, 2.0],
    "close": [100 + n / 10 for n in range(200)],
    "one outlier": [100 + n / 10 for n in range(200)] + [90_000.0],
    "far": [260.0] * 900 + [5000.0 + n for n in range(100)],
    "from zero": [0.0, 0.0, 1.0, 50.0],
}


@pytest.mark.parametrize("name", SPREADS)
def test_every_value_is_counted_once(name: str) -> None:
    values = SPREADS[name]
    lines = histogram(values)
    assert sum(int(line.split()[-1]) for line in lines) == len(values)
    starts = [float(line.split("–")[0]) for line in lines]
    assert starts == sorted(starts)
    assert starts[0] == pytest.approx(min(values), abs=0.01)
    ends = [float(re.split(r"[– ]+", line.strip())[1]) for line in lines]
    assert ends[-1] == pytest.approx(max(values), abs=0.01)


def test_nothing_has_no_lines() -> None:
    assert histogram([]) == []


def test_the_fullest_bin_has_the_longest_bar_and_a_single_value_still_shows() -> None:
    lines = histogram(SPREADS["far"], width=80)
    bars = [line.count("█") for line in lines]
    assert bars.index(max(bars)) == 0
    assert all(len(line) <= 80 for line in lines)
    assert all(re.search(r"[▏▎▍▌▋▊▉█]", line) for line in lines if not line.endswith(" 0"))


def test_an_outlier_does_not_press_the_others_into_one_bin() -> None:
    counts = [int(line.split()[-1]) for line in histogram(SPREADS["one outlier"])]
    assert sum(count > 0 for count in counts) > 6
