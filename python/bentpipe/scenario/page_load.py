"""Loads of pages in a scenario, and in the engine's words (``WebSpec``).

The defaults, with their reasons (docs/models/web.md has the sizes and how they were measured):

=====================  ========================================================================================
certificate            2300 B: the median chain of services that speak QUIC (Nawrocki et al., CoNEXT 2022)
client_hello           2014 B: a browser of today, with a post-quantum key share (measured)
request                HTTP/1.1: 644 B for the document, 550 B for others; HTTP/2 and 3: 433 B for the first of a
                       host, then 50 B, as the table of the connection holds the rest (measured, no cookie)
response_header        HTTP/1.1: 500 B; HTTP/2 and 3: 300 B for the first of a host, then 100 B (a guess)
connections_per_host   6 (Chromium, Firefox)
quic_head_start        300 ms (Chromium, where the server's round trip is not known)
timeout                300 s (the page load timeout of WebDriver)
resumption             false: Chromium keeps no TLS sessions over a restart
=====================  ========================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, PlainValidator, StrictBool, StrictInt, WithJsonSchema, model_validator

from bentpipe.scenario.problems import ScenarioError, unknown_word
from bentpipe.scenario.quantities import DurationText, PositiveText, SizeText, Table, as_table
from bentpipe.scenario.units import Duration, Size
from bentpipe.scenario.web_page import Page, PageObject, PageSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bentpipe.plan.stages import Files

__all__ = ["PageLoad", "found_page", "http_version", "words"]

Http = Literal["1.1", "2", "3", "alt-svc"]

CERTIFICATE_BYTES = 2300
CLIENT_HELLO_BYTES = 2014
FIRST_REQUEST_BYTES, LATER_REQUEST_BYTES = 433, 50
DOCUMENT_TEXT_BYTES, REQUEST_TEXT_BYTES = 644, 550
FIRST_RESPONSE_BYTES, LATER_RESPONSE_BYTES, RESPONSE_TEXT_BYTES = 300, 100, 500
MOST_LOADS = 10_000


def _pause(found: object) -> tuple[Duration, Duration]:
    expected = 'a duration such as "5 s", or two such as ["5 s", "15 s"]'
    if isinstance(found, (list, tuple)):
        if len(found) != 2:
            raise ValueError(f"found a list of {len(found)}, expected {expected}")
        least, most = Duration.parse(found[0]), Duration.parse(found[1])
        if least > most:
            raise ValueError(f"found {least} to {most}, expected the shorter one first")
        return least, most
    return Duration.parse(found), Duration.parse(found)


_PAUSE_SCHEMA = {
    "anyOf": [
        {"type": "string", "examples": ["5 s"]},
        {"type": "array", "items": {"type": "string"}, "minItems": 2, "maxItems": 2},
    ]
}


class PageLoad(Table):
    """Loads of a page: how a browser fetches it, how often, and what it remembers."""

    page: Annotated[PageSource, as_table("named")] | None = None
    http: Http | None = None
    tls: Literal["1.3", "1.2", "1.2-false-start"] = "1.3"
    resumption: StrictBool = False
    early_data: StrictBool = False
    certificate: SizeText = Size(CERTIFICATE_BYTES)
    client_hello: SizeText = Size(CLIENT_HELLO_BYTES)
    loads: Annotated[StrictInt, Field(ge=1, le=MOST_LOADS)] = 3
    pause: Annotated[tuple[Duration, Duration], PlainValidator(_pause), WithJsonSchema(_PAUSE_SCHEMA)] = (
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
    def _goes_together(self) -> PageLoad:
        strays = [key for key in PageLoad.model_fields if key in self.model_fields_set and key != "page"]
        if self.page is None:
            if strays:
                raise ValueError(f"found {strays[0]} without page, expected it beside a page")
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
        """Early data needs a ticket from an earlier load."""
        for wrong, found, expected in (
            (not self.resumption, "without resumption", "resumption = true beside it"),
            (
                self.profile == "fresh",
                'with profile = "fresh"',
                'profile = "kept": a ticket comes from a load before',
            ),
            (self.loads == 1, "with loads = 1", "loads of at least 2: the first has no ticket"),
            (self.tls != "1.3", f'with tls = "{self.tls}"', 'tls = "1.3" (RFC 8446)'),
        ):
            if wrong:
                raise ValueError(f"found early_data {found}, expected {expected}")


def http_version(load: PageLoad, transport: str) -> Http:
    """The version of HTTP: the load's, or that of the flow's transport."""
    return load.http or ("2" if transport == "tcp" else "3")


def found_page(source: PageSource, pages: dict[str, Page], files: Files, key: str) -> tuple[str, Page]:
    """Name and page of ``source``: of the scenario, of a HAR file beside it, or of a preset.

    Raises:
        ScenarioError: at ``key``: no such page or file, or a preset or a file that cannot be used.
    """
    if source.har is not None:
        from bentpipe.scenario.har import read_har

        file = files.folder / source.har
        return source.har, files.once(file, lambda: read_har(file, f"{key}.har"))
    if source.named is None:
        return "page", Page.model_construct(object=source.object, host=source.host)
    if source.named in pages:
        return source.named, pages[source.named]
    name = source.named
    return name, files.once(("page", name), lambda: _preset_page(name, pages, key))


def _preset_page(name: str, pages: Iterable[str], key: str) -> Page:
    from bentpipe.scenario import presets

    known = presets.page_names()
    if name not in known:
        raise ScenarioError([(key, unknown_word(name, [*pages, *known], "page"))])
    preset = presets.page(name, key)
    return Page.model_validate({"object": preset.objects, "host": preset.hosts})


def words(load: PageLoad, name: str, page: Page, http: Http) -> dict[str, Any]:
    """The load in the engine's words."""
    return {
        "kind": "page",
        "page": _page(name, page, http),
        "http": http,
        "tls": {
            "version": load.tls,
            "resumption": load.resumption,
            "early_data": load.early_data,
            "certificate_bytes": load.certificate.bytes,
            "client_hello_bytes": load.client_hello.bytes,
        },
        "loads": load.loads,
        "pause_ns": [load.pause[0].ns, load.pause[1].ns],
        "timeout_ns": load.timeout.ns,
        "profile": load.profile,
        "keep_connections": load.keep_connections,
        "udp_blocked": load.udp_blocked,
        "quic_head_start_ns": load.quic_head_start.ns,
        "connections_per_host": load.connections_per_host,
        "parse_ns": load.parse.ns,
    }


def _page(name: str, page: Page, http: Http) -> dict[str, Any]:
    hosts = list(dict.fromkeys(one.host for one in page.object))
    index = {one.name: number for number, one in enumerate(page.object)}
    objects = []
    met: set[str] = set()
    for number, one in enumerate(page.object):
        request, response = _header_bytes(one, number == 0, one.host not in met, http)
        met.add(one.host)
        objects.append(
            {
                "name": one.name,
                "host": hosts.index(one.host),
                "request_bytes": request,
                "response_header_bytes": response,
                "body_bytes": one.size.bytes,
                "after": [index[before] for before in dict.fromkeys(one.after)],
                "think_ns": one.think.ns,
            }
        )
    return {
        "name": name,
        "hosts": [{"name": host, "open": host in page.host and page.host[host].open} for host in hosts],
        "objects": objects,
    }


def _header_bytes(one: PageObject, document: bool, first: bool, http: Http) -> tuple[int, int]:
    """Header blocks of the request and of the response."""
    if http == "1.1":
        request, response = DOCUMENT_TEXT_BYTES if document else REQUEST_TEXT_BYTES, RESPONSE_TEXT_BYTES
    elif first:
        request, response = FIRST_REQUEST_BYTES, FIRST_RESPONSE_BYTES
    else:
        request, response = LATER_REQUEST_BYTES, LATER_RESPONSE_BYTES
    return (
        one.request.bytes if one.request is not None else request,
        one.response_header.bytes if one.response_header is not None else response,
    )
