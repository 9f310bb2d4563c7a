"""Splitting proxies (PEPs) of a scenario: ``[[path.proxy]]``, or a node of a graph with ``kind = "proxy"``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, StrictBool
from pydantic_core import PydanticCustomError

from bentpipe.scenario.base import Name, SizeText, Table, construct_table
from bentpipe.scenario.errors import unknown_name
from bentpipe.scenario.flow.tcp import TcpEnd

__all__ = ["Proxy", "ProxyKeys", "Side", "check_proxies", "missing_pool_end"]


class Side(TcpEnd):
    """One of the two sockets of a proxy: options of TCP, or a sender at the rate of its link."""

    line_rate: StrictBool = False


class ProxyKeys(Table):
    """Options of a proxy on a path or in a graph."""

    handshake: Literal["relayed", "early", "pooled", "none"] = "early"
    buffer: SizeText | None = None
    client_side: Side = construct_table(Side)
    server_side: Side = construct_table(Side)

    @property
    def splits(self) -> bool:
        """Whether the proxy splits connections. With ``handshake = "none"`` its node only forwards."""
        return self.handshake != "none"


class Proxy(ProxyKeys):
    """Proxy between two adjacent segments of a path."""

    name: Name
    between: Annotated[list[Name], Field(min_length=2, max_length=2)]


def proxy_places(segments: Sequence[str]) -> str:
    """Return the text of the possible places of a proxy, for messages."""
    pairs = " or ".join(f'["{a}", "{b}"]' for a, b in pairwise(segments))
    return (
        f"two segments that follow each other from client to server: {pairs or 'there is only one segment'}"
    )


def missing_pool_end(name: str) -> str:
    """Return the message for a pool without a proxy at its far end."""
    return (
        f'proxy {name}: found handshake = "pooled" without a proxy further on towards the server, '
        'expected one at the far end of the pool, or handshake = "early"'
    )


def check_proxies(proxies: Sequence[Proxy], segments: Sequence[str]) -> None:
    """Check names, places and pools of proxies. Raises PydanticCustomError at the key."""
    names = [proxy.name for proxy in proxies]
    for proxy in proxies:
        at = f"proxy.{proxy.name}"
        if names.count(proxy.name) > 1:
            _reject(f'duplicate proxy name "{proxy.name}", expected unique names', at)
        if proxy.name in segments:
            _reject(f'a proxy and a segment have the name "{proxy.name}", expected unique names', at)
        if proxy.name in ("client", "server"):
            _reject(
                f'a proxy has the name "{proxy.name}", which is an endpoint of the path; expected another name',
                at,
            )
        first, second = proxy.between
        for segment in (first, second):
            if segment not in segments:
                _reject(unknown_name(segment, segments, "segment"), f"{at}.between")
        if segments.index(second) != segments.index(first) + 1:
            _reject(f'found ["{first}", "{second}"], expected {proxy_places(segments)}', f"{at}.between")
        same_place = [other.name for other in proxies if other.between == proxy.between and other.splits]
        if len(same_place) > 1:
            _reject(
                f"{' and '.join(same_place)} are at the same place, expected one proxy",
                f"{at}.between",
            )
        following = [other for other in proxies
                  if other.splits and segments.index(other.between[0]) > segments.index(first)
                  ] if all(other.between[0] in segments for other in proxies) else [proxy]  # fmt: skip
        if proxy.handshake == "pooled" and not following:
            _reject(missing_pool_end(proxy.name), f"{at}.handshake")


def _reject(error: str, at: str) -> None:
    raise PydanticCustomError("scenario", "{error}", {"error": error, "at": at.removeprefix("proxy.")})
