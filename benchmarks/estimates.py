"""What `pfedeg inspect` foretells of time and memory beside what training then takes, for every model and method.

    python benchmarks/estimates.py --data DIR/fb15k-237-fed3.parquet --preset quick

Each run is a process of its own, three rounds long, the third with an evaluation; its first round, which may compile,
does not count. Time is that of a round with its share of evaluations, memory the process's peak.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROUNDS = 3


def real(data: Path, preset: str, model: str, method: str, threads: str) -> tuple[float, float, float]:
    """Seconds of a round without evaluation and of one with it, and bytes at most."""
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "run"
        flags = ["--preset", preset, "--model", model, "--method", method, "--threads", threads]
        length = ["--rounds", str(ROUNDS), "--eval-every", str(ROUNDS)]
        command = [sys.executable, "-m", "pfedeg", "train", str(data), *flags, *length, "--out", str(out)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        if status:
            raise SystemExit(f"failed: {' '.join(command)}")
        lines = [json.loads(line) for line in (out / "history.jsonl").read_text().splitlines()]
        return lines[1]["seconds"], lines[2]["seconds"], 1024 * usage.ru_maxrss


def main() -> None:
    """Print a line for each model and method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--preset", default="quick")
    parser.add_argument("--models", nargs="+", default=["transe", "rotate", "complex", "distmult"])
    parser.add_argument("--methods", nargs="+", default=["single", "collective", "fede", "fedec", "pfedeg-plus"])
    parser.add_argument("--threads", default="2")
    options = parser.parse_args()
    inspect = [sys.executable, "-m", "pfedeg", "inspect", str(options.data), "--preset", options.preset]
    length = ["--rounds", str(ROUNDS), "--eval-every", str(ROUNDS), "--threads", options.threads, "--json"]
    told = json.loads(subprocess.run([*inspect, *length], check=True, capture_output=True, text=True).stdout)
    runs = {(run["model"], run["method"]): run for run in told["estimates"]["runs"]}
    for model in options.models:
        for method in options.methods:
            plain, evaluated, peak = real(options.data, options.preset, model, method, options.threads)
            took = plain + max(0.0, evaluated - plain) / ROUNDS
            run = runs[model, method]
            seconds, size = run["seconds_per_round"], run["bytes"]
            print(f"{model:8} {method:12}", end=" ")
            if seconds is not None:
                print(f"{seconds:6.2f} s told, {took:6.2f} taken, {seconds / took:.2f}", end="; ")
            print(f"{size / 1e6:6,.0f} MB told, {peak / 1e6:6,.0f} taken, {size / peak:.2f}", flush=True)


if __name__ == "__main__":
    main()
