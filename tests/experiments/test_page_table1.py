"""The page of results says of stored figures what they show, and of missing ones that they are missing."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments"))
import page
import page_table1
from quoted import OTHERS, PAPER, Error


@pytest.fixture
def results(tmp_path, monkeypatch):
    """Writes a row's file: the mean RMSE, its standard error and the log-likelihood of each set."""
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    (tmp_path / "table1").mkdir()

    def write(row, figures, n=None):
        record = {}
        for dataset, (rmse, error, ll) in figures.items():
            splits = n or page_table1.SPLITS[dataset]
            step = error * (splits - 1) ** 0.5  # half the values above and half below by it
            signs = [(-1) ** i if i < splits - splits % 2 else 0 for i in range(splits)]
            common = {"ll": ll, "crps": 1.0, "cover50": 0.5, "cover90": 0.9, "fit_s": 12.3, "predict_s": 0.05}
            common["job_s"] = 60.0
            rows = [
                {"split": i, "rmse": rmse + sign * step, **common, "commit": "abc1234", "device": "abacus"}
                for i, sign in enumerate(signs)
            ]
            record[dataset] = {"seed": 0, "train_rows": 100, "splits": rows}
        (tmp_path / "table1" / f"{row}.json").write_text(json.dumps(record))

    return write


@pytest.mark.parametrize(
    ("ours", "says"),
    [((4.9, 0.3), "within"), ((5.1, 0.3), "worse"), ((2.9, 0.3), "better"), ((3.1, 0.3), "within")],
)
def test_a_difference_is_judged_by_its_own_standard_error(ours, says):
    assert page_table1.verdict(ours, Error(4.0, 0.4)) == says  # two errors of the difference are 1.0


@pytest.mark.parametrize(
    ("figures", "says"),
    [
        ((2.80812, 0.2094), "2.81 ± 0.21"),
        ((0.000512, 0.0000213), "0.000512 ± 0.000021"),
        ((31.2, 4.0), "31.20 ± 4.00"),
    ],
)
def test_a_standard_error_has_two_digits(figures, says):
    assert page_table1.plus_minus(*figures) == says


def test_without_results_the_page_says_so(results):
    assert page_table1.papers().count("not run") == 4 * len(PAPER)
    assert page_table1.measures().count("not run") == 3 * 5 * len(PAPER)
    assert "on 0 of 0 sets" in page_table1.papers()
    assert page_table1.year().endswith("Not run.")
    assert page_table1.origin() == "Nothing was run yet."


def test_the_page_counts_where_figures_are_reached(results):
    figures = {d: (c["TGGM-BP"].mean, c["TGGM-BP"].error, 0.0) for d, c in PAPER.items()}
    figures["wine"] = (0.640 + 2 * 2 * 0.0469, 0.0469, 0.0)  # 2.8 standard errors of the difference above
    results("paper-bp", figures)
    said = page_table1.papers()
    assert (
        "- TGGM-BP: within two standard errors of the paper's figure, or better, on 8 of 9 sets (not Wine)."
        in said
    )
    assert "| 2.927 ± 0.291 | 2.93 ± 0.29 (within) |" in said
    assert said.count("(worse)") == 1


def test_the_page_counts_what_the_default_beats(results):
    """Log-likelihoods just above MC-dropout's but on power; errors just below it but on naval."""
    quoted = {d: tuple(map(float, figures)) for d, figures in OTHERS["MC-dropout"].items()}
    results(
        "default",
        {
            d: (rmse * (1.001 if d == "naval" else 0.999), 0.01, ll - (0.001 if d == "power" else -0.001))
            for d, (rmse, ll) in quoted.items()
        },
    )
    said = page_table1.others()
    assert (
        "MC-dropout in RMSE on 8 of 9 sets (not Naval), in log-likelihood on 8 of 9 sets (not Power)" in said
    )
    assert "beats deep ensemble in RMSE on 8 of 8 sets" in said  # 0.00 is no figure to compare with
    assert "beats NUTS in RMSE on 0 of 4 sets (not Boston, Concrete, Energy, Yacht)" in said
    made = page_table1.origin()  # a minute for each split
    assert "seed 0. one layer: abacus at abc1234. With compilation all jobs took 165 minutes" in made


def test_sets_that_are_not_finished_are_shown_and_not_counted(results):
    results("default", {"yacht": (0.4, 0.05, 0.1)}, n=4)
    assert "0.400 ± 0.050 (of 4)" in page_table1.papers()
    assert "on 0 of 0 sets" in page_table1.others()
    assert "| Yacht | one layer | 0.400 ± 0.050 (of 4) | 0.100 ± 0.000 (of 4) |" in page_table1.measures()
