"""JSON logs of iperf3: one or several documents (``--json``), or one event a line (``--json-stream``)."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bentpipe.fit.log_formats import Transfer, log_error
from bentpipe.scenario.errors import ScenarioError

if TYPE_CHECKING:
    from pathlib import Path

    from bentpipe.fit.log_formats import Log, Side

__all__ = ["read"]

SUMS = ""
"""Key of all sums of a table, in order.

iperf3 3.7 to 3.10 repeats the key ``sum``, once for each direction of ``--bidir`` (esnet/iperf, issue 952).
"""
_SUM_KEYS = ("sum", "sum_bidir_reverse", "sum_sent", "sum_sent_bidir_reverse")
_EVENT = '{"event"'
_SPACE = re.compile(r"\s*")
_MSS_BYTES = 1448
"""Payload of a segment in an IPv4 packet of 1500 bytes with timestamps, where the log says 0, as a server's does."""
_MOST = 1e21
_REMAINDER = 0.5
"""Share of the longest interval: a shorter one is the remainder at a test's end, of some ms."""
_EXPECTED = "expected iperf3's JSON with start, test_start and intervals"


def read(text: str, log: Log) -> None:
    """Add the rate of each interval and the TCP transfers to ``log``.

    Intervals that ``-O`` omits and a remainder at the end are excluded; the others begin after the omitted ones. An
    interrupted test gives the intervals before its end, and a note.

    Args:
        text: content of the file.
        log: receives rates, transfers and notes.

    Raises:
        ScenarioError: invalid JSON (with its line), not iperf3's, or without interval.
    """
    cookies = set()
    failure = ""
    for document in _documents(text, log):
        if not isinstance(document, dict):
            raise log_error(log.path, None, f"{_EXPECTED}; found no table")
        failure = str(document.get("error") or failure)
        if failure and not document.get("intervals"):
            continue
        try:
            cookie = document["start"].get("cookie")
            if cookie is None or cookie not in cookies:  # --json-stream-full-output has each test twice
                cookies.add(cookie)
                _Test(document, log.path).add_to(log)
        except ScenarioError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else f"found other: {error}"
            raise log_error(log.path, None, f"{_EXPECTED}; {what}") from None
    if not log.rates:
        text = f"iperf3 error: {failure}" if failure else "iperf3 measured no interval"
        raise log_error(log.path, None, text)
    for side, (times, _) in log.rates.items():
        if any(after < before for before, after in pairwise(times)):
            text = f"the rate {side}: time goes backwards, expected one test after the other"
            raise log_error(log.path, None, text)
    if failure:
        log.notes.append(f'iperf3 ended early ("{failure[:80]}"): only the intervals before are used')


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    sums = [value for key, value in pairs if key in _SUM_KEYS]
    if sums:
        table[SUMS] = sums
    return table


def _documents(text: str, log: Log) -> list[Any]:
    """Return all documents; events are joined."""
    decoder = json.JSONDecoder(object_pairs_hook=_table)
    found: list[Any] = []
    at = 0
    while (at := _end_of_space(text, at)) < len(text):
        try:
            value, end = decoder.raw_decode(text, at)
        except json.JSONDecodeError as error:
            rest = text[at:].rstrip()
            if _is_stream(found) and _EVENT.startswith(rest[: len(_EVENT)]) and "\n" not in rest:
                log.notes.append(f"line {error.lineno} is truncated: only the data before it is used")
                break
            excerpt = text[error.pos : error.pos + 20].partition("\n")[0]
            raise log_error(log.path, error.lineno, f'not JSON: {error.msg}, found "{excerpt}"') from None
        except ValueError as error:
            raise log_error(log.path, None, f"not iperf3 JSON: {error}") from None
        except RecursionError:
            raise log_error(log.path, None, "not iperf3 JSON: lists in lists in lists") from None
        at = end
        _append(found, value)
    return found


def _end_of_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _is_stream(found: list[Any]) -> bool:
    return bool(found) and isinstance(found[-1], dict) and isinstance(found[-1].get("intervals"), list)


def _append(found: list[Any], value: Any) -> None:
    """Add a document, or an event to the document that its test has so far."""
    event = value.get("event") if isinstance(value, dict) else None
    if event is None:
        found.append(value)
    elif event == "start":
        found.append({"start": value.get("data"), "intervals": []})
    elif event == "interval":
        if not _is_stream(found):
            found.append({"intervals": []})
        found[-1]["intervals"].append(value.get("data"))
    elif event in ("end", "error", "server_output_json") and found and isinstance(found[-1], dict):
        found[-1][event] = value.get("data")
    elif event == "error":
        found.append({"error": value.get("data")})


@dataclass
class _Test:
    """One test of a document."""

    document: dict[str, Any]
    path: Path

    def add_to(self, log: Log) -> None:
        """Add rates, segments and retransmissions to ``log``; the server's too (``--get-server-output``)."""
        begin_s = self._number(self.document["start"]["timestamp"], "timesecs", 0)
        for number, since_s, total in self._totals():
            log.rate(self._side(total), begin_s + since_s, self._number(total, "bits_per_second", number))
        tests = [self]
        other = self.document.get("server_output_json")
        if isinstance(other, dict) and other.get("intervals"):
            tests.append(_Test(other, self.path))
        for test in tests:
            test.count(log)

    def _totals(self) -> list[tuple[int, float, dict[str, Any]]]:
        """Return number, begin and sum of each counted interval."""
        totals = []
        for number, interval in enumerate(self.document["intervals"], start=1):
            if SUMS not in interval:
                raise KeyError("sum")
            for total in interval[SUMS]:
                since_s = self._number(total, "start", number)
                totals.append((number, since_s, self._number(total, "end", number) - since_s, total))
        longest_s = max((length_s for _, _, length_s, _ in totals), default=0.0)
        counted = [one for one in totals if not one[-1].get("omitted")]
        ends_s = [since_s + length_s for _, since_s, length_s, total in totals if total.get("omitted")]
        before_s = max([self._number(self.document["start"].get("test_start", {}), "omit", 0, 0), *ends_s])
        if counted and min(since_s for _, since_s, _, _ in counted) >= before_s / 2:
            before_s = 0.0  # most versions count from 0 again behind what they omit; this one has gone on
        return [
            (number, before_s + since_s, total)
            for number, since_s, length_s, total in counted
            if length_s > _REMAINDER * longest_s
        ]

    def _side(self, total: dict[str, Any]) -> Side:
        """Return the direction; the client is at the terminal.

        ``sender`` states whether the host of the file sends (since 3.7).
        """
        sender = total.get("sender")
        if not isinstance(sender, bool):
            return "down" if self.document["start"]["test_start"].get("reverse") else "up"
        client = "accepted_connection" not in self.document["start"]
        return "up" if sender == client else "down"

    def _number(self, total: dict[str, Any], key: str, interval: int, default: float | None = None) -> float:
        value = total[key] if default is None else total.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _MOST:
            where = f"interval {interval}: " if interval else ""
            shown = json.dumps(value)[:40]
            raise log_error(self.path, None, f"{where}found {key} = {shown}, expected a number from 0 on")
        return float(value)

    def count(self, log: Log) -> None:
        """Count segments and retransmissions by direction, which only the sender of a direction knows by intervals."""
        start, end = self.document["start"], self.document.get("end")
        test = start["test_start"]
        if test.get("protocol", "TCP") != "TCP":
            return
        totals = [(number, total) for number, _, total in self._totals()]
        if isinstance(end, dict):
            totals += [(0, total) for total in end.get(SUMS, [])]
        for number, total in totals:
            transfer = log.transfers.setdefault(self._side(total), Transfer())
            transfer.streams = int(test.get("num_streams", 1))
            if isinstance(end, dict) and end.get("sender_tcp_congestion"):
                transfer.congestion = str(end["sender_tcp_congestion"])
            if total.get("retransmits") is None:
                continue
            size = start.get("tcp_mss") or start.get("tcp_mss_default") or _MSS_BYTES
            segments = self._number(total, "bytes", number) / float(size)
            pairs = transfer.intervals if number else transfer.whole
            pairs.append((segments, int(self._number(total, "retransmits", number))))
