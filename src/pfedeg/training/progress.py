"""Progress as plain text: what a round achieved, on one line of a terminal; elsewhere, a line now and then."""

import shutil
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

from pfedeg.text import duration, printable
from pfedeg.training.rounds import Round

if TYPE_CHECKING:
    from pfedeg.training.run_loop import RunLoop

LINE_SECONDS = 5.0  # between lines, unless one is important


class RoundNotes:
    """Describes the rounds of a run: loss, validation MRR, and the time left at most."""

    def __init__(self, training: "RunLoop") -> None:
        """Call this before the first round."""
        self._training, self._total = training, training.config.rounds
        self._began, self._before = time.monotonic(), training.rounds_done

    def describe(self, done: Round) -> str:
        """A note on a round that has just ended."""
        now, left = time.monotonic(), None
        if done.number == self._before + 1:  # compilation may have slowed this round
            self._began = now
        else:
            left = (now - self._began) / (done.number - self._before - 1) * (self._total - done.number)
        loss = sum(done.loss.values()) / len(done.loss)
        evaluated = [line for line in self._training.history if "valid" in line]
        mrr = evaluated[-1]["valid"]["weighted"]["mrr"] if evaluated else None
        when = "" if done.metrics is not None or not evaluated else f" (round {evaluated[-1]['round']})"
        quality = "" if mrr is None else f", valid MRR {mrr:.4f}{when}"
        remaining = f", at most {duration(left)} left" if left is not None and left >= 0.5 else ""
        return f"round {done.number}/{self._total}, loss {loss:.4f}{quality}{remaining}"


class ProgressLine:
    """Shows notes on one line of a terminal. Elsewhere prints the important ones, and others every few seconds."""

    def __init__(self, label: str, file: TextIO | None = None) -> None:
        """On `file`, by default stderr; each note follows the `label`."""
        self._label, self._file = printable(label), file or sys.stderr
        self._rewrites = self._file is not None and self._file.isatty()
        self._printed, self._width = time.monotonic(), 0

    def show(self, note: str, important: bool = False) -> None:
        """Show a note."""
        now = time.monotonic()
        if self._rewrites:
            room = shutil.get_terminal_size().columns - 1
            text = f"{self._label}: {printable(note)}"[:room]
            self._write("\r" + text.ljust(self._width))
            self._width = len(text)
        elif important or now - self._printed > LINE_SECONDS:
            self._write(f"{self._label}: {printable(note)}\n")
            self._printed = now

    def clear(self) -> None:
        """Remove the line from the terminal."""
        if self._width:
            self._write("\r" + " " * self._width + "\r")
            self._width = 0

    def _write(self, text: str) -> None:
        if self._file is not None:  # Python may run without stderr
            self._file.write(text)
            self._file.flush()


def rounds_with_progress(training: "RunLoop", file: TextIO | None = None) -> Iterator[Round]:
    """The rounds of a run, with their progress shown."""
    line, notes = ProgressLine(training.config.method_type.label, file), RoundNotes(training)
    if training.rounds_done and training.result is None:
        line.show(f"resuming after round {training.rounds_done}", True)
    try:
        for done in training:
            line.show(notes.describe(done), done.metrics is not None)
            yield done
    finally:
        line.clear()
