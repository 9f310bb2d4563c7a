"""HAR files of others: several pages in a file, redirects, plain HTTP, times, and sizes, as HAR 1.2 has them.

The entries have the shape of Chromium's, Firefox's and WebPageTest's files, with made-up hosts and sizes.
"""

from __future__ import annotations

import json
import tomllib
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bentpipe.api.run import run
from bentpipe.cli import app
from bentpipe.lab.browser.har_export import archive
from bentpipe.plan.analysis.bounds import bounds
from bentpipe.plan.analysis.lint import lint_plan
from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.har import Recording, parse_time, read_har, to_toml
from bentpipe.scenario.web_page import Page


def entry(url: str, second: float, *, status: int = 200, size: int = 100, **more: Any) -> dict[str, Any]:
    """An entry as HAR 1.2 has it; ``response`` in ``more`` is added to its response."""
    response = {
        "status": status, "statusText": "", "httpVersion": "http/1.1", "cookies": [], "headers": [],
        "content": {"size": size, "mimeType": "text/html"}, "redirectURL": "", "headersSize": -1, "bodySize": size,
    }  # fmt: skip
    response |= more.pop("response", {})
    request = {
        "method": "GET", "url": url, "httpVersion": "http/1.1", "cookies": [], "headers": [], "queryString": [],
        "headersSize": -1, "bodySize": 0,
    }  # fmt: skip
    started = f"2026-01-31T12:00:{second:06.3f}Z"
    return {"startedDateTime": started, "time": 1, "request": request, "response": response, "cache": {},
            "timings": {"send": 0, "wait": 1, "receive": 0}, **more}  # fmt: skip


def moved(url: str, second: float, to: str, status: int = 301, **more: Any) -> dict[str, Any]:
    """A redirect to ``to``."""
    return entry(url, second, status=status, size=0, response={"redirectURL": to}, **more)


def recorded(
    tmp_path: Path, entries: list[dict[str, Any]], select: int | str | None = None, **log: Any
) -> Recording:
    """Return the page of a file with ``entries``."""
    file = tmp_path / "a.har"
    file.write_text(json.dumps({"log": {"version": "1.2", **log, "entries": entries}}))
    return read_har(file, "page", select)


def chains(page: Page) -> list[tuple[str, list[str], str | None]]:
    """Return name, dependency and redirect of each object."""
    return [(one.name, one.after, one.redirect) for one in page.object]


# --- pages and runs ------------------------------------------------------------------------------------------------


def test_the_first_of_several_runs_is_read_and_named(tmp_path: Path) -> None:
    """WebPageTest: each run has a first and a repeated view, whose entries stand behind each other."""
    pages, entries = [], []
    for number in (1, 2, 3):
        for cached, view in enumerate(("First View", "Repeat View")):
            name = f"page_{number}_{cached}"
            pages.append({
                "id": name, "title": f"Run {number}, {view} for http://a.example/", "pageTimings": {"onLoad": 900},
                "startedDateTime": f"2026-01-31T12:0{number}:0{cached}.000+00:00",
            })  # fmt: skip
            entries += [
                entry("https://a.example/", 10 * number + cached, size=1000 * number, pageref=name),
                entry(f"https://a.example/{number}.js", 10 * number + cached + 0.5, size=70, pageref=name),
            ]
    found = recorded(tmp_path, entries, pages=pages)
    assert [(one.name, one.size.bytes) for one in found.page.object] == [("index", 1000), ("1.js", 70)]
    (note,) = found.notes
    assert note.startswith(
        'a.har: has 6 pages, of which 1 (page_1_0 "Run 1, First View for http://a.example/") is read'
    )
    assert "har_page" in note
    for select in (3, "3", "page_2_0"):
        second = recorded(tmp_path, entries, select, pages=pages)
        assert [one.size.bytes for one in second.page.object] == [2000, 70]
        assert second.notes == ()
    for wrong in (0, 7, "7", "page_9"):
        with pytest.raises(
            ScenarioError, match=rf'found page "{wrong}", expected 1 to 6, or an id: page_1_0, '
        ):
            recorded(tmp_path, entries, wrong, pages=pages)


def test_a_page_is_passed_over_where_nothing_of_it_was_fetched(tmp_path: Path) -> None:
    """Firefox lists the empty page that a tab begins with; entries of no page are counted."""
    pages = [
        {"id": "page_1", "title": "New Tab"},
        {"id": "page_2", "title": "a"},
        {"id": "page_3", "title": "b"},
    ]
    entries = [
        entry("https://a.example/", 1, status=0, pageref="page_1"),
        entry("https://a.example/", 2, pageref="page_2"),
        entry("https://b.example/", 3, pageref="page_3"),
        entry("https://b.example/worker.js", 4),
    ]
    found = recorded(tmp_path, entries, pages=pages)
    assert [one.host for one in found.page.object] == ["a.example"]
    assert "of which 2 (page_2" in found.notes[0]
    assert found.notes[1] == "a.har: 1 entry belongs to no page and is not read"


def test_one_page_has_all_entries(tmp_path: Path) -> None:
    """Entries without a pageref, or whose page is not listed, are in the only page that there is."""
    one = [entry("https://a.example/", 1, pageref="page_1"), entry("https://a.example/b.js", 2)]
    for pages in ([{"id": "page_1"}], [], "none"):
        found = recorded(tmp_path, one, pages=pages)
        assert len(found.page.object) == 2
        assert found.notes == ()
    with pytest.raises(ScenarioError, match='found page "2", expected 1, or an id: page_1'):
        recorded(tmp_path, one, 2, pages=[{"id": "page_1"}])


SCENARIO = """
duration = "9 s"
[[path.segment]]
name = "sky"
both = { rate = "1 Mbit/s" }
[[flow]]
name = "browser"
congestion = "cubic"
load = { page = PAGE }
"""


def test_check_says_which_page_is_read_and_a_key_names_another(tmp_path: Path) -> None:
    entries = [
        entry("https://a.example/", 1, size=10, pageref="first"),
        entry("https://b.example/", 2, size=20, pageref="second"),
    ]
    recorded(tmp_path, entries)

    def planned(page: str) -> tuple[list[int], list[str]]:
        (tmp_path / "s.toml").write_text(SCENARIO.replace("PAGE", page))
        plan = build_plan(load_scenario(tmp_path / "s.toml"), "")
        load = plan.runs[0].spec["flows"][0]["load"]
        assert load["kind"] == "page"
        return [one["body_bytes"] for one in load["page"]["objects"]], [
            warning.line("s.toml") for warning in lint_plan(plan) if warning.key == "flow.browser.load.page"
        ]

    sizes, (line,) = planned('"a.har"')
    assert sizes == [10]
    assert line.startswith("s.toml: flow.browser.load.page: a.har: has 2 pages, of which 1 (first) is read")
    assert planned('{ har = "a.har" }') == (sizes, [line])
    assert planned('{ har = "a.har", har_page = 2 }') == ([20], [])
    assert planned('{ named = "a.har", har_page = "second" }') == ([20], [])
    with pytest.raises(ScenarioError, match="found har_page without a HAR file"):
        planned('{ named = "target-a", har_page = 2 }')
    with pytest.raises(ScenarioError, match=r'load.page.har: a.har: found page "3", expected 1 to 2'):
        planned('{ har = "a.har", har_page = 3 }')


def test_the_command_takes_a_page_and_says_the_rest_beside_it(tmp_path: Path) -> None:
    entries = [entry(f"https://{host}.example/", 1, pageref=host) for host in ("a", "b")]
    recorded(tmp_path, entries)
    first = CliRunner().invoke(app, ["import-har", str(tmp_path / "a.har")])
    assert tomllib.loads(first.stdout)["object"][0]["host"] == "a.example"
    assert first.stderr.startswith("warning: a.har: has 2 pages")
    second = CliRunner().invoke(app, ["import-har", str(tmp_path / "a.har"), "--har-page", "2"])
    assert tomllib.loads(second.stdout)["object"][0]["host"] == "b.example"
    assert second.stderr == ""


# --- redirects -----------------------------------------------------------------------------------------------------


def test_redirects_form_a_chain_and_the_document_is_its_end(tmp_path: Path) -> None:
    """HAR 1.2: redirectURL is the value of Location; Chromium and Firefox write a relative one unchanged."""
    entries = [
        moved("https://a.example/", 1, "https://www.a.example/"),
        moved("https://www.a.example/", 2, "/home/", 302),
        entry("https://www.a.example/home/", 3, size=5000),
        entry(
            "https://www.a.example/app.js",
            4,
            _initiator={"type": "parser", "url": "https://www.a.example/home/"},
        ),
        entry("https://www.a.example/b.css", 4),
        entry("https://cdn.example/c.js", 5, _initiator={"type": "script", "url": "https://a.example/"}),
    ]
    page = recorded(tmp_path, entries).page
    assert chains(page) == [
        ("index", [], "index-2"), ("index-2", [], "home"), ("home", [], None),
        ("app.js", ["home"], None), ("b.css", ["home"], None), ("c.js", ["home"], None),
    ]  # fmt: skip
    assert Page.model_validate(tomllib.loads(to_toml(page))) == page


def test_a_url_that_redirects_first_and_answers_later_is_two_objects(tmp_path: Path) -> None:
    """A visit to a consent page and back: objects of the document depend on its response, not on its redirect."""
    entries = [
        moved("https://a.example/news", 1, "https://consent.example/ask?to=news", 302),
        moved("https://consent.example/ask?to=news", 2, "https://a.example/news", 307),
        entry("https://a.example/news", 3, size=9000),
        entry("https://a.example/app.js", 4, _initiator={"url": "https://a.example/news"}),
        entry("https://a.example/late.js", 5),
    ]
    assert chains(recorded(tmp_path, entries).page) == [
        ("news", [], "ask"), ("ask", [], "news-2"), ("news-2", [], None),
        ("app.js", ["news-2"], None), ("late.js", ["news-2"], None),
    ]  # fmt: skip


def test_redirects_of_what_a_page_asks_for(tmp_path: Path) -> None:
    """Two requests to one counter each have a separate target, and wait for their initiators."""
    script = {"url": "https://a.example/app.js"}
    entries = [
        entry("https://a.example/", 1),
        entry("https://a.example/app.js", 2),
        moved("https://count.example/x", 3, "https://count.example/dot.gif#1", 302, _initiator=script),
        moved("https://count.example/y", 3.1, "https://count.example/dot.gif#2", 303),
        entry("https://count.example/dot.gif", 4, _initiator=script),
        entry("https://count.example/dot.gif", 5),
        entry("https://count.example/dot.gif", 6),
        moved("https://gone.example/", 7, "https://blocked.example/"),
        entry("https://blocked.example/", 8, status=0),
        entry("https://a.example/304", 9, status=304, response={"redirectURL": "https://a.example/"}),
    ]
    assert chains(recorded(tmp_path, entries).page) == [
        ("index", [], None), ("app.js", ["index"], None),
        ("x", ["app.js"], "dot.gif"), ("y", ["index"], "dot.gif-2"), ("dot.gif", [], None), ("dot.gif-2", [], None),
        ("dot.gif-3", ["index"], None), ("index-2", ["index"], None), ("304", ["index"], None),
    ]  # fmt: skip


def test_a_redirect_that_a_browser_made_itself_is_no_object(tmp_path: Path) -> None:
    """Chromium: HSTS as an entry of status 307 that no server sent; a cached redirect sends nothing either."""
    own = [
        {"name": "Location", "value": "https://a.example/"},
        {"name": "Non-Authoritative-Reason", "value": "HSTS"},
    ]
    internal = entry("http://a.example/", 1, status=307, size=0,
                     response={"statusText": "Internal Redirect", "headers": own})  # fmt: skip
    cached = moved("https://a.example/", 1.5, "https://www.a.example/", _fromCache="disk")
    entries = [internal, cached, entry("https://www.a.example/", 2), entry("https://www.a.example/a.js", 3)]
    assert chains(recorded(tmp_path, entries).page) == [("index", [], None), ("a.js", ["index"], None)]


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (
            [("a", "b"), ("b", "c"), ("c", "b")],
            "b: redirect: found b|c: redirect: found b, to which a redirects",
        ),
        ([("a", None), ("b", "a")], "b: redirect: found the first object"),
        ([("a", None), ("b", "b")], "wait for each other"),
        ([("abc", "abd"), ("abx", None)], 'abc: redirect: .*did you mean "abx"'),
    ],
)
def test_redirects_that_lead_nowhere_are_refused(objects: list[tuple[str, str | None]], message: str) -> None:
    fields = [{"name": name, "size": "1 B"} | ({"redirect": to} if to else {}) for name, to in objects]
    with pytest.raises(ValueError, match=message):
        Page.model_validate({"object": fields})


# --- times ---------------------------------------------------------------------------------------------------------


def test_entries_are_in_the_order_of_their_times(tmp_path: Path) -> None:
    """ISO 8601 as recorders write it: offsets and fractions of any length; as text these sort the other way round."""
    times = {
        "1": "2026-01-31T13:59:59.9+02:00",  # 11:59:59.9 UTC
        "2": "2026-01-31T12:00:00Z",
        "3": "2026-01-31T12:00:00.05Z",
        "4": "2026-01-31T12:00:00.123456788Z",
        "5": "2026-01-31T12:00:00.123456789+00:00",
        "6": "2026-01-31T06:30:00.5-0530",
        "7": "2026-01-31T12:00:01.000",
    }
    entries = [
        entry(f"https://a.example/{name}", 0) | {"startedDateTime": times[name]} for name in reversed(times)
    ]
    late = entry("https://a.example/no-time", 0)
    del late["startedDateTime"]
    entries.insert(1, late)  # behind the entry of 7
    page = recorded(tmp_path, entries).page
    assert [one.name for one in page.object] == [*times, "no-time"]
    with pytest.raises(ScenarioError, match=r'startedDateTime: found "yesterday", expected ISO 8601'):
        recorded(tmp_path, [entry("https://a.example/", 0) | {"startedDateTime": "yesterday"}])


def test_instants_are_exact() -> None:
    assert parse_time("1970-01-02T00:00:00.000000001Z") == 86_400 + Fraction(1, 10**9)
    assert parse_time("1969-12-31T23:59:59.75Z") == Fraction(-1, 4)
    assert parse_time("2026-01-31T12:00:00,5+01:00") == parse_time("2026-01-31T11:00:00.5Z")


# --- sizes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("response", "more", "size"),
    [
        ({"bodySize": 700}, {"_bytesIn": 900}, 700),
        ({"bodySize": -1, "headersSize": 200}, {"_bytesIn": 900}, 700),
        ({"bodySize": 0, "headersSize": 200}, {"_bytesIn": 900, "_objectSize": 0}, 700),
        ({"bodySize": 0, "headersSize": 200}, {"_bytesIn": "900", "_objectSize": ""}, 700),
        ({"bodySize": 0, "headersSize": 200}, {"_bytesIn": "900", "_objectSize": "650"}, 650),
        ({"bodySize": 0, "headersSize": 200}, {"_bytesIn": 150}, 0),
        ({"bodySize": -1, "_transferSize": 720}, {}, 720),
    ],
)
def test_the_size_of_a_body_as_recorders_have_it(
    tmp_path: Path, response: dict[str, Any], more: dict[str, Any], size: int
) -> None:
    """WebPageTest writes what came (``_bytesIn``, the head with it) and 0 in the fields of HAR for what it did not read."""
    content = {"content": {"size": 0}}
    found = recorded(tmp_path, [entry("https://a.example/", 1, response=content | response, **more)])
    assert found.page.object[0].size.bytes == size
    assert found.notes == ()


def test_entries_without_a_size_are_named(tmp_path: Path) -> None:
    unknown: dict[str, Any] = {"bodySize": -1, "content": {}}
    entries = [
        entry("https://a.example/", 1),
        *[entry(f"https://a.example/{n}.js\u009b1m", 2, response=unknown) for n in (1, 2, 3, 4)],
        moved("https://a.example/x", 3, "https://a.example/y"),
    ]
    entries[-1]["response"] |= {"bodySize": -1, "_transferSize": 310}  # of an HTTP/2 redirect: its head
    found = recorded(tmp_path, entries)
    assert found.notes == (
        "a.har: 4 entries have no size and count as 0 B: "
        + ", ".join(f"https://a.example/{n}.js?1m" for n in (1, 2, 3))
        + " and 1 more",
    )
    assert found.page.object[-1].size.bytes == 0
    one = recorded(
        tmp_path, [entry("https://a.example/", 1), entry("https://a.example/b", 2, response=unknown)]
    )
    assert one.notes == ("a.har: 1 entry has no size and counts as 0 B: https://a.example/b",)


# --- origins -------------------------------------------------------------------------------------------------------


def test_http_is_an_origin_of_its_own_without_tls(tmp_path: Path) -> None:
    entries = [
        moved("http://a.example/", 1, "https://a.example/"),
        entry("https://user:secret@A.example/", 2),
        entry("http://a.example/old.js", 3),
    ]
    page = recorded(tmp_path, entries).page
    assert [one.host for one in page.object] == ["http://a.example", "a.example", "http://a.example"]
    assert {name: host.tls for name, host in page.host.items()} == {"http://a.example": False}
    assert Page.model_validate(tomllib.loads(to_toml(page))) == page


def test_many_objects_of_one_name_take_little_work(tmp_path: Path) -> None:
    """10,000 entries are allowed: names are found in one step each."""
    entries = [entry(f"https://a.example/{n}/x.js", n / 1000) for n in range(3000)]
    names = [one.name for one in recorded(tmp_path, entries).page.object]
    assert names[:2] + names[-1:] == ["x.js", "x.js-2", "x.js-3000"]


def test_the_engine_gets_redirects_and_hosts_without_tls(tmp_path: Path) -> None:
    """Header blocks are HTTP/1.1's there; the round trips to the document's first byte are the sum over its chain."""
    entries = [
        moved("http://a.example/", 1, "https://a.example/"),
        moved("https://a.example/", 2, "/home"),
        entry("https://a.example/home", 3, size=900),
        entry("http://b.example/b.js", 4),
        entry("https://a.example/c.js", 5),
    ]
    recorded(tmp_path, entries)
    (tmp_path / "s.toml").write_text(
        SCENARIO.replace('"sky"', '"sky"\ndelay = "100 ms"').replace("PAGE", '"a.har"')
        + '[sweep]\n"flow.browser.load.http" = ["2", "3"]\n'
    )
    plan = build_plan(load_scenario(tmp_path / "s.toml"), "")
    loads = [run.spec["flows"][0]["load"] for run in plan.runs]
    for load in loads:
        assert load["kind"] == "page"
        assert load["page"]["hosts"] == [
            {"name": "http://a.example", "open": False, "tls": False},
            {"name": "a.example", "open": False},
            {"name": "http://b.example", "open": False, "tls": False},
        ]
        objects = load["page"]["objects"]
        assert [one.get("redirect") for one in objects] == [1, 2, None, None, None]
        assert [one["after"] for one in objects] == [[], [0], [1], [2], [2]]
        assert [one["request_bytes"] for one in objects] == [644, 433, 50, 550, 50]
        assert [one["response_header_bytes"] for one in objects] == [500, 300, 100, 500, 100]
    # TCP and a request; TLS 1.3 over TCP, or QUIC, and a request; one more on that connection.
    trips = {bound.cell["flow.browser.load.http"]: bound.first_byte_s for bound in bounds(plan)}
    assert trips == {"2": pytest.approx((2 + 3 + 1) * 0.2), "3": pytest.approx((2 + 2 + 1) * 0.2)}


@pytest.mark.parametrize("http", ["1.1", "2", "3"])
def test_a_simulated_load_of_a_recorded_site(tmp_path: Path, http: str) -> None:
    """Over a fast path of 200 ms: round trips, by hand. Connections over http come from the handshake of TCP alone."""
    entries = [
        moved("http://a.example/", 1, "https://a.example/"),
        entry("https://a.example/", 2, size=900),
        entry("http://b.example/b.js", 3),
        moved("https://a.example/c", 4, "https://a.example/d", _initiator={"url": "http://b.example/b.js"}),
        entry("https://a.example/d", 5),
    ]
    recorded(tmp_path, entries)
    path = SCENARIO.replace("1 Mbit/s", "1 Gbit/s").replace('"sky"', '"sky"\ndelay = "100 ms"')
    (tmp_path / "s.toml").write_text(path.replace("PAGE", f'"a.har", http = "{http}", loads = 1'))
    store = run(tmp_path / "s.toml", out=tmp_path / "out", jobs=1)
    secure = {"1.1": "http/1.1", "2": "h2", "3": "h3"}[http]
    requests = store.rows("requests", ["object", "host", "protocol", "connection", "end_s"]).to_dicts()
    assert [(one["object"], one["host"], one["protocol"]) for one in requests] == [
        ("index", "http://a.example", "http/1.1"), ("index-2", "a.example", secure),
        ("b.js", "http://b.example", "http/1.1"), ("c", "a.example", secure), ("d", "a.example", secure),
    ]  # fmt: skip
    # TCP and a request; TLS and QUIC have a handshake more, or the only one; what is connected takes one.
    handshakes = {"1.1": 2, "2": 2, "3": 1}[http]
    trips = [2, 2 + handshakes + 1]
    trips += [trips[1] + 2, trips[1] + 3, trips[1] + 4]
    assert [one["end_s"] / 0.2 for one in requests] == pytest.approx(trips, abs=0.02)
    (page,) = store.pages.to_dicts()
    assert (page["protocol"], page["objects"], page["connections"]) == (secure, 5, 3)
    assert page["ttr_s"] / 0.2 == pytest.approx(trips[1], abs=0.02)
    assert page["plt_s"] / 0.2 == pytest.approx(trips[4], abs=0.02)
    if http == "3":
        numbers = [one["connection"] % 2 for one in requests]
        assert numbers == [1, 0, 1, 0, 0], "QUIC has the even numbers, TCP the odd ones"


# --- the files of browse -------------------------------------------------------------------------------------------


def event(method: str, id_: str, at: float, **more: Any) -> dict[str, Any]:
    """A Network event of the DevTools protocol."""
    return {"method": f"Network.{method}", "params": {"requestId": id_, "timestamp": at, **more}}


def test_the_files_of_browse_keep_redirects(tmp_path: Path) -> None:
    """The events of a load whose document and whose picture are redirected; sizes go to the end of each chain."""

    def sent(request: str, at: float, url: str, answer: int | None = None, **more: Any) -> dict[str, Any]:
        found = event("requestWillBeSent", request, at, wallTime=1e9 + at, request={"url": url, "method": "GET", "headers": {}}, **more)  # fmt: skip
        if answer is not None:
            found["params"]["redirectResponse"] = {
                "status": answer, "encodedDataLength": 180, "headers": {"location": url}, "protocol": "h2",
            }  # fmt: skip
        return found

    def answered(request: str, at: float, size: int) -> list[dict[str, Any]]:
        response = {"status": 200, "headers": {}, "protocol": "h2", "mimeType": "text/html"}
        return [
            event("responseReceived", request, at, response=response),
            event("dataReceived", request, at, dataLength=3 * size),
            event("loadingFinished", request, at, encodedDataLength=size + 90),
        ]

    site = "https://a.example"
    events = [
        sent("1", 1, f"{site}/"), sent("1", 2, f"{site}/login", 302), sent("1", 3, f"{site}/", 302),
        *answered("1", 4, 800),
        sent("2", 5, f"{site}/old.png", initiator={"type": "parser", "url": f"{site}/"}),
        sent("2", 6, f"{site}/new.png", 301, initiator={"type": "parser", "url": f"{site}/"}),
        *answered("2", 7, 500),
    ]  # fmt: skip
    timings = {
        "navigation": {"name": f"{site}/", "encodedBodySize": 800},
        "resources": [{"name": f"{site}/old.png", "encodedBodySize": 500}],
    }
    content = archive(1, events, timings, "Chromium 156")
    assert [one["response"]["redirectURL"] for one in content["log"]["entries"]] == [
        f"{site}/login", f"{site}/", "", f"{site}/new.png", "",
    ]  # fmt: skip
    (tmp_path / "load.har").write_text(json.dumps(content))
    found = read_har(tmp_path / "load.har")
    assert [(one.name, one.size.bytes, one.after, one.redirect) for one in found.page.object] == [
        ("index", 0, [], "login"), ("login", 0, [], "index-2"), ("index-2", 800, [], None),
        ("old.png", 0, ["index-2"], "new.png"), ("new.png", 500, [], None),
    ]  # fmt: skip
    assert found.notes == ()
