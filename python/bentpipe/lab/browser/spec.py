"""Types of the resolved run of a session: a run with one flow that loads a page, and its browser settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import FlowSpec, PageLoadSpec, RunSpec, WebTransportSpec

    class UnitSpec(RunSpec):
        """Spec of a run in a browser."""

        browser: BrowserSpec


__all__ = ["BrowserSpec", "browser_of", "page_load", "web_transport"]


class BrowserSpec(TypedDict):
    """Settings of a browser; ``field`` is the server on a real access, with its port and key."""

    loads: int
    pause_s: list[float]
    timeout_s: float
    netlog: bool
    field: str | None
    port: NotRequired[str]
    spki: NotRequired[str]


def browser_of(spec: RunSpec) -> BrowserSpec:
    """Return the browser settings of a session."""
    return cast("UnitSpec", spec)["browser"]


def page_load(flow: FlowSpec) -> PageLoadSpec:
    """Return the page load of a flow, which every session has."""
    if flow["load"]["kind"] != "page":
        raise TypeError(f"{flow['name']} loads no page")
    return flow["load"]


def web_transport(flow: FlowSpec) -> WebTransportSpec:
    """Return the transport of a browser: QUIC and TCP."""
    if flow["transport"]["kind"] != "web":
        raise TypeError(f"{flow['name']} loads no page")
    return flow["transport"]
