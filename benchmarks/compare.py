"""Two checkouts on the same machine, epoch by epoch in turn: how fast the second is relative to the first.

python benchmarks/compare.py 32c9117 HEAD
python benchmarks/compare.py HEAD . --only own shared     the working tree, training only

Each side is a commit, or a folder with a checkout in it ("." is the working tree). Columns are task/model/threads for
training (own: own negatives and the pull; shared: shared negatives) and ranking, and task/clients for the server.
Where a process happens to lie in memory changes own negatives by up to a third, so several processes of each side run.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

from pfedeg.engine.interface import cores

MODELS = ("transe", "rotate", "complex")
WORKER = Path(__file__).with_name("compare_worker.py")


def columns(threads: Sequence[int]) -> list[str]:
    """All columns, in the order of the table."""
    trained = [f"{task}/{model}/{n}" for task in ("own", "shared") for model in MODELS for n in threads]
    ranked = [f"rank/{model}/{threads[-1]}" for model in MODELS]
    return trained + ranked + [f"{task}/{clients}/" for task in ("mix", "mean", "weights") for clients in (3, 300)]


@contextmanager
def checkout(name: str) -> Iterator[Path]:
    """The folder of a checkout; a commit is checked out into a temporary git worktree."""
    if Path(name).is_dir():
        yield Path(name).resolve()
        return
    with TemporaryDirectory(prefix="pfedeg-compare-") as folder:
        tree = Path(folder) / "tree"
        done = subprocess.run(
            ["git", "worktree", "add", "--detach", str(tree), name], cwd=WORKER.parent, capture_output=True, text=True
        )
        if done.returncode:
            sys.exit(f"{name}: neither a folder nor a commit that git can check out ({done.stderr.strip()})")
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=WORKER.parent, check=True)


class Side:
    """A worker process that runs one checkout's code."""

    def __init__(self, tree: Path, settings: str) -> None:
        """The worker begins at once."""
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(WORKER), settings],
            env=os.environ | {"PYTHONPATH": str(tree / "src")},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, column: str) -> None:
        """Send a column."""
        assert self._process.stdin
        self._process.stdin.write(f"{column}\n")
        self._process.stdin.flush()

    def receive(self) -> float:
        """The seconds of the column that was sent last."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            sys.exit("a worker has failed: see above")
        return float(line)

    def close(self) -> None:
        """End the worker."""
        self._process.communicate()


def compare(sides: Sequence[Side], column: str, seconds: float) -> list[float]:
    """The shortest time of each side, in turn, for this number of seconds and at least four times."""
    for side in sides:  # compile at the same time, and warm up
        side.send(column)
    best = [side.receive() for side in sides]
    began, turns = time.monotonic(), 0
    while turns < 4 or time.monotonic() - began < seconds:
        for i, side in enumerate(sides):
            side.send(column)
            best[i] = min(best[i], side.receive())
        turns += 1
    return best


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base", help="a commit, or a folder")
    parser.add_argument("head", help="a commit, or a folder")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="columns that begin with one of these")
    parser.add_argument("--data", type=Path, help="a Parquet file: its first client, not a synthetic graph")
    parser.add_argument("--triples", type=int, default=20_480, help="triples in an epoch (default: %(default)s)")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, cores()}), help="default: 1 and all cores")
    parser.add_argument("--seconds", type=float, default=2.0, help="per column and process (default: %(default)s)")
    parser.add_argument("--processes", type=int, default=4, help="of each side, one after another (default: 4)")
    return parser.parse_args()


def main() -> None:
    """Measure and print."""
    options = read_options()
    chosen = [column for column in columns(options.threads) if column.startswith(tuple(options.only))]
    settings = json.dumps([options.data and str(options.data.resolve()), options.triples])
    best = {column: [inf, inf] for column in chosen}
    with ExitStack() as stack:
        trees = [stack.enter_context(checkout(name)) for name in (options.base, options.head)]
        for number in range(options.processes):
            print(f"process {number + 1} of {options.processes}", file=sys.stderr)
            order = (0, 1) if number % 2 == 0 else (1, 0)
            sides = [Side(trees[i], settings) for i in order]
            for column in chosen:
                for i, found in zip(order, compare(sides, column, options.seconds), strict=True):
                    best[column][i] = min(best[column][i], found)
            for side in sides:
                side.close()
    print(f"{'column':20} {options.base[:12]:>12} {options.head[:12]:>12}  speed of the second relative to the first")
    for column, (base, head) in best.items():
        print(f"{column.rstrip('/'):20} {1e3 * base:9.1f} ms {1e3 * head:9.1f} ms {base / head:6.2f}")
    ratios = [base / head for base, head in best.values()]
    print(f"slowest {min(ratios):.2f}, fastest {max(ratios):.2f}")


if __name__ == "__main__":
    main()
