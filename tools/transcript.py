"""Runs the commands that a page shows, compares what they print with the page, and rewrites the shown output.

In a console block, `$ ` starts a command; in a Python block, `# → ` shows a printed line; `…` stands for omitted text.
Text and counts must agree to the letter. Metrics may differ by `METRIC`, ranks and shares by more, since processors
round differently: with `NUMBA_CPU_NAME=generic NUMBA_CPU_FEATURES=` in place of AVX-512, no MRR of a client changes by
more than 0.015. Times may be anything.
"""

import contextlib
import difflib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
TIME = re.compile(r"\d+ min \d+ s|(?:under )?\d+ s\b")
ARROW = "# → "
METRIC = 0.02
SIMILAR = 0.6  # how alike a line must be to replace another one


@dataclass(frozen=True)
class Shown:
    """A command on a page, the lines shown as its output, and what it printed now."""

    command: str
    lines: tuple[str, ...]
    printed: tuple[str, ...]

    @property
    def outdated(self) -> list[str]:
        """Shown lines that it no longer prints, in their order."""
        return [line for line, at in zip(self.lines, located(self.lines, self.printed), strict=True) if at is None]


def blocks(kind: str, page: str) -> list[str]:
    """The content of a page's code blocks of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```", page, re.M | re.S)


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """Each command in a page's console blocks, with its shown output."""
    for block in blocks("console", page):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            yield command, lines


def run_page(page: str, folder: Path) -> list[Shown]:
    """Run all commands of a page in a folder, then all its Python blocks as one program."""
    found = [Shown(command, tuple(lines), _printed(command, folder)) for command, lines in commands(page)]
    program = "".join(blocks("python", page))
    if shown := [line.partition(ARROW)[2] for line in program.splitlines() if line.startswith(ARROW)]:
        found.append(Shown("the Python example", tuple(shown), tuple(_executed(program, folder).split("\n"))))
    assert found, "the page shows no output"
    return found


def _printed(command: str, folder: Path) -> tuple[str, ...]:
    words = shlex.split(command)
    start = {"pfedeg": ["-m", "pfedeg"], "python": [str(ROOT / words[1])]}[words[0]]
    rest = words[1:] if words[0] == "pfedeg" else words[2:]
    done = subprocess.run([sys.executable, *start, *rest], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return tuple((done.stderr + done.stdout).split("\n"))


def _executed(program: str, folder: Path) -> str:
    before, output = Path.cwd(), io.StringIO()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(output):
            exec(compile(program, "the page's Python blocks", "exec"), {})
    finally:
        os.chdir(before)
    return output.getvalue()


def located(lines: Sequence[str], printed: Sequence[str]) -> list[int | None]:
    """Where each shown line was printed, in order; None if it was not, 0 for blank and omitted lines."""
    found: list[int | None] = []
    start = 0
    for line in lines:
        if line.strip() in ("…", ""):
            found.append(0)
            continue
        at = next((i for i in range(start, len(printed)) if alike(line, printed[i])), None)
        start = start if at is None else at + 1
        found.append(at)
    return found


def alike(expected: str, actual: str) -> bool:
    """Whether a shown and a printed line agree."""
    expected, actual = (TIME.sub("some time", " ".join(text.split())) for text in (expected, actual))
    if not (match := _shape(expected).fullmatch(actual)):
        return False
    rough = "rank " in expected or "%" in expected
    return all(_close(a, b, rough) for a, b in zip(NUMBER.findall(expected), match.groups(), strict=True))


def _shape(expected: str) -> re.Pattern[str]:
    """A pattern for a line with any numbers, and any text in place of `…`."""
    parts = [re.escape(part).replace("…", ".*") for part in NUMBER.split(expected)]
    return re.compile(r"(-?\d+(?:\.\d+)?)".join(parts))


def _close(a: str, b: str, rough: bool) -> bool:
    if rough:
        return abs(float(a) - float(b)) <= max(3, 0.3 * float(a))
    return a == b or ("." in a and abs(float(a) - float(b)) <= METRIC * max(1, abs(float(a))))


def rewritten(page: str, shown: Sequence[Shown]) -> tuple[str, list[str]]:
    """The page with the output of this run where any of it is outdated, and the lines that need an author."""
    if not any(each.outdated for each in shown):
        return page, []
    open_lines, at = [], 0
    for each in shown:
        is_python = each.command not in page
        at = at if is_python else page.index(f"$ {each.command}", at) + len(each.command)
        start, line = 0 if is_python else at, 0
        for old in each.lines:
            new, line = _replacement(old, each.printed, line)
            if new is None:
                open_lines.append(f"{each.command}: {old}")
                continue
            mark = ARROW if is_python else ""
            place = page.index(f"\n{mark}{old}\n", start) + 1 + len(mark)
            page = page[:place] + new + page[place + len(old) :]
            start = place + len(new) - 1
        at = at if is_python else start
    return page, open_lines


def _replacement(old: str, printed: Sequence[str], start: int) -> tuple[str | None, int]:
    """What to show in place of a line, None if that takes an author; and from where on to look for the next one."""
    if old.strip() in ("…", "") or TIME.search(old):
        return old, start
    ahead = range(start, len(printed))
    shape = _shape(" ".join(old.split()))
    same = [at for at in ahead if shape.fullmatch(" ".join(printed[at].split()))]  # the same text, other numbers
    at = next((at for at in same if alike(old, printed[at])), same[0] if same else None)
    if at is not None:
        match = shape.fullmatch(" ".join(printed[at].split()))
        numbers = iter(match.groups() if match else ())
        return (NUMBER.sub(lambda _: next(numbers), old) if "…" in old else printed[at].rstrip()), at + 1
    close = difflib.get_close_matches(old, printed[start:], 1, SIMILAR)
    if not close or "…" in old:
        return None, start
    return close[0].rstrip(), printed.index(close[0], start) + 1
