"""Copy the small files of finished runs (settings, provenance, history, result), to keep them in the repository."""

import shutil
import sys
from pathlib import Path

from pfedeg.checked_files import read_json, write_json

FILES = ("config.json", "history.jsonl", "result.json")


def keep(runs: Path, out: Path) -> int:
    """Every finished run below `runs`, under the same name below `out`; data paths are reduced to file names."""
    found = sorted(path.parent for path in runs.rglob("result.json") if (path.parent / "provenance.json").exists())
    for run in found:
        target = out / run.relative_to(runs)
        target.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.copyfile(run / name, target / name)
        provenance = read_json(run / "provenance.json")
        provenance["data"] = Path(provenance["data"]).name
        write_json(target / "provenance.json", provenance)
    return len(found)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python tools/keep_results.py RUNS RESULTS")
    print(f"{keep(Path(sys.argv[1]), Path(sys.argv[2]))} runs")
