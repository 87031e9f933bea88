"""Runs a command in a child process with little memory and time, and says whether it held."""

import os
import resource
import subprocess
import sys
from pathlib import Path
from random import Random

MEMORY, SECONDS = 4 << 30, 60  # address space, most of which the libraries reserve; CPU time
ALLOWED = (0, 2)

# Many command lines in one process: starting one takes longer than the command.
RUNNER = """
import os, resource, sys
from pfedeg.cli import main
import pfedeg.importing.dispatch, pfedeg.training.saved_run, pyarrow.parquet, pyoxigraph
for line in sys.stdin:
    words = line.rstrip("\\n").split("\\t")
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
        resource.setrlimit(resource.RLIMIT_CPU, ({seconds}, {seconds}))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(words[0], os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = ["pfedeg", *words[1:]]
        code = 0
        try:
            main.main()
        except SystemExit as error:
            code = error.code or 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


class Runner:
    """A process that runs commands in children of its own; a killed child does not end it."""

    def __init__(self, folder: Path) -> None:
        self._errors = folder / "stderr"
        code = RUNNER.format(memory=MEMORY, seconds=SECONDS)
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder
        )

    def run(self, *words: object) -> tuple[int, str]:
        """Exit code and stderr."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\t".join([str(self._errors), *map(str, words)]) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return code, self._errors.read_text(encoding="utf-8", errors="replace")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(10)
        if self._process.stdout is not None:
            self._process.stdout.close()


def complaint(code: int, errors: str) -> str:
    """What is wrong with the end of a command; empty if it succeeded, or refused its input in one line."""
    lines = [line for line in errors.splitlines() if line.startswith("error: ")]
    if "internal error" in errors or "Traceback" in errors:
        return errors[-2000:]
    if code not in ALLOWED:
        return f"exit code {code}: {errors[-2000:]}"
    if code == 2 and (len(lines) != 1 or not errors.rstrip("\n").splitlines()[-1].startswith("error: ")):
        return f"not one line: {errors[-2000:]}"
    return ""


def mutated(content: bytes, random: Random) -> bytes:
    """The content with some bytes changed, left out, repeated, swapped or put in."""
    data = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        at = random.randrange(len(data) + 1)
        length = random.choice((1, 1, 2, 8, 64))
        how = random.randrange(7)
        if how == 0 and data:
            data[at % len(data)] ^= 1 << random.randrange(8)
        elif how == 1:
            del data[at : at + length]
        elif how == 2:
            data[at:at] = random.randbytes(length)
        elif how == 3:
            data[at:at] = data[at : at + length] * random.choice((2, 100))
        elif how == 4:
            data[at:at] = random.choice(PIECES)
        elif how == 5:
            del data[at:]
        else:
            other = random.randrange(len(data) + 1)
            data[at : at + length] = data[other : other + length]
    return bytes(data)


PIECES = (
    *(b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\n", b"\r", b"\t", b'"', b"'''", b"<<", b"<<(", b"]]>", b"&lt;", b"&x;"),
    *(b"<!--", b"<![CDATA[", b"\xef\xbb\xbf", b"-1", b"NaN", b"null", b"true", b"{}", b"[]", b"1e999", b"[" * 3000),
    *(b'{"a":' * 3000, b"9" * 5000, b"a" * 200_000, b"@base <http://x/> .\n", b"\\u0000", b"\\", b"%", b",,,", b"1e5"),
)


def ends(path: Path) -> None:
    """Remove what a command left."""
    if path.is_dir():
        for each in sorted(path.rglob("*"), reverse=True):
            each.rmdir() if each.is_dir() and not each.is_symlink() else each.unlink()
        os.rmdir(path)
    elif path.exists():
        path.unlink()


__all__ = ["MEMORY", "Runner", "complaint", "ends", "mutated", "resource"]
