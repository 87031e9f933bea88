"""Text for people: plurals, durations, hints at mistyped names, and no control characters."""

import difflib
from typing import Any


def printable(text: str) -> str:
    """A text without line breaks and control characters, which could otherwise write to the user's terminal."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


def plural(number: int, thing: str) -> str:
    """A number of things, in words that agree."""
    many = f"{thing[:-1]}ies" if thing.endswith("ty") else f"{thing}s"
    return f"{number:,} {thing if number == 1 else many}"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def suggest(name: str, among: Any) -> str:
    """A hint at the likely meant name, or at all names if there are few."""
    names = list(among)
    folded, wanted = {other.casefold(): other for other in names}, name.casefold()
    begun = sorted((other for other in folded if wanted and other.startswith(wanted)), key=len)[:3]
    close = [folded[match] for match in begun or difflib.get_close_matches(wanted, folded, 3, 0.6)]
    if close:
        return f"; did you mean {' or '.join(repr(match) for match in close)}?"
    return f"; choose from {', '.join(names)}" if 0 < len(names) <= 30 else ""
