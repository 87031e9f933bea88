"""Copy the small files of finished runs (settings, provenance, history, result), to keep them in the repository."""

import json
import shutil
import sys
from pathlib import Path

FILES = ("config.json", "history.jsonl", "result.json")


def keep(runs: Path, out: Path) -> int:
    """Every finished run below `runs`, under the same name below `out`; data paths are reduced to file names."""
    found = sorted(path.parent for path in runs.rglob("result.json") if (path.parent / "provenance.json").exists())
    for run in found:
        target = out / run.relative_to(runs)
        target.mkdir(parents=True, exist_ok=True)
        for name in FILES:
            shutil.copyfile(run / name, target / name)
        provenance = json.loads((run / "provenance.json").read_text(encoding="utf-8"))
        provenance["data"] = Path(provenance["data"]).name
        text = json.dumps(provenance, indent=2, ensure_ascii=False) + "\n"
        (target / "provenance.json").write_text(text, encoding="utf-8")
    return len(found)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python tools/keep_results.py RUNS RESULTS")
    print(f"{keep(Path(sys.argv[1]), Path(sys.argv[2]))} runs")
