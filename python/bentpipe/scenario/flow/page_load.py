"""Page loads of a scenario.

The defaults, with their reasons (docs/explanation/web.md has the sizes and their measurement):

=====================  ========================================================================================
certificate            2300 B: the median chain of services that speak QUIC (Nawrocki et al., CoNEXT 2022)
client_hello           2014 B: a current browser with a post-quantum key share (measured)
connections_per_host   6 (Chromium, Firefox)
quic_head_start        300 ms (Chromium, for an unknown round-trip time)
timeout                300 s (the page load timeout of WebDriver)
resumption             false: Chromium does not keep TLS sessions over a restart
=====================  ========================================================================================
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PlainValidator, StrictBool, StrictInt, WithJsonSchema, model_validator

from bentpipe.scenario.base import DurationText, PositiveText, SizeText, Table, as_table
from bentpipe.scenario.quantities import Duration, Size
from bentpipe.scenario.web_page import PageSource

__all__ = ["PageLoad"]

Http = Literal["1.1", "2", "3", "alt-svc"]

CERTIFICATE_BYTES = 2300
"""Default size of the certificate chain."""

CLIENT_HELLO_BYTES = 2014
"""Default size of a ClientHello."""

MOST_LOADS = 10_000
"""Largest number of loads of a flow."""


def _parse_pause(found: object) -> tuple[Duration, Duration]:
    expected = 'a duration such as "5 s", or two such as ["5 s", "15 s"]'
    if isinstance(found, (list, tuple)):
        if len(found) != 2:
            raise ValueError(f"found a list of {len(found)}, expected {expected}")
        shortest, longest = Duration.parse(found[0]), Duration.parse(found[1])
        if shortest > longest:
            raise ValueError(f"found {shortest} to {longest}, expected the shorter one first")
        return shortest, longest
    return Duration.parse(found), Duration.parse(found)


_PAUSE_SCHEMA = {
    "anyOf": [
        {"type": "string", "examples": ["5 s"]},
        {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
    ]
}


class PageLoad(Table):
    """Loads of a page: behaviour of the browser, number of loads, and state between them."""

    page: Annotated[PageSource, as_table("named")] | None = None
    http: Http | None = None
    tls: Literal["1.3", "1.2", "1.2-false-start"] = "1.3"
    resumption: StrictBool = False
    early_data: StrictBool = False
    certificate: SizeText = Size(CERTIFICATE_BYTES)
    client_hello: SizeText = Size(CLIENT_HELLO_BYTES)
    loads: Annotated[StrictInt, Field(ge=1, le=MOST_LOADS)] = 3
    pause: Annotated[
        tuple[Duration, Duration], PlainValidator(_parse_pause), WithJsonSchema(_PAUSE_SCHEMA)
    ] = (
        Duration(0),
        Duration(0),
    )
    timeout: PositiveText = Duration(300 * 10**9)
    profile: Literal["kept", "fresh"] = "kept"
    keep_connections: StrictBool = False
    udp_blocked: StrictBool = False
    quic_head_start: DurationText = Duration(300_000_000)
    connections_per_host: Annotated[StrictInt, Field(ge=1, le=1000)] = 6
    parse: DurationText = Duration(0)

    @model_validator(mode="after")
    def _check_combination(self) -> PageLoad:
        page_keys = [key for key in PageLoad.model_fields if key in self.model_fields_set and key != "page"]
        if self.page is None:
            if page_keys:
                raise ValueError(f"found {page_keys[0]} without page, expected it beside a page")
            return self
        if self.udp_blocked and self.http == "3":
            raise ValueError('found http = "3" with udp_blocked, expected another version: UDP is dropped')
        if self.early_data:
            self._check_early_data()
        if self.keep_connections and self.profile == "fresh":
            raise ValueError('found keep_connections with profile = "fresh", expected profile = "kept"')
        for key in ("certificate", "client_hello"):
            size = getattr(self, key).bytes
            if not 100 <= size <= 65_535:
                raise ValueError(f"found {key} = {getattr(self, key)}, expected 100 B to 65535 B")
        return self

    def _check_early_data(self) -> None:
        """Check that early data has a ticket of an earlier load. Raises ValueError."""
        for is_wrong, found, expected in (
            (not self.resumption, "without resumption", "resumption = true as well"),
            (
                self.profile == "fresh",
                'with profile = "fresh"',
                'profile = "kept": a ticket comes from an earlier load',
            ),
            (self.loads == 1, "with loads = 1", "loads of at least 2: the first has no ticket"),
            (self.tls != "1.3", f'with tls = "{self.tls}"', 'tls = "1.3" (RFC 8446)'),
        ):
            if is_wrong:
                raise ValueError(f"found early_data {found}, expected {expected}")
