"""The resolved run of a unit in types: a run whose one flow loads a page, and how its browser is driven."""

from __future__ import annotations

from typing import TYPE_CHECKING, NotRequired, TypedDict, cast

if TYPE_CHECKING:
    from bentpipe.plan.spec.run_spec import FlowSpec, PageLoadSpec, RunSpec, WebTransportSpec

    class UnitSpec(RunSpec):
        """A run that a browser makes."""

        browser: BrowserSpec


__all__ = ["BrowserSpec", "browser_of", "page_load", "web_transport"]


class BrowserSpec(TypedDict):
    """How a browser is driven; ``field`` is the server on a real access, with its port and its key."""

    loads: int
    pause_s: list[float]
    timeout_s: float
    netlog: bool
    field: str | None
    port: NotRequired[str]
    spki: NotRequired[str]


def browser_of(spec: RunSpec) -> BrowserSpec:
    """How the browser of a unit is driven."""
    return cast("UnitSpec", spec)["browser"]


def page_load(flow: FlowSpec) -> PageLoadSpec:
    """The load of a flow that loads a page, as that of every unit does."""
    if flow["load"]["kind"] != "page":
        raise TypeError(f"{flow['name']} loads no page")
    return flow["load"]


def web_transport(flow: FlowSpec) -> WebTransportSpec:
    """What a browser has: QUIC and TCP."""
    if flow["transport"]["kind"] != "web":
        raise TypeError(f"{flow['name']} loads no page")
    return flow["transport"]
