"""Fit a model to a table, and write its scores, predictions, figures and a report.

    python examples/demo.py [FOLDER]        (make demo; files go to the folder demo)

The table has 600 synthetic houses with words and missing values (houses.py makes it). `tggm fit`, `predict`,
`evaluate` and `report` do the same on the command line.
"""

import sys
import time
import warnings
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure
from sklearn.metrics import r2_score, root_mean_squared_error

from tggm import TableWarning, TGGMRegressor, save
from tggm.plotting import plot_calibration, plot_predicted
from tggm.report import write_report

EXAMPLES = Path(__file__).parent


def main(folder: Path) -> None:
    begin = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", TableWarning)  # one column only numbers the rows
    houses, new = (pd.read_csv(EXAMPLES / name) for name in ("houses.csv", "new_houses.csv"))
    order = houses.sample(frac=1, random_state=0)
    test, train = order[:120], order[120:]
    model = TGGMRegressor(support=(0, None), random_state=0, verbose=True)
    model.fit(train.drop(columns="price"), train["price"])
    save(model, folder / "houses.tggm")

    dist, y = model.predict_dist(test), test["price"].to_numpy()
    low, high = dist.interval(0.9)
    print(f"\n120 houses that were held out: RMSE {root_mean_squared_error(y, dist.mean()):.1f}, ", end="")
    print(f"R² {r2_score(y, dist.mean()):.3f}, log-likelihood {dist.logpdf(y).mean():.3f}, ", end="")
    print(f"{((low <= y) & (y <= high)).mean():.0%} in the 90 % interval")

    mean, std = model.predict(new, return_std=True)
    low, high = model.predict_interval(new)
    predictions = pd.DataFrame({"price": mean, "std": std, "low": low, "high": high}).round(1)
    predictions.to_csv(folder / "predictions.csv", index=False)
    print(f"\nThe first new houses:\n{predictions.head(4).to_string(index=False)}")

    for name, plot in (("predicted", plot_predicted), ("calibration", plot_calibration)):
        figure = Figure(figsize=(6.4, 5.2), layout="constrained")
        plot(dist, y, ax=figure.add_subplot())
        figure.savefig(folder / f"{name}.png", dpi=130)
    seen = train.drop(columns="price"), train["price"]
    write_report(
        model, test.drop(columns="price"), y, folder / "report.html", target_name="price", train=seen
    )
    print(
        f"\nDone in {time.perf_counter() - begin:.0f} s; see report.html, predicted.png, calibration.png, ",
        end="",
    )
    print(f"predictions.csv and the model houses.tggm in {folder}/")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
