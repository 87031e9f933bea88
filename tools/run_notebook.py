"""Runs the notebook in examples/ and stores what its cells print: no Jupyter is needed."""

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).resolve().parent.parent / "examples" / "first_steps.ipynb"


def execute(notebook: dict[str, Any]) -> list[str]:
    """What each code cell prints on stdout. The cells run in order, in one fresh namespace."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    printed = []
    for number, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] == "code":
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile("".join(cell["source"]), f"cell {number}", "exec"), namespace)
            printed.append(output.getvalue())
    return printed


def main() -> None:
    """Run all cells in a temporary folder and store their outputs."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        printed = execute(notebook)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, text) in enumerate(zip(code, printed, strict=True), 1):
        lines = text.splitlines(keepends=True)
        cell["execution_count"] = number
        cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
    NOTEBOOK.write_text(json.dumps(notebook, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
