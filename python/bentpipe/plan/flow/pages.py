"""Loads of pages in the engine's words (``WebSpec``): which page, and the sizes that it does not give.

Header blocks (docs/models/web.md has how they were measured):

=====================  ========================================================================================
request                HTTP/1.1: 644 B for the document and redirects to it, 550 B for others; HTTP/2 and 3:
                       433 B for the first of a host, then 50 B, as the table of the connection holds the rest
                       (measured, no cookie)
response_header        HTTP/1.1: 500 B; HTTP/2 and 3: 300 B for the first of a host, then 100 B (a guess)

A host without TLS has HTTP/1.1 whatever the others have.
=====================  ========================================================================================
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bentpipe.scenario.errors import ScenarioError, unknown_name
from bentpipe.scenario.web_page import Host, Page, find_predecessors, is_har

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bentpipe.plan.input_files import Files
    from bentpipe.plan.spec.run_spec import HostSpec, HttpVersionPolicy, ObjectSpec, PageLoadSpec, PageSpec
    from bentpipe.scenario.har import Recording
    from bentpipe.scenario.model import Flow, Scenario
    from bentpipe.scenario.web_page import PageObject, PageSource

__all__ = ["har_notes", "page_load_spec"]

FIRST_REQUEST_BYTES, LATER_REQUEST_BYTES = 433, 50
DOCUMENT_TEXT_BYTES, REQUEST_TEXT_BYTES = 644, 550
FIRST_RESPONSE_BYTES, LATER_RESPONSE_BYTES, RESPONSE_TEXT_BYTES = 300, 100, 500


def page_load_spec(flow: Flow, pages: Mapping[str, Page], files: Files) -> PageLoadSpec:
    """The load of a flow that loads a page.

    Args:
        flow: with a page.
        pages: of the scenario, by name.
        files: HAR files beside it.

    Raises:
        ScenarioError: no such page or file, or a preset or a file that cannot be used.
    """
    load, key = flow.load, f"flow.{flow.name}.load"
    if load is None or load.page is None:
        raise ScenarioError([(key, "found none, expected a page")])
    name, page = _found(load.page, pages, files, f"{key}.page")
    http: HttpVersionPolicy = load.http or ("2" if flow.transport == "tcp" else "3")
    if load.udp_blocked and http == "3":
        problem = 'found true with HTTP/3, expected http = "2", "1.1" or "alt-svc"'
        raise ScenarioError([(f"{key}.udp_blocked", problem)])
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


def _found(source: PageSource, pages: Mapping[str, Page], files: Files, key: str) -> tuple[str, Page]:
    """Name and page of ``source``: of the scenario, of a HAR file beside it, or of a preset.

    Raises:
        ScenarioError: at ``key``: no such page or file, or a preset or a file that cannot be used.
    """
    if source.har is not None:
        return source.har, _recording(source, files, f"{key}.har").page
    if source.named is None:
        return "page", Page.model_construct(object=source.object, host=source.host)
    if source.named in pages:
        return source.named, pages[source.named]
    if is_har(source.named):
        return source.named, _recording(source, files, key).page
    name = source.named
    return name, files.read_once(("page", name), lambda: _preset_page(name, pages, key))


def _recording(source: PageSource, files: Files, key: str) -> Recording:
    """The page of a HAR file beside the scenario. Raises ScenarioError."""
    from bentpipe.scenario.har import read_har

    file, select = files.folder / (source.har or source.named or ""), source.har_page
    return files.read_once((file, select), lambda: read_har(file, key, select))


def har_notes(scenario: Scenario, files: Files) -> dict[str, str]:
    """Return by key what the HAR files of a scenario's loads left open, as sentences."""
    found: dict[str, str] = {}
    for flow in scenario.flow:
        source = flow.load.page if flow.load is not None else None
        if source is None or (
            source.har is None and (source.named in scenario.page or not is_har(source.named or ""))
        ):
            continue
        key = f"flow.{flow.name}.load.page"
        notes = _recording(source, files, key).notes
        if notes:
            found[key] = "; ".join(notes)
    return found


def _preset_page(name: str, pages: Iterable[str], key: str) -> Page:
    from bentpipe.scenario import presets

    known = presets.page_names()
    if name not in known:
        raise ScenarioError([(key, unknown_name(name, [*pages, *known], "page"))])
    preset = presets.page(name, key)
    return Page.model_validate({"object": preset.objects, "host": preset.hosts})


def _page(name: str, page: Page, http: HttpVersionPolicy) -> PageSpec:
    hosts = list(dict.fromkeys(one.host for one in page.object))
    index = {one.name: number for number, one in enumerate(page.object)}
    before = find_predecessors(page.object)
    number_of = {host: number for number, host in enumerate(hosts)}
    to_document = _chain(page.object)
    objects: list[ObjectSpec] = []
    met: set[str] = set()
    for one in page.object:
        version: HttpVersionPolicy = http if _options(page, one.host).tls else "1.1"
        request, response = _header_bytes(one, one.name in to_document, one.host not in met, version)
        met.add(one.host)
        made: ObjectSpec = {
            "name": one.name,
            "host": number_of[one.host],
            "request_bytes": request,
            "response_header_bytes": response,
            "body_bytes": one.size.bytes,
            "after": [index[other] for other in before[one.name]],
            "think_ns": one.think.ns,
        }
        if one.redirect is not None:
            made["redirect"] = index[one.redirect]
        objects.append(made)
    return {"name": name, "hosts": [_host(host, _options(page, host)) for host in hosts], "objects": objects}


def _options(page: Page, host: str) -> Host:
    return page.host.get(host) or Host()


def _host(name: str, options: Host) -> HostSpec:
    made: HostSpec = {"name": name, "open": options.open}
    if not options.tls:
        made["tls"] = False
    return made


def _chain(objects: Sequence[PageObject]) -> set[str]:
    """Return the names of the document and of the redirects that lead to it."""
    by_name = {one.name: one for one in objects}
    at: PageObject | None = objects[0]
    found: set[str] = set()
    while at is not None:
        found.add(at.name)
        at = by_name[at.redirect] if at.redirect is not None else None
    return found


def _header_bytes(one: PageObject, document: bool, first: bool, http: HttpVersionPolicy) -> tuple[int, int]:
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
