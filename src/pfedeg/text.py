"""Text for users: counts, durations, suggestions for mistyped names, and names made safe for a terminal."""

import difflib
from collections.abc import Iterable

FEW = 15  # names that an error message lists


def printable(text: str) -> str:
    """The text with line breaks and control characters escaped, safe to print on a terminal."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def plural(number: int, noun: str) -> str:
    """A count with its noun: "1 client", "2 clients", "3 entities"."""
    nouns = f"{noun[:-1]}ies" if noun.endswith("ty") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else nouns}"


def duration(seconds: float) -> str:
    """A duration such as "under 1 s", "8 s", "3 min 05 s" or "2 h 10 min"."""
    if 0 < seconds < 0.5:
        return "under 1 s"
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def similar(name: str, known: Iterable[str]) -> list[str]:
    """Up to three known names that begin with a name, or else resemble it."""
    folded, wanted = {other.casefold(): other for other in known}, name.casefold()
    prefixed = sorted((other for other in folded if wanted and other.startswith(wanted)), key=len)[:3]
    return [folded[match] for match in prefixed or difflib.get_close_matches(wanted, folded, 3, 0.6)]


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: similar known names, or all of them if they are few."""
    names = list(known)
    if found := similar(name, names):
        return f"; did you mean {' or '.join(repr(match) for match in found)}?"
    return f"; choose from {', '.join(names)}" if 0 < len(names) <= FEW else ""
