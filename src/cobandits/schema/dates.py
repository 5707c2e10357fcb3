"""Dates as text: ISO 8601, and the other common forms that can be read in one way only."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from typing import Literal

__all__ = ["Order", "day_or_month_first", "parsed"]

Order = Literal["day", "month"]  # which of the two comes first in 31/12/2025

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LONG = (
    *("january", "february", "march", "april", "may", "june", "july", "august"),
    *("september", "october", "november", "december", "sept"),
)
_TIME = (
    r"(?:[ T,]+(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d)(?:\.\d+)?)?"
    r"(?:\s*(?P<half>[ap]m))?(?:\s*(?P<zone>z|utc|gmt|[+-]\d\d:?\d\d))?)?"
)
_NUMBERS = re.compile(
    rf"(?P<one>\d{{1,2}})(?P<mark>[/.-])(?P<two>\d{{1,2}})(?P=mark)(?P<year>\d{{4}}){_TIME}", re.I
)
_YEAR_FIRST = re.compile(
    rf"(?P<year>\d{{4}})(?P<mark>[/.-])(?P<month>\d{{1,2}})(?P=mark)(?P<day>\d{{1,2}}){_TIME}", re.I
)
_WEEKDAY = r"(?:(?:mon|tue|wed|thu|fri|sat|sun)[a-z]*,? +)?"
_NAMED = (
    re.compile(
        rf"{_WEEKDAY}(?P<day>\d{{1,2}})(?:st|nd|rd|th)?[ -](?P<name>[a-z]{{3,9}})\.?,?[ -]"
        rf"(?P<year>\d{{4}}){_TIME}",
        re.I,
    ),
    re.compile(
        rf"{_WEEKDAY}(?P<name>[a-z]{{3,9}})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? "
        rf"(?P<year>\d{{4}}){_TIME}",
        re.I,
    ),
)


def parsed(text: str, order: Order | None = None) -> datetime.datetime | None:
    """Return a date or time, or None if the text is none, or could be two.

    Whether 2/1/2025 is in January or in February only ``order`` can tell. With dots days come
    first.

    >>> [str(parsed(text).date()) for text in ("31 Jan 2025", "Jan 31, 2025", "31.1.2025")]
    ['2025-01-31', '2025-01-31', '2025-01-31']
    >>> print(parsed("2/1/2025"), parsed("2/1/2025", "day"), parsed("2025/01/31 2:05 PM"))
    None 2025-01-02 00:00:00 2025-01-31 14:05:00
    """
    text = text.strip()
    try:
        return datetime.datetime.fromisoformat(text)
    except ValueError:
        pass
    try:
        return _other(text, order)
    except ValueError:  # there is no such day or hour
        return None


def day_or_month_first(texts: Iterable[str]) -> Order | Literal["unclear"] | None:
    """Return what comes first in dates such as 31/12/2025; None if there are none of this form.

    One number above 12 tells it for all. ``"unclear"`` if there is none, or one in each place. A
    day of the same number as its month is the same date either way, and says nothing.

    >>> day_or_month_first(["1/2/2025", "31/1/2025"]), day_or_month_first(["1/2/2025"])
    ('day', 'unclear')
    """
    found = [m for m in map(_NUMBERS.fullmatch, (text.strip() for text in texts)) if m]
    pairs = {(int(m["one"]), int(m["two"])) for m in found if m["mark"] != "."}
    pairs = {(one, two) for one, two in pairs if one != two}
    if not pairs:
        return None
    day, month = (any(pair[place] > 12 for pair in pairs) for place in (0, 1))
    if day == month:
        return "unclear"
    return "day" if day else "month"


def _other(text: str, order: Order | None) -> datetime.datetime | None:
    if match := _NUMBERS.fullmatch(text):
        one, two = int(match["one"]), int(match["two"])
        if order is None and match["mark"] != "." and one <= 12 and two <= 12 and one != two:
            return None
        month_first = order == "month" or (order is None and two > 12)
        month, day = (one, two) if month_first and match["mark"] != "." else (two, one)
        return _made(match, month, day)
    if match := _YEAR_FIRST.fullmatch(text):
        return _made(match, int(match["month"]), int(match["day"]))
    for form in _NAMED:
        if (match := form.fullmatch(text)) and _is_month(match["name"]):
            month = 1 + _MONTHS.index(match["name"][:3].lower())
            return _made(match, month, int(match["day"]))
    return None


def _is_month(name: str) -> bool:
    return name.lower() in _MONTHS or name.lower() in _LONG


def _made(match: re.Match[str], month: int, day: int) -> datetime.datetime:
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if match["half"]:
        if not 1 <= hour <= 12:
            raise ValueError(f"no hour {hour} before or after noon")
        hour = hour % 12 + 12 * (match["half"].lower() == "pm")
    found = datetime.datetime(int(match["year"]), month, day, hour, minute, second)
    zone = (match["zone"] or "").upper()
    if zone in ("", "Z", "UTC", "GMT"):
        return found.replace(tzinfo=datetime.UTC) if zone else found
    return found.replace(tzinfo=datetime.datetime.strptime(zone, "%z").tzinfo)
