"""The README cannot go stale: its transcripts and its Python example are run, its links and lists are checked.

In a transcript, `$ ` starts a command and `…` stands for what is left out. Text must agree to the letter; metrics,
ranks and shares may differ a little, since another processor rounds differently, and times may be anything.
"""

import contextlib
import io
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pfedeg.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
TIME = re.compile(r"\d+ min \d+ s|\d+ s\b")
TOLERANCE = 0.03


def blocks(kind: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", page, re.M | re.S)


def transcript(page: str = README) -> Iterator[tuple[str, list[str]]]:
    """Each command of a page's console blocks with the output it promises."""
    for block in blocks("console", page):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            yield command, lines


def differences(expected: list[str], actual: list[str]) -> list[str]:
    """What the README says and the output does not; both in order."""
    missing, place = [], 0
    for line in expected:
        if line.strip() in ("…", ""):
            continue
        found = next((i for i in range(place, len(actual)) if alike(line, actual[i])), None)
        if found is None:
            missing.append(line)
        else:
            place = found + 1
    return missing


def alike(expected: str, actual: str) -> bool:
    expected, actual = (TIME.sub("some time", " ".join(text.split())) for text in (expected, actual))
    shape = re.escape(NUMBER.sub("#", expected)).replace("…", ".*")
    if not re.fullmatch(shape, NUMBER.sub("#", actual)):
        return False
    rough = "rank " in expected or "%" in expected
    return all(close(a, b, rough) for a, b in zip(NUMBER.findall(expected), NUMBER.findall(actual), strict=False))


def close(a: str, b: str, rough: bool) -> bool:
    if rough:
        return abs(float(a) - float(b)) <= max(3, 0.3 * float(a))
    return a == b or ("." in a and abs(float(a) - float(b)) <= TOLERANCE * max(1, abs(float(a))))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


def follow(page: str, place: Path) -> None:
    """Run the commands of a page, and compare what they print."""
    commands = list(transcript(page))
    assert commands, "the page shows no transcript"
    for command, expected in commands:
        words = shlex.split(command)
        start = {"pfedeg": ["-m", "pfedeg"], "python": [str(ROOT / words[1])]}[words[0]]
        rest = words[1:] if words[0] == "pfedeg" else words[2:]
        done = subprocess.run([sys.executable, *start, *rest], cwd=place, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        missing = differences(expected, (done.stderr + done.stdout).split("\n"))
        assert not missing, f"`{command}` no longer prints:\n" + "\n".join(missing) + "\n\nbut:\n" + done.stdout


def test_transcripts(place: Path) -> None:
    follow(README, place)


def test_python_example(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    (example,) = blocks("python")
    promised = re.findall(r"^# → (.*)$", example, re.M)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(example, "README.md", "exec"), {})
    assert promised
    missing = differences(promised, output.getvalue().split("\n"))
    assert not missing, f"the Python example no longer prints {missing}, but:\n{output.getvalue()}"


def test_comparison_says_what_the_transcript_says() -> None:
    shown = {tuple(NUMBER.findall(line)) for block in blocks("console") for line in block.split("\n") if "│" in line}
    rows = re.findall(r"^\| (?:Single|FedE|PFedEG\\\*|PFedEG\+) \|.*$", README, re.M)
    assert len(rows) == 4
    assert {tuple(NUMBER.findall(row)) for row in rows} <= shown


def test_every_command_is_listed() -> None:
    for name in cli.commands:
        assert f"`pfedeg {name}" in README, f"the README does not mention pfedeg {name}"


def test_make_targets_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^    |`)make ([\w-]+)", README, re.M):
        assert re.search(rf"^{target}:", makefile, re.M), f"no target {target} in the Makefile"


@pytest.mark.parametrize(
    "page", sorted(["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))])
)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        if "://" not in link:
            assert ((ROOT / page).parent / link).exists(), f"{page} links to {link}, which is not there"
