"""What each results file shows and what made it, and the commits after which its figures would differ.

Names are those of files in experiments/results; those of benchmarks/results begin with `benchmarks/`. A star
stands for several files of one kind. `origins.py` makes sentences and a table of this.
"""

from typing import NamedTuple


class Kept(NamedTuple):
    """What a file holds."""

    shows: str
    of: tuple[str, ...] = ()  # whose CHANGES move its figures
    command: str = ""  # where it is not the script with the name of the file
    note: str = ""


class Change(NamedTuple):
    """A commit that moves figures."""

    commit: str
    of: str  # the kind of figures
    words: str
    machine: str = ""  # a word that is in the names of the machines where it matters


CHANGES = (
    Change("19d96bc", "fits", "models were rebuilt around one type; single networks move by rounding only"),
    Change("d4105e3", "ensembles", "members share held-out rows, so ensembles of one layer move by chance"),
    Change("743fba1", "engines", "GPUs multiply in full precision", "NVIDIA"),
    Change("b9bdb41", "classes", "the default of classes falls back to logistic regression"),
    Change("ad6690c", "default", "mini-batches of up to 16,384 rows are smaller"),
    Change("ec3d764", "default", "training ends when members have fallen far below their best scores"),
    Change("28742a0", "default", "widths are learned from more held-out rows"),
    Change("4f5f310", "default", "the optimiser is Muon, and cycles are longer"),
    Change("cc4679a", "default", "tables of up to 500 rows train by Adam again"),
)

LARGE_ONLY = "runs of 3a68f86 are of more than 560 rows, which cc4679a leaves alone"
GONE = "is not in the history; stored by"
FITS, ENGINES = ("fits",), ("fits", "engines")
ENSEMBLES = ("fits", "ensembles", "engines")
DEFAULT, CLASSES = ("default",), ("default", "classes")

FILES = {
    # the default
    "uci_default.json": Kept(
        "the default on UCI splits", DEFAULT, "python experiments/defaults.py --uci NAMES", LARGE_ONLY
    ),
    "defaults.json": Kept("the default on 27 tables, and without its parts", DEFAULT, note=LARGE_ONLY),
    "opponents.json": Kept("other libraries on these tables"),
    "classes_default.json": Kept("the default on digits and documents", CLASSES, note=LARGE_ONLY),
    "raw_tables.json": Kept(
        "the default and others on tables as they come", CLASSES, note=f"0fbfd01 {GONE} a3eeb61"
    ),
    "class_calibration.json": Kept("classes with and without a temperature", CLASSES),
    "class_fallback.json": Kept("classes with and without logistic regression", DEFAULT),
    "units.json": Kept("units with two limits", DEFAULT),
    "deep_density.json": Kept("the shape of a deep model's density", DEFAULT, note=f"8b9cd13 {GONE} f1a1049"),
    "guarantee.json": Kept("intervals with a guarantee", DEFAULT),
    # the paper's models and models of one layer
    "table1/*.json": Kept("Table 1", ENSEMBLES, "tggm reproduce table1"),
    "table2/*.json": Kept("Table 2", ENSEMBLES, "tggm reproduce table2"),
    "table2_other/*.json": Kept(
        "digits with other settings", ENGINES, "python experiments/table2.py --out FOLDER"
    ),
    "exceptions.json": Kept("other rates and epochs for Table 1", FITS),
    "uci_*.json": Kept("training methods on four UCI sets", ENSEMBLES),
    "tune_steps.json": Kept(
        "what the settings of one layer were chosen by; on no page",
        FITS,
        "python experiments/tune.py",
        "stored by 4720c1f",
    ),
    "wide.json": Kept("one layer on many columns", ENSEMBLES),
    "mnist*.json": Kept("digits, one hidden layer", ENGINES),
    "mnist_validation.json": Kept(
        "settings tried on training images", ENGINES, "python experiments/mnist.py --validate --once"
    ),
    "bound.json": Kept("what mean field's bound prefers", FITS),
    "probabilities.json": Kept("errors of class probabilities", FITS),
    "text_news*.json": Kept("20 Newsgroups", ENSEMBLES, "python experiments/text.py --data news"),
    "text_blogs*.json": Kept("political blogs", ENSEMBLES, "python experiments/text.py --data blogs"),
    "deep_mnist.json": Kept("digits, two hidden layers", ENGINES, "python experiments/deep.py --data mnist"),
    "deep_uci.json": Kept(
        "one and two layers on UCI tables", ENSEMBLES, "python experiments/deep.py --models directed/moments"
    ),
    "deep_validation.json": Kept("settings of two layers", ENGINES, "python experiments/deep.py --validate"),
    "deep_trained.json": Kept("propagated moments of trained models", FITS),
    "undirected_engine.json": Kept("undirected models by either engine", DEFAULT),
    "collapse*.json": Kept("how undirected training collapses", FITS),
    "lateral.json": Kept("lateral connections", ENSEMBLES),
    "censored.json": Kept("censored targets", ENSEMBLES),
    "missing.json": Kept("missing targets", ENSEMBLES),
    "digits.json": Kept("a graph without inputs", FITS),
    # the paper's figures and claims
    "figure1.json": Kept("Figure 1"),
    "figure2.json": Kept("Figure 2", FITS),
    "gap.json": Kept("bounds against the likelihood", FITS),
    "estep.json": Kept("the error of the E-step"),
    "calibration.json": Kept("counts that Table 1 has replaced; on no page", ENSEMBLES),
    "claims.json": Kept("claims 2 and 3", FITS),
    "gradients.json": Kept("claim 4", FITS),
    "prior_start.json": Kept("claim 5", FITS),
    # seconds, memory and promises
    "benchmarks/fit.json": Kept("fits beside other libraries", DEFAULT),
    "benchmarks/first_fit.json": Kept("first fits of a process; on no page", DEFAULT),
    "benchmarks/wide.json": Kept("first fits of many outputs, classes, columns", DEFAULT),
    "benchmarks/predictions.json": Kept("predictions for many rows; on no page"),
    "benchmarks/predict_proba.json": Kept("probabilities of many rows"),
    "benchmarks/explanations.json": Kept("what explanations cost"),
    "benchmarks/intervals.json": Kept(
        "guarantees beside MAPIE; on no page", DEFAULT, note="stored by d4105e3"
    ),
    "benchmarks/table_reading.json": Kept(
        "how long tables take to read; on no page", note=f"34a6fbc {GONE} 96a1535"
    ),
    "benchmarks/training_step.json": Kept("a training step"),
    "benchmarks/growth*.json": Kept("growth with size"),
    "benchmarks/streaming.json": Kept("a stream beside memory", note="stored by 12ce265"),
    "benchmarks/devices.json": Kept("several devices and processes"),
    "benchmarks/special.json": Kept("special functions"),
    "benchmarks/inference.json": Kept("engines"),
    "benchmarks/rank_one-gpu.json": Kept(
        "engines on a GPU; on no page",
        (),
        "python benchmarks/inference_gpu.py",
        "the kernel of one output, which 8406ec4 replaced",
    ),
    "benchmarks/engines.json": Kept("error and time of engines", (), "python benchmarks/engines.py --rows 4"),
    "benchmarks/deep_accuracy.json": Kept("moments of random deep models", note="stored by 3d600b0"),
    "benchmarks/orthant.json": Kept("orthant probabilities"),
    "benchmarks/truncated_normal.json": Kept("the normal in a box"),
    "benchmarks/fuzz.json": Kept("damaged model files", (), "python -m tools.fuzz_model_files"),
    "benchmarks/kill_and_resume.json": Kept("killed fits", (), "python -m tools.kill_and_resume"),
    "benchmarks/load.json": Kept("predictions while a model learns", (), "python -m tools.load"),
}
