"""Run the benchmarks and print one page: ratios to named opponents, growth, and what changed.

    make bench                                   # about 14 minutes on two cores
    python benchmarks/bench.py [--quick] [--only growth,fit] [--keep]

Each script runs in a process of its own and writes to a temporary folder; `--keep` puts the new figures among
those stored in ``benchmarks/results`` (`python benchmarks/render.py` then fills the pages that show them),
but for those whose stored figures are of longer runs by hand: inference, orthant and streaming.
Ratios and exponents are printed beside the stored ones; those of a quick run are of smaller problems.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from ratios import duration, ratios, stored
from record import ROOT

# name: script, words of a full run, words of a quick one
SCRIPTS = {
    "special": ("special", [], ["--size", "100000"]),
    "predict_proba": ("predict_proba", [], []),
    "ep": ("inference", ["--only", "ep"], ["--only", "ep"]),
    "newton": ("inference", ["--only", "newton", "--rows", "2000"], ["--only", "newton", "--rows", "200"]),
    "orthant": (
        "orthant",
        ["--dims", "10", "20", "50", "--rhos", "--seeds", "5"],
        ["--dims", "10", "--rhos", "--seeds", "3"],
    ),
    "fit": ("fit", [], ["--datasets", "concrete"]),
    "devices": ("devices", [], ["--quick"]),
    "growth": ("growth", [], ["--quick"]),
    "streaming": ("streaming", ["--repeats", "1"], ["--rows", "500000", "--repeats", "1"]),
}
SMALLER = {"newton", "orthant", "streaming"}  # than what is stored: compared, not kept
CHANGED = 1.25  # a ratio that differs by more is pointed out


def run(name: str, quick: bool, folder: Path) -> bool:
    """Run a script; whether it went well."""
    script, words = SCRIPTS[name][0], SCRIPTS[name][1 + quick]
    if name == "streaming":
        words = [*words, "--output", str(folder / "streaming.json")]
    clock = time.perf_counter()
    print(f"--- {name}", flush=True)
    code = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / f"{script}.py"), *words],
        env=os.environ | {"TGGM_RESULTS": str(folder), "PYTHONWARNINGS": "ignore"},
        check=False,
    ).returncode
    print(f"    {'failed after' if code else 'took'} {time.perf_counter() - clock:.0f} s", flush=True)
    return code == 0


def page(new: dict[str, Any], old: dict[str, Any]) -> str:
    """All ratios and exponents, each with what was stored."""
    before = {row.key: row for row in ratios(old)}
    lines = ["", "how many times as long the opponent takes (stored in brackets), accuracy: ours, theirs", ""]
    for row in ratios(new):
        was = before.get(row.key)
        then = f"({was.factor:.3g})" if was else "(new)"
        changed = was is not None and not 1 / CHANGED < row.factor / was.factor < CHANGED
        times = f"{duration(row.seconds)} : {duration(row.opponent_seconds)}"
        mark = " <- changed" if changed else ""
        lines.append(
            f"{row.job:62s} {row.opponent:30s} {row.factor:7.3g} {then:9s} {times:20s} {row.accuracy}{mark}"
        )
    if "growth" in new:
        lines += ["", "growth of training, exponents (stored in brackets)", ""]
        for name, found in new["growth"]["growth"].items():
            was = old.get("growth", {}).get("growth", {}).get(name)
            parts = [
                f"time ~ {name}^{found['time_exponent']:.2f}",
                f"memory ~ {name}^{found['memory_exponent']:.2f}",
            ]
            then = f"({was['time_exponent']:.2f}, {was['memory_exponent']:.2f})" if was else "(new)"
            lines.append("   ".join([*parts, then]))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--only", help=f"some of {','.join(SCRIPTS)}")
    parser.add_argument("--keep", action="store_true", help="replace the stored figures")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(SCRIPTS)
    if unknown := set(chosen) - set(SCRIPTS):
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}; there are {', '.join(SCRIPTS)}")
    kept = ROOT / "benchmarks" / "results"
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        went = [run(name, options.quick, folder) for name in chosen]
        print(page(stored(folder), stored(kept)))
        if options.keep:
            for name in SMALLER:
                (folder / f"{SCRIPTS[name][0]}.json").unlink(missing_ok=True)
            for name, new in stored(folder).items():
                path = kept / f"{name}.json"
                old = json.loads(path.read_text()) if path.exists() else {}
                path.write_text(json.dumps(old | new, indent=1) + "\n")  # what was not run stays
    return 0 if all(went) else 1


if __name__ == "__main__":
    sys.exit(main())
