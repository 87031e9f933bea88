"""Tables for LaTeX: booktabs, numbers aligned to the right, special characters escaped."""

import re
from collections.abc import Sequence

from pfedeg.text import printable

PREAMBLE = "% needs \\usepackage{booktabs} in the preamble; include it with \\input{FILE}\n"
SPECIAL = {
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    '"': "\\textquotedbl{}",
    "–": "--",
    "—": "---",
    "…": "\\ldots{}",
    "±": "$\\pm$",
    "−": "$-$",
    "×": "$\\times$",
    "→": "$\\to$",
    "≥": "$\\geq$",
    "≤": "$\\leq$",
    "²": "$^2$",
    "\u202f": "\\,",
    "\u00a0": "~",
    "α": "$\\alpha$",
    "β": "$\\beta$",
    "γ": "$\\gamma$",
    "μ": "$\\mu$",
    "τ": "$\\tau$",
}


def escape(text: str) -> str:
    """Text as LaTeX source that prints the same; the hyphen of a negative number becomes a minus sign."""
    signed = re.sub(r"(?<![\w.-])-(?=\d)", "−", printable(text))
    return "".join(SPECIAL.get(char, char) for char in signed)


def bold(source: str) -> str:
    """Source in bold; a number with its spread as a whole."""
    return f"\\textbf{{{source}}}"


def booktabs(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: int = 1,
    caption: str = "",
    label: str = "",
    note: str = "",
) -> str:
    """A table of LaTeX source; the first `text_columns` are aligned to the left. Caption and note are plain text."""
    kinds = "".join("l" if place < text_columns else "r" for place in range(len(columns)))
    lines = ["\\begin{table}", "  \\centering"]
    lines += [f"  \\caption{{{escape(caption)}}}"] if caption else []
    lines += [f"  \\label{{{label}}}"] if label else []
    lines += [f"  \\begin{{tabular}}{{{kinds}}}", "    \\toprule"]
    lines += [f"    {' & '.join(columns)} \\\\", "    \\midrule"]
    lines += [f"    {' & '.join(row)} \\\\" for row in rows]
    lines += ["    \\bottomrule", "  \\end{tabular}"]
    lines += [f"  \\par\\smallskip\\footnotesize {escape(note)}"] if note else []
    return "\n".join([*lines, "\\end{table}"]) + "\n"
