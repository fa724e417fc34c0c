"""The main job: from a table to a model, its scores, predictions, figures and a report.

    python examples/demo.py [FOLDER]        (make demo; files go to the folder demo)

The table has 600 synthetic houses with words and missing values (houses.py makes it). Every step but the
figures is a command that can be typed.
"""

import shlex
import sys
import time
from pathlib import Path

from matplotlib.figure import Figure

import tggm
from tggm.cli.app import run
from tggm.plotting import plot_calibration, plot_predicted
from tggm.tables import read_table

EXAMPLES = Path(__file__).parent


def command(*words: str) -> None:
    print(f"\n$ tggm {shlex.join(words)}", flush=True)
    if run(words) != 0:
        sys.exit(f"the demo stopped at: tggm {shlex.join(words)}")


def draw(model_path: str, data: str, folder: Path) -> list[Path]:
    """Draw predictions and calibration, by the Python interface."""
    model, table = tggm.load(model_path), read_table(data)
    dist, y = model.predict_dist(table), table.numbers("price")
    plots = {folder / "predicted.png": plot_predicted, folder / "calibration.png": plot_calibration}
    for path, plot in plots.items():
        figure = Figure(figsize=(6.4, 5.2), layout="constrained")
        plot(dist, y, ax=figure.add_subplot())
        figure.savefig(path, dpi=130)
    return list(plots)


def main(folder: Path) -> None:
    begin = time.perf_counter()
    folder.mkdir(parents=True, exist_ok=True)
    data, new = str(EXAMPLES / "houses.csv"), str(EXAMPLES / "new_houses.csv")
    model, test = str(folder / "houses.tggm"), str(folder / "test.csv")
    page, predictions = str(folder / "report.html"), str(folder / "predictions.csv")
    command("fit", data, "--target", "price", "--quick", "--test-output", test, "-o", model, "--force")
    command("predict", model, new, "-o", predictions, "--force")
    print(*Path(predictions).read_text().splitlines()[:4], sep="\n")
    command("evaluate", model, test)
    command("report", model, test, "-o", page, "--force")
    pictures = draw(model, test, folder)
    print(f"\nDone in {time.perf_counter() - begin:.0f} s. Results:")
    print(f"  report       {page} (open it in a browser)")
    print(f"  figures      {', '.join(map(str, pictures))}")
    print(f"  predictions  {predictions}, beside the model {model}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo"))
