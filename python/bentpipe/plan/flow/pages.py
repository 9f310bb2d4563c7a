"""Page loads (``PageLoadSpec``): the page, and default sizes of header blocks.

Header blocks (docs/explanation/web.md describes the measurement):

=====================  ========================================================================================
request                HTTP/1.1: 644 B for the document and redirects to it, 550 B for others; HTTP/2 and 3:
                       433 B for the first of a host, then 50 B, as the dynamic table of the connection has the
                       other fields (measured, no cookie)
response_header        HTTP/1.1: 500 B; HTTP/2 and 3: 300 B for the first of a host, then 100 B (an estimate)

=====================  ========================================================================================

A host without TLS always uses HTTP/1.1.
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
    """Return the load of a flow that loads a page.

    Args:
        flow: a flow with a page.
        pages: pages of the scenario, by name.
        files: input files, for HAR files.

    Raises:
        ScenarioError: no such page or file, or a preset or a file that cannot be used.
    """
    load, key = flow.load, f"flow.{flow.name}.load"
    if load is None or load.page is None:
        raise ScenarioError([(key, "found none, expected a page")])
    name, page = _find_page(load.page, pages, files, f"{key}.page")
    http: HttpVersionPolicy = load.http or ("2" if flow.transport == "tcp" else "3")
    if load.udp_blocked and http == "3":
        text = 'found true with HTTP/3, expected http = "2", "1.1" or "alt-svc"'
        raise ScenarioError([(f"{key}.udp_blocked", text)])
    return {
        "kind": "page",
        "page": _page_spec(name, page, http),
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
        "profile": "fresh" if load.profile == "fresh" else "reused",
        "keep_connections": load.keep_connections,
        "udp_blocked": load.udp_blocked,
        "quic_head_start_ns": load.quic_head_start.ns,
        "connections_per_host": load.connections_per_host,
        "parse_ns": load.parse.ns,
    }


def _find_page(source: PageSource, pages: Mapping[str, Page], files: Files, key: str) -> tuple[str, Page]:
    """Return name and page of a source: of the scenario, of a HAR file, or of a preset.

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
    """Return the recorded page of a HAR file. Raises ScenarioError."""
    from bentpipe.scenario.har import read_har

    file, select = files.folder / (source.har or source.named or ""), source.har_page
    return files.read_once((file, select), lambda: read_har(file, key, select))


def har_notes(scenario: Scenario, files: Files) -> dict[str, str]:
    """Return, by key, notes on values that the HAR files of a scenario lack."""
    by_key: dict[str, str] = {}
    for flow in scenario.flow:
        source = flow.load.page if flow.load is not None else None
        if source is None or (
            source.har is None and (source.named in scenario.page or not is_har(source.named or ""))
        ):
            continue
        key = f"flow.{flow.name}.load.page"
        notes = _recording(source, files, key).notes
        if notes:
            by_key[key] = "; ".join(notes)
    return by_key


def _preset_page(name: str, pages: Iterable[str], key: str) -> Page:
    from bentpipe.scenario import presets

    preset_names = presets.page_names()
    if name not in preset_names:
        raise ScenarioError([(key, unknown_name(name, [*pages, *preset_names], "page"))])
    preset = presets.page(name, key)
    return Page.model_validate({"object": preset.objects, "host": preset.hosts})


def _page_spec(name: str, page: Page, http: HttpVersionPolicy) -> PageSpec:
    hosts = list(dict.fromkeys(item.host for item in page.object))
    index = {item.name: number for number, item in enumerate(page.object)}
    dependencies = find_predecessors(page.object)
    number_of = {host: number for number, host in enumerate(hosts)}
    documents = _document_chain(page.object)
    objects: list[ObjectSpec] = []
    requested_hosts: set[str] = set()
    for item in page.object:
        version: HttpVersionPolicy = http if _options(page, item.host).tls else "1.1"
        request, response = _header_bytes(
            item, item.name in documents, item.host not in requested_hosts, version
        )
        requested_hosts.add(item.host)
        spec: ObjectSpec = {
            "name": item.name,
            "host": number_of[item.host],
            "request_bytes": request,
            "response_header_bytes": response,
            "body_bytes": item.size.bytes,
            "after": [index[other] for other in dependencies[item.name]],
            "think_ns": item.think.ns,
        }
        if item.redirect is not None:
            spec["redirect"] = index[item.redirect]
        objects.append(spec)
    return {"name": name, "hosts": [_host(host, _options(page, host)) for host in hosts], "objects": objects}


def _options(page: Page, host: str) -> Host:
    return page.host.get(host) or Host()


def _host(name: str, options: Host) -> HostSpec:
    spec: HostSpec = {"name": name, "open": options.open}
    if not options.tls:
        spec["tls"] = False
    return spec


def _document_chain(objects: Sequence[PageObject]) -> set[str]:
    """Return the names of the document and of the redirects that lead to it."""
    by_name = {item.name: item for item in objects}
    current: PageObject | None = objects[0]
    names: set[str] = set()
    while current is not None:
        names.add(current.name)
        current = by_name[current.redirect] if current.redirect is not None else None
    return names


def _header_bytes(item: PageObject, document: bool, first: bool, http: HttpVersionPolicy) -> tuple[int, int]:
    """Return the bytes of the header blocks of request and response."""
    if http == "1.1":
        request, response = DOCUMENT_TEXT_BYTES if document else REQUEST_TEXT_BYTES, RESPONSE_TEXT_BYTES
    elif first:
        request, response = FIRST_REQUEST_BYTES, FIRST_RESPONSE_BYTES
    else:
        request, response = LATER_REQUEST_BYTES, LATER_RESPONSE_BYTES
    return (
        item.request.bytes if item.request is not None else request,
        item.response_header.bytes if item.response_header is not None else response,
    )
