"""Pages in a scenario: objects of the engine, loads, HAR files, and messages."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import Plan, build_plan
from bentpipe.runners.engine import catalogue
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.har import read_har, to_toml
from bentpipe.scenario.web_page import Page

NEWS: dict[str, Any] = {
    "duration": "60 s",
    "path": {"segment": [{"name": "sat", "delay": "300 ms", "both": {"rate": "10 Mbit/s"}}]},
    "flow": [{"name": "web", "congestion": "cubic", "load": {"page": "news", "loads": 2}}],
    "page": {
        "news": {
            "object": [
                {"name": "index", "size": "8 kB", "host": "site"},
                {"name": "style", "size": "20 kB", "host": "site", "after": ["index"], "think": "5 ms"},
                {
                    "name": "photo",
                    "size": "1 MB",
                    "host": "cdn",
                    "after": ["index", "style"],
                    "request": "99 B",
                },
            ],
            "host": {"cdn": {"open": True, "limit": "100 MB"}},
        }
    },
}


def planned(change: dict[str, Any] | None = None, base: dict[str, Any] | None = None) -> Plan:
    return build_plan(
        load_scenario(copy.deepcopy(base or NEWS), list((change or {}).items())),
        "test",
        catalogue=catalogue(),
    )


def load(change: dict[str, Any] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = planned(change).runs[0].spec["flows"][0]["load"]
    return found


def test_a_page_in_the_engines_words() -> None:
    found = load()
    page = found.pop("page")
    assert page["hosts"] == [{"name": "site", "open": False}, {"name": "cdn", "open": True}]
    assert [one["after"] for one in page["objects"]] == [[], [0], [0, 1]]
    assert [one["host"] for one in page["objects"]] == [0, 0, 1]
    assert [one["request_bytes"] for one in page["objects"]] == [433, 50, 99]
    assert [one["response_header_bytes"] for one in page["objects"]] == [300, 100, 300]
    assert page["objects"][1]["think_ns"] == 5_000_000
    assert found == {
        "kind": "page", "http": "3", "loads": 2, "pause_ns": [0, 0], "timeout_ns": 300 * 10**9, "profile": "reused",
        "keep_connections": False, "udp_blocked": False, "quic_head_start_ns": 300_000_000,
        "connections_per_host": 6, "parse_ns": 0,
        "tls": {"version": "1.3", "resumption": False, "early_data": False, "certificate_bytes": 2300,
                "client_hello_bytes": 2014},
    }  # fmt: skip


def test_both_transports_and_the_version_that_goes_with_one() -> None:
    flow = planned({"flow.web.tcp.congestion": "hybla", "quic.ip": 6}).runs[0].spec["flows"][0]
    assert (flow["transport"]["kind"], flow["transport"]["quic"]["header_bytes"]) == ("web", 48)
    assert [one["name"] for one in flow["transport"]["tcp_congestion"]] == ["hybla", "hybla"]
    assert planned().runs[0].spec["flows"][0]["transport"]["tcp_congestion"] is None
    assert load({"flow.web.transport": "tcp"})["http"] == "2"
    assert load({"flow.web.load.http": "1.1"})["page"]["objects"][1]["request_bytes"] == 550


def test_pauses_that_are_drawn_are_chance() -> None:
    tcp = {"seeds": 3, "flow.web.load.http": "2"}
    drawn = {**tcp, "flow.web.load.pause": ["5 s", "15 s"]}
    assert len(planned(tcp).runs) == 1
    assert len(planned({**tcp, "flow.web.load.http": "3"}).runs) == 3, "QUIC draws packet numbers"
    assert len(planned({**tcp, "flow.web.load.pause": "5 s"}).runs) == 1
    found = planned(drawn)
    assert len(found.runs) == 3
    assert found.runs[0].spec["flows"][0]["load"]["pause_ns"] == [5 * 10**9, 15 * 10**9]
    assert len(planned({**drawn, "flow.web.load.loads": 1}).runs) == 1


def test_pages_of_presets() -> None:
    found = load({"flow.web.load.page": "target-a"})["page"]
    assert (found["name"], [one["body_bytes"] for one in found["objects"]]) == ("target-a", [5_300_000])


OBJECT = {"name": "index", "size": "1 kB"}
EARLY = {"page": "news", "resumption": True, "early_data": True, "loads": 2}


@pytest.mark.parametrize(
    ("objects", "host", "message"),
    [
        ([OBJECT, {"name": "a", "size": "1 B", "after": ["b"]}, {"name": "b", "size": "1 B", "after": ["a"]}], {},
         "a after b after a"),
        ([OBJECT, {"name": "a", "size": "1 B", "after": ["indx"]}], {}, 'did you mean "index"'),
        ([OBJECT, OBJECT], {}, 'duplicate object name "index"'),
        ([{**OBJECT, "size": "2 MB"}], {"origin": {"limit": "1 MB"}}, "limit of host origin"),
        ([OBJECT], {"orgin": {}}, 'did you mean "origin"'),
        ([{**OBJECT, "after": ["index"]}], {}, "main document"),
        ([{**OBJECT, "request": "0 B"}], {}, "request"),
        ([], {}, "at least 1"),
        ([{**OBJECT, "name": ""}], {}, "expected a name"),
    ],
)  # fmt: skip
def test_a_page_that_cannot_be_loaded_is_refused(
    objects: list[Any], host: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError) as error:
        planned({"page.news": {"object": objects, "host": host}})
    assert message in str(error.value)
    assert "page.news" in str(error.value)
    assert len(error.value.problems) == 1


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"page": "nws"}, 'did you mean "news"'),
        ({**EARLY, "loads": 1}, "with loads = 1"),
        ({**EARLY, "profile": "fresh"}, 'profile = "fresh"'),
        ({**EARLY, "resumption": False}, "without resumption"),
        ({**EARLY, "tls": "1.2"}, 'tls = "1.2"'),
        ({"page": "news", "http": "3", "udp_blocked": True}, "UDP is dropped"),
        ({"page": "news", "udp_blocked": True}, "udp_blocked: found true with HTTP/3"),
        ({"page": "news", "keep_connections": True, "profile": "fresh"}, "keep_connections"),
        ({"page": "news", "pause": ["9 s", "1 s"]}, "the shorter one first"),
        ({"page": "news", "http": "4"}, "expected one of: 1.1"),
        ({"bytes": "1 MB", "tls": "1.2"}, "found tls without page"),
        ({"page": "news", "bytes": "1 MB"}, "exactly one of"),
        ({"page": {"har": "none.har"}}, 'no file "none.har"'),
        ({"page": {"named": "news", "har": "none.har"}}, "named and har"),
        ({"page": "news", "certificate": "1 B"}, "certificate"),
    ],
)
def test_a_load_that_does_not_go_together_is_refused(found: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        planned({"flow.web.load": found})
    assert message in str(error.value)
    assert len(error.value.problems) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"flow.web.transport": "tcp", "flow.web.load.http": "3"}, "expected no transport"),
        ({"flow.web.direction": "down"}, "with a page"),
        ({"quic.handshake": "0-rtt"}, "quic.handshake"),
        ({"flow.web.quic.handshake": "0-rtt"}, "flow.web.quic.handshake"),
    ],
)
def test_a_flow_that_does_not_go_with_a_page_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        planned(change)
    assert message in str(error.value)


def entry(url: str, size: int = 100, status: int = 200, **more: Any) -> dict[str, Any]:
    return {
        "startedDateTime": "2026-01-01T00:00:00Z",
        "request": {"url": url, "headersSize": 400},
        "response": {"status": status, "bodySize": size, "headersSize": -1, "content": {"size": 3 * size}},
        **more,
    }


HAR = {
    "log": {
        "version": "1.2",
        "entries": [
            entry("https://a.example/"),
            entry("https://a.example/app.js", 2000),
            entry("https://b.example/x/photo.jpg", -1, _initiator={"url": "https://a.example/app.js"}),
            entry("data:image/png;base64,AAAA"),
            entry("https://ads.example/blocked.js", 5, status=0),
            entry("https://b.example/y/photo.jpg", 7),
        ],
    }
}


def test_a_har_file_is_a_page(tmp_path: Path) -> None:
    file = tmp_path / "a.har"
    HAR["log"]["entries"][2]["response"]["_transferSize"] = 900  # type: ignore[index]
    file.write_text(json.dumps(HAR))
    page = read_har(file).page
    assert [(one.name, one.size.bytes, one.host, one.after) for one in page.object] == [
        ("index", 100, "a.example", []),
        ("app.js", 2000, "a.example", ["index"]),
        ("photo.jpg", 900, "b.example", ["app.js"]),
        ("photo.jpg-2", 7, "b.example", ["index"]),
    ]
    assert page.object[0].request is not None
    assert Page.model_validate(tomllib.loads(to_toml(page))).object == page.object


def test_the_browsers_caches_are_no_network(tmp_path: Path) -> None:
    """As each browser writes it: Chromium, Safari, Firefox. A state of the cache after a load is no load from it."""
    stored = {
        "expires": "2027-01-01T00:00:00Z",
        "lastAccess": "2026-01-01T00:00:00Z",
        "eTag": "",
        "hitCount": 1,
    }
    entries = [
        entry("https://a.example/"),
        entry("https://a.example/1.js", 0, _fromCache="memory"),
        entry("https://a.example/2.js", 0, _fetchType="Disk Cache"),
        entry("https://a.example/3.js", 0, cache={"afterRequest": None}),
        entry("https://a.example/4.js", 40, cache={"afterRequest": stored}),
        entry("https://a.example/5.js", 50, _fetchType="Network Load", cache={}),
    ]
    for one in entries[4:]:  # what Safari and Firefox may lack
        del one["startedDateTime"], one["request"]["headersSize"], one["response"]["headersSize"]
    (tmp_path / "a.har").write_text(json.dumps({"log": {"entries": entries}}))
    assert {one.name for one in read_har(tmp_path / "a.har").page.object} == {"index", "4.js", "5.js"}


def test_a_load_takes_a_har_file_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "a.har").write_text(json.dumps(HAR))
    (tmp_path / "s.toml").write_text(
        """
duration = "9 s"
[[path.segment]]
name = "sky"
both = { rate = "1 Mbit/s" }
[[flow]]
name = "browser"
congestion = "cubic"
load = { page = "a.har" }
"""
    )
    (load,) = (
        flow["load"] for flow in build_plan(load_scenario(tmp_path / "s.toml"), "").runs[0].spec["flows"]
    )
    assert load["kind"] == "page"
    assert [one["name"] for one in load["page"]["objects"]] == ["index", "app.js", "photo.jpg", "photo.jpg-2"]
    (tmp_path / "a.har").rename(tmp_path / "b.har")
    with pytest.raises(ScenarioError, match=r'browser.load.page: no file "a.har" beside the scenario'):
        build_plan(load_scenario(tmp_path / "s.toml"), "")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (json.dumps(HAR)[:-400], "is truncated"),
        (json.dumps(HAR)[:70], "is truncated"),
        ("<html>", "not JSON"),
        ('{"log": {}}', "expected log.entries"),
        ("[]", "expected log.entries"),
        ('{"log": {"entries": []}}', "no entry with an http"),
        (json.dumps({"log": {"entries": [{}] * 10_001}}), "at most 10,000"),
        (
            json.dumps(
                {
                    "log": {
                        "entries": [
                            {"request": {"url": "http://a/"}, "response": {"status": 200, "bodySize": "8 kB"}}
                        ]
                    }
                }
            ),
            "no entry has the size of its response",
        ),
    ],
)
def test_a_file_that_is_no_har_is_one_message(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "a.har"
    file.write_text(text)
    with pytest.raises(ScenarioError, match=message) as error:
        read_har(file, "page")
    assert len(str(error.value).splitlines()) == 1


def test_a_folder_or_bytes_that_are_no_text_are_one_message(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="cannot be read: it is a directory"):
        read_har(tmp_path, "page")
    (tmp_path / "a.har").write_bytes(b"\xff\xfe{")
    with pytest.raises(ScenarioError, match="is UTF-16 text, expected UTF-8"):
        read_har(tmp_path / "a.har", "page")
