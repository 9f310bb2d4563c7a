"""HAR file (HTTP Archive 1.2) of a load, from the Network events of the browser."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bentpipe.lab.browser.devtools import Event

__all__ = ["Request", "archive", "clock_offset", "progress", "requests", "row"]

Request = dict[str, Any]
"""Request from its events: ``id, sent, response, end_s, encoded, body, failed, failed_s``.

``redirect`` is the target of its response, ``first`` the first URL of its chain of redirects.
"""


def requests(events: Sequence[Event]) -> list[Request]:
    """Return the requests of a load in order, without requests that were not sent over HTTP.

    A redirected request and its successor are separate requests.
    """
    ordered: list[Request] = []
    found: dict[str, Request] = {}
    for event in events:
        parameters = event["params"]
        name = parameters.get("requestId", "")
        first = None
        if event["method"] == "Network.requestWillBeSent":
            if name in found:
                if (answer := parameters.get("redirectResponse")) is None:
                    continue
                found[name] |= {"response": answer, "end_s": parameters["timestamp"],
                                "encoded": answer.get("encodedDataLength", 0),
                                "redirect": parameters["request"]["url"]}  # fmt: skip
                first = found[name]["first"]
            if parameters["request"]["url"].startswith(("https:", "http:")):
                first = first or parameters["request"]["url"]
                found[name] = {"id": name, "sent": parameters, "body": 0, "encoded": 0, "first": first}
                ordered.append(found[name])
        elif name in found:
            _update(found[name], event["method"], parameters)
    return ordered


def _update(one: Request, method: str, parameters: Mapping[str, Any]) -> None:
    if "failed" in one:
        return  # further events belong to the error page of the browser
    if method == "Network.responseReceived":
        one["response"] = parameters["response"]
    elif method == "Network.dataReceived":
        one["body"] += parameters["dataLength"]
    elif method == "Network.loadingFinished":
        one["end_s"], one["encoded"] = parameters["timestamp"], parameters["encodedDataLength"]
    elif method == "Network.loadingFailed":
        one["failed"], one["failed_s"] = parameters.get("errorText", "failed"), parameters["timestamp"]


def progress(events: Sequence[Event], offset: float) -> list[tuple[float, int]]:
    """Return times and bytes of received parts of bodies; ``offset`` is added to the clock of the browser."""
    ids = {one["id"] for one in requests(events)}
    return [
        (parameters["timestamp"] + offset, parameters["dataLength"])
        for event in events
        if event["method"] == "Network.dataReceived" and (parameters := event["params"])["requestId"] in ids
    ]


def clock_offset(found: Sequence[Request], timings: Mapping[str, Any]) -> float:
    """Return the clock of the timings minus that of the events, in s, from requestStart of the document."""
    navigation = timings.get("navigation") or {}
    # After redirects, requestStart is that of the last request of the document.
    document = [one for one in found if one["id"] == found[0]["id"]]
    timing = document[-1].get("response", {}).get("timing") if document else None
    if timing and navigation.get("requestStart"):
        event_time = timing["requestTime"] + timing["sendStart"] / 1e3
        return float((timings["time_origin_ms"] + navigation["requestStart"]) / 1e3 - event_time)
    return float(found[0]["sent"]["wallTime"] - found[0]["sent"]["timestamp"]) if found else 0.0


def row(one: Request, offset: float) -> dict[str, Any]:
    """Return one request with times in s since 1970; ``offset`` is added to the clock of the browser."""
    response = one.get("response", {})
    timing = response.get("timing")
    start = timing["requestTime"] + offset if timing else None

    def at(name: str) -> float | None:
        return start + timing[name] / 1e3 if start is not None and timing.get(name, -1) >= 0 else None

    return {
        "url": one["sent"]["request"]["url"], "protocol": response.get("protocol", ""),
        "status": response.get("status", 0), "connection": response.get("connectionId", 0),
        "reused": bool(response.get("connectionReused")), "queued_s": one["sent"]["timestamp"] + offset,
        "connect_start_s": at("connectStart"), "secure_start_s": at("sslStart"), "connect_end_s": at("connectEnd"),
        "sent_s": at("sendStart"), "response_start_s": at("receiveHeadersStart") or at("receiveHeadersEnd"),
        "end_s": one["end_s"] + offset if "end_s" in one else None, "bytes": one["body"],
        "error": one.get("failed", ""), "failed_s": one["failed_s"] + offset if "failed" in one else None,
    }  # fmt: skip


def archive(number: int, events: Sequence[Event], timings: Mapping[str, Any], browser: str) -> dict[str, Any]:
    """Return the HAR file of load ``number``. Unknown values are -1, as the format specifies."""
    encoded = {
        entry["name"]: int(entry["encodedBodySize"])
        for entry in [timings.get("navigation") or {}, *timings.get("resources", [])]
        if entry.get("encodedBodySize")
    }
    entries = [_entry(one, f"load_{number}", encoded) for one in requests(events)]
    navigation = timings.get("navigation") or {}
    start = entries[0]["startedDateTime"] if entries else _date(float(timings.get("time_origin_ms", 0)) / 1e3)
    page = {
        "startedDateTime": start,
        "id": f"load_{number}",
        "title": navigation.get("name", ""),
        "pageTimings": {
            "onContentLoad": _known(navigation.get("domContentLoadedEventEnd")),
            "onLoad": _known(navigation.get("loadEventEnd")),
        },
    }
    name, _, version = browser.partition(" ")
    return {
        "log": {
            "version": "1.2",
            "creator": {"name": "bentpipe browse", "version": "1"},
            "browser": {"name": name or "Chromium", "version": version},
            "pages": [page],
            "entries": entries,
        }
    }


def _known(value: float | None) -> float:
    return value or -1


def _date(seconds: float) -> str:
    return (
        datetime.datetime.fromtimestamp(seconds, datetime.UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def _entry(one: Request, page: str, encoded: Mapping[str, int]) -> dict[str, Any]:
    sent, response = one["sent"], one.get("response", {})
    request = sent["request"]
    timing = response.get("timing") or {}
    end = one.get("end_s")
    blocked, phases = _phases(timing, sent["timestamp"], end)
    total = sum(value for value in [blocked, *phases.values()] if value > 0)
    head = -1
    # The events do not separate bodies from headers. The timing of a resource has the first URL of its redirects, that
    # of a document the last one.
    body = -1 if "redirect" in one else encoded.get(one["first"], encoded.get(request["url"], -1))
    initiator = {
        key: value for key, value in sent.get("initiator", {}).items() if key in ("type", "url", "lineNumber")
    }
    return {
        "pageref": page,
        "startedDateTime": _date(sent["wallTime"]),
        "time": round(total, 3),
        "request": {
            "method": request["method"], "url": request["url"], "httpVersion": response.get("protocol", ""),
            "cookies": [], "headers": _headers(response.get("requestHeaders") or request["headers"]),
            "queryString": [], "headersSize": head, "bodySize": 0,
        },
        "response": {
            "status": response.get("status", 0), "statusText": response.get("statusText", ""),
            "httpVersion": response.get("protocol", ""), "cookies": [],
            "headers": _headers(response.get("headers", {})),
            "content": {"size": one["body"], "mimeType": response.get("mimeType", "")},
            "redirectURL": one.get("redirect", ""), "headersSize": head, "bodySize": body,
            "_transferSize": one["encoded"], **({"_error": one["failed"]} if "failed" in one else {}),
        },
        "cache": {},
        "timings": {"blocked": blocked, **phases},
        "serverIPAddress": response.get("remoteIPAddress", "").strip("[]"),
        "connection": str(response.get("connectionId", "")),
        "_initiator": initiator,
        "_priority": request.get("initialPriority", ""),
        "_resourceType": sent.get("type", "").lower(),
    }  # fmt: skip


def _phases(
    timing: Mapping[str, Any], queued_s: float, end_s: float | None
) -> tuple[float, dict[str, float]]:
    """Return the times of HAR in ms. Those of the browser count from ``requestTime``; -1 is a missing phase."""
    if not timing:
        return -1, {"dns": -1, "connect": -1, "ssl": -1, "send": 0, "wait": 0, "receive": 0}

    def span(first: str, last: str) -> float:
        a, b = timing.get(first, -1), timing.get(last, -1)
        return round(b - a, 3) if a >= 0 and b >= 0 else -1

    before = (timing["requestTime"] - queued_s) * 1e3
    first = next(
        (timing[key] for key in ("dnsStart", "connectStart", "sendStart") if timing.get(key, -1) >= 0), 0.0
    )
    head = timing["receiveHeadersEnd"]
    whole = (end_s - timing["requestTime"]) * 1e3 - head if end_s is not None else 0.0
    phases = {
        "dns": span("dnsStart", "dnsEnd"),
        "connect": span("connectStart", "connectEnd"),
        "ssl": span("sslStart", "sslEnd"),
        "send": max(0.0, span("sendStart", "sendEnd")),
        "wait": max(0.0, span("sendEnd", "receiveHeadersEnd")),
        "receive": round(max(0.0, whole), 3),
    }
    return round(max(0.0, before + first), 3), phases


def _headers(found: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": str(value)} for name, value in found.items()]
