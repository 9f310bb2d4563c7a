"""Keys of the study's sweeps, and its cells."""

from __future__ import annotations

PAGE, HTTP = "flow.chrome.load.page", "flow.chrome.load.http"
TCP, QUIC = "flow.chrome.tcp.congestion", "flow.chrome.congestion"
QUIC_WINDOW, TCP_WINDOW = "quic.initial_window", "tcp.initial_window"
SETUP, WINDOW = "path.terminal.handshake", "path.gateway.client_side.initial_window"
KNOWING = "path.gateway.client_side.line_rate"
EVERY = "flow.others.load.poisson.interval"
HALF, FAST_OPEN = "path.near.delay", "tcp.fast_open"

WITH, WITHOUT = "alt-svc", "2"
"""Value of ``http`` of the browser that learns of QUIC; ``WITHOUT`` is that of the browser that never uses it."""

SATCOM_RATE, SATCOM_RTT = 25e6, 0.750
G4_RATE, G4_RTT = 5e6, 0.080
SEGMENT = 1460
"""Bytes of a segment in equation 2.1."""

CONTROLLERS = ("newreno", "cubic", "bbr1", "bbr", "hybla")
MORE = ("westwood", "fast")
"""Controllers that run end to end only."""

TCP_4G = ("cubic", "newreno", "bbr1", "cubic, Fast Open")
"""TCP over 4G, as it may have been; Fast Open was on and did not act (published.toml)."""
WINDOWS = ("10 packets", "32 packets", "60 packets", "100 packets")


def satcom(page: str, http: str) -> dict[str, str]:
    """Return the cell of a target and a browser over SATCOM."""
    return {PAGE: page, HTTP: http}


def g4(http: str, tcp: str) -> dict[str, str]:
    """Return the cell of a browser over 4G and its TCP, one of ``TCP_4G``."""
    name, _, extra = tcp.partition(", ")
    return {HTTP: http, TCP: name, FAST_OPEN: "true" if extra else "false"}


def end_to_end(http: str, controller: str, window: str) -> dict[str, str]:
    """Return the cell of HTTP/3, or of HTTP/2 without a proxy, with a controller and an initial window."""
    return {HTTP: http, QUIC: controller, QUIC_WINDOW: window}


MODELS: tuple[tuple[str, dict[str, str] | None], ...] = (
    ("no proxy, IW 10", None),
    ("early, IW 10", {SETUP: "early", WINDOW: "10 packets", KNOWING: "false"}),
    ("pooled, IW 10", {SETUP: "pooled", WINDOW: "10 packets", KNOWING: "false"}),
    ("pooled, IW 32", {SETUP: "pooled", WINDOW: "32 packets", KNOWING: "false"}),
    ("pooled, IW 100", {SETUP: "pooled", WINDOW: "100 packets", KNOWING: "false"}),
    ("pooled, IW 1600", {SETUP: "pooled", WINDOW: "1600 packets", KNOWING: "false"}),
    ("pooled, line rate", {SETUP: "pooled", KNOWING: "true"}),
)
"""Models of the proxy, from none to one that needs no probing; the last is that of satcom.toml."""
