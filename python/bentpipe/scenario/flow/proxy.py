"""Splitting proxies in a scenario: ``[[path.proxy]]``, or a node of a graph of the kind ``proxy``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, StrictBool
from pydantic_core import PydanticCustomError

from bentpipe.scenario.base import Name, SizeText, Table, construct_table
from bentpipe.scenario.errors import unknown_name
from bentpipe.scenario.flow.tcp import TcpEnd

__all__ = ["Proxy", "ProxyKeys", "Side", "check_proxies", "pool_without_end"]


class Side(TcpEnd):
    """One of a proxy's two sockets: options of TCP, or a sender that knows its link's rate."""

    rate_knowing: StrictBool = False


class ProxyKeys(Table):
    """What a proxy does, wherever it stands."""

    setup: Literal["relayed", "early", "pooled", "none"] = "early"
    buffer: SizeText | None = None
    client_side: Side = construct_table(Side)
    server_side: Side = construct_table(Side)

    @property
    def splits(self) -> bool:
        """Whether it is there: with ``none`` its node only forwards, for a sweep that takes it away."""
        return self.setup != "none"


class Proxy(ProxyKeys):
    """A proxy between two adjacent segments of a path."""

    name: Name
    between: Annotated[list[Name], Field(min_length=2, max_length=2)]


def places(segments: Sequence[str]) -> str:
    """Where proxies can stand, in words."""
    pairs = " or ".join(f'["{a}", "{b}"]' for a, b in pairwise(segments))
    return (
        f"two segments that follow each other from client to server: {pairs or 'there is only one segment'}"
    )


def pool_without_end(name: str) -> str:
    """Message for a pool that leads nowhere."""
    return (
        f'proxy {name}: found setup = "pooled" without a proxy further on towards the server, '
        'expected one at the far end of the pool, or setup = "early"'
    )


def check_proxies(proxies: Sequence[Proxy], segments: Sequence[str]) -> None:
    """Names are free, places exist, pools have a far end. Raises a scenario error at the key."""
    names = [proxy.name for proxy in proxies]
    for proxy in proxies:
        at = f"proxy.{proxy.name}"
        if names.count(proxy.name) > 1:
            _refuse(f'two proxies are called "{proxy.name}", expected a name for each', at)
        if proxy.name in segments:
            _refuse(f'a proxy and a segment are called "{proxy.name}", expected a name for each', at)
        if proxy.name in ("client", "server"):
            _refuse(
                f'a proxy is called "{proxy.name}", which is an end of the path; expected another name', at
            )
        first, second = proxy.between
        for segment in (first, second):
            if segment not in segments:
                _refuse(unknown_name(segment, segments, "segment"), f"{at}.between")
        if segments.index(second) != segments.index(first) + 1:
            _refuse(f'found ["{first}", "{second}"], expected {places(segments)}', f"{at}.between")
        here = [other.name for other in proxies if other.between == proxy.between and other.splits]
        if len(here) > 1:
            _refuse(
                f"{' and '.join(here)} stand at the same place, expected one proxy there", f"{at}.between"
            )
        onward = [other for other in proxies
                  if other.splits and segments.index(other.between[0]) > segments.index(first)
                  ] if all(other.between[0] in segments for other in proxies) else [proxy]  # fmt: skip
        if proxy.setup == "pooled" and not onward:
            _refuse(pool_without_end(proxy.name), f"{at}.setup")


def _refuse(error: str, at: str) -> None:
    raise PydanticCustomError("scenario", "{error}", {"error": error, "at": at.removeprefix("proxy.")})
