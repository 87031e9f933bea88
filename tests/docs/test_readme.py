"""The README is up to date: its transcripts, Python examples, picture and links are checked.

In a transcript, `$ ` starts a command and `…` stands for omitted text. Text must agree to the letter; metrics,
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
import readme_picture

from pfedeg.cli.main import cli

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
TIME = re.compile(r"\d+ min \d+ s|(?:under )?\d+ s\b")
DARK = re.compile(r"prefers-color-scheme: dark\) \{.*?\n\}", re.S)
TOLERANCE = 0.03


def blocks(kind: str, page: str = README) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", page, re.M | re.S)


def transcript(page: str = README) -> Iterator[tuple[str, list[str]]]:
    """Each command in a page's console blocks, with its documented output."""
    for block in blocks("console", page):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            yield command, lines


def differences(expected: list[str], actual: list[str]) -> list[str]:
    """Documented lines that are missing from the output."""
    missing, start = [], 0
    for line in expected:
        if line.strip() in ("…", ""):
            continue
        found = next((i for i in range(start, len(actual)) if alike(line, actual[i])), None)
        if found is None:
            missing.append(line)
        else:
            start = found + 1
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("readme")


def follow(page: str, folder: Path) -> None:
    """Run the commands of a page, and compare what they print."""
    commands = list(transcript(page))
    assert commands, "the page shows no transcript"
    for command, expected in commands:
        words = shlex.split(command)
        start = {"pfedeg": ["-m", "pfedeg"], "python": [str(ROOT / words[1])]}[words[0]]
        rest = words[1:] if words[0] == "pfedeg" else words[2:]
        done = subprocess.run([sys.executable, *start, *rest], cwd=folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        missing = differences(expected, (done.stderr + done.stdout).split("\n"))
        assert not missing, f"`{command}` no longer prints:\n" + "\n".join(missing) + "\n\nbut:\n" + done.stdout


def test_transcripts(folder: Path) -> None:
    follow(README, folder)


def test_python_example(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    example = "".join(blocks("python"))
    documented = re.findall(r"^# → (.*)$", example, re.M)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(example, "README.md", "exec"), {})
    assert documented
    missing = differences(documented, output.getvalue().split("\n"))
    assert not missing, f"the Python example no longer prints {missing}, but:\n{output.getvalue()}"


def test_the_first_example_has_ten_lines() -> None:
    assert len(blocks("python")[0].splitlines()) <= 11


def test_picture_is_up_to_date(folder: Path) -> None:
    if not (folder / "runs" / "demo" / "pfedeg-plus" / "result.json").exists():
        subprocess.run([sys.executable, "-m", "pfedeg", "demo"], cwd=folder, check=True, capture_output=True)
    new = readme_picture.picture(folder / "runs" / "demo", "svg").decode()
    old = (ROOT / "docs" / "plots" / "demo.svg").read_text(encoding="utf-8")
    assert "docs/plots/demo.svg" in README
    assert [match[0] for match in DARK.finditer(new)] == [match[0] for match in DARK.finditer(old)] != []
    texts = [re.findall(r"<text [^>]*>([^<]*)</text>", each) for each in (old, new)]
    assert len(texts[0]) == len(texts[1]) > 60
    wrong = [f"{was}: now {is_}" for was, is_ in zip(*texts, strict=True) if not drawn_alike(was, is_)]
    assert not wrong, "run `make picture`: " + ", ".join(wrong)


def drawn_alike(old: str, new: str) -> bool:
    """Whether two pictures agree: shares within a percentage point, MRR within 0.03, everything else equal."""
    if old.endswith("%") and new.endswith("%"):
        return abs(float(old[:-1]) - float(new[:-1])) <= 1
    if old.startswith(".") and new.startswith("."):
        return abs(float(old) - float(new)) <= TOLERANCE
    return old == new


def test_speed_table_agrees_with_the_performance_page() -> None:
    rows = re.findall(r"^\| [^|]*times as fast as Py[^|]*\|(.*)\|$", README, re.M)
    factors = [factor for row in rows for factor in NUMBER.findall(row)]
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert len(factors) == 8
    assert [factor for factor in factors if f" {factor}×" not in page] == []
    (claim,) = re.findall(r"\*\*(\d+) times as fast as PyKEEN\*\*", README)
    assert claim == factors[0]


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
def test_links_are_valid(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for link, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", text):
        if "://" in link:
            continue
        target = (ROOT / page).parent / link if link else ROOT / page
        assert target.exists(), f"{page} links to {link}, which is not there"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page} links to {link}#{anchor}, which is not a heading"


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
