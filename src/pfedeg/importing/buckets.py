"""Numbers and dates become entities that can be read: quantile buckets such as `age≈25–34`."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from math import isfinite
from typing import Literal

import numpy as np

Kind = Literal["number", "date"]

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
    """A value on a scale, if it is one: a number, or the days since 1970 of a date. Without a type, by its looks."""
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


def cut(values: Sequence[float], kind: Kind, many: int, name: str) -> list[str]:
    """The bucket of every value: about equally many in each; few distinct values stay as they are."""
    numbers = np.asarray(values, np.float64)
    distinct = np.unique(numbers)
    if len(distinct) <= many:
        return [f"{name}={shown(value, kind)}" for value in numbers.tolist()]
    edges = np.unique(np.quantile(numbers, np.arange(1, many) / many))
    bucket = np.searchsorted(edges, numbers, side="left")
    names = {}
    for each in np.unique(bucket).tolist():
        inside = numbers[bucket == each]
        low, high = shown(inside.min(), kind), shown(inside.max(), kind)
        names[each] = f"{name}≈{low}" if low == high else f"{name}≈{low}–{high}"
    return [names[each] for each in bucket.tolist()]


def shown(value: float, kind: Kind) -> str:
    """A value as people write it."""
    if kind == "date":
        return (date(1970, 1, 1).fromordinal(date(1970, 1, 1).toordinal() + int(value // 1))).isoformat()
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"
