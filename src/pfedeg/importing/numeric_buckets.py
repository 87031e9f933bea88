"""Numbers and dates as entities: quantile buckets with readable names such as `age≈25–34`."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Literal

import numpy as np

Kind = Literal["number", "date"]

DETAILS = 4  # levels of detail of `shown`
XSD = "http://www.w3.org/2001/XMLSchema#"
NUMBERS = {
    XSD + name
    for name in (
        *("decimal", "float", "double", "gYear", "integer", "int", "long", "short", "byte"),
        *("nonNegativeInteger", "positiveInteger", "nonPositiveInteger", "negativeInteger"),
        *("unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte"),
    )
}
DATES = {f"{XSD}date", f"{XSD}dateTime", f"{XSD}dateTimeStamp"}
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")


def number_of(text: str, datatype: str | None = None) -> tuple[float, Kind] | None:
    """The value of a number, or a date as days since 1970; None for other text. Without a datatype, it is detected."""
    try:
        if datatype in NUMBERS or (datatype is None and _NUMBER.fullmatch(text)):
            number = float(text)
            return (number, "number") if isfinite(number) else None
        if datatype in DATES or (datatype is None and _DATE.fullmatch(text)):
            moment = datetime.fromisoformat(text)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return moment.timestamp() / 86400, "date"
    except (ValueError, OverflowError):
        pass
    return None


def bucket_names(values: Sequence[float], kind: Kind, number: int, name: str) -> list[str]:
    """The name of the bucket of every value. Buckets are quantiles; few distinct values get a bucket each."""
    numbers = np.asarray(values, np.float64)
    distinct, symbol = np.unique(numbers), "="
    edges = distinct
    if len(distinct) > number:
        edges, symbol = np.unique(np.quantile(numbers, np.arange(1, number) / number)), "≈"
    bucket = np.searchsorted(edges, numbers, side="left")
    inside = {each: numbers[bucket == each] for each in np.unique(bucket).tolist()}
    for detail in range(DETAILS):  # the lowest at which all names differ
        ends = {
            each: (shown(part.min(), kind, detail), shown(part.max(), kind, detail)) for each, part in inside.items()
        }
        if len(set(ends.values())) == len(ends):
            break
    names = {
        each: f"{name}{symbol}{low}" if low == high else f"{name}{symbol}{low}–{high}"
        for each, (low, high) in ends.items()
    }
    return [names[each] for each in bucket.tolist()]


def shown(value: float, kind: Kind, detail: int = 0) -> str:
    """A value as text, with more or less detail."""
    if kind == "date":
        moment = datetime(1970, 1, 1) + timedelta(days=float(value))
        parts = ("minutes", "seconds", "microseconds")[detail - 1]
        return moment.isoformat(" ", parts) if detail else moment.date().isoformat()
    if value == int(value) and abs(value) < 1e15:
        return f"{value + 0.0:.0f}"
    return f"{value:.{(6, 9, 12, 17)[detail]}g}"
