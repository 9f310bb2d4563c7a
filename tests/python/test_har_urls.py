"""Redirects of HAR files: a request's URL is as the browser sent it, a redirect's target as the server wrote it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bentpipe.scenario.har import read_har
from bentpipe.scenario.har_urls import normalise, resolve_redirect


def read(
    tmp_path: Path, *asked: tuple[str, dict[str, Any]], **more: Any
) -> list[tuple[str, str, list[str], str | None]]:
    """Return name, host, dependency and redirect of each object; the argument has URLs and responses."""
    entries = [
        {
            "startedDateTime": f"2026-01-31T12:00:0{second}Z",
            "request": {"method": "GET", "url": url},
            "response": {"status": 200, "bodySize": 100} | response,
            **(more if second else {}),
        }
        for second, (url, response) in enumerate(asked)
    ]
    (tmp_path / "a.har").write_text(json.dumps({"log": {"version": "1.2", "entries": entries}}))
    return [(one.name, one.host, one.after, one.redirect) for one in read_har(tmp_path / "a.har").page.object]


def moved(to: str) -> dict[str, Any]:
    return {"status": 301, "bodySize": 0, "redirectURL": to}


@pytest.mark.parametrize(
    ("to", "asked"),
    [
        ("https://www.e.com", "https://www.e.com/"),
        ("https://www.e.com?q=1", "https://www.e.com/?q=1"),
        ("https://www.e.com:443/", "https://www.e.com/"),
        ("https://www.e.com:/", "https://www.e.com/"),
        ("HTTPS://WWW.E.com/Path", "https://www.e.com/Path"),
        ("https://www.e.com/ü?ö=ß", "https://www.e.com/%C3%BC?%C3%B6=%C3%9F"),
        ("https://www.e.com/\u00c3\u00bc", "https://www.e.com/%C3%BC"),  # the bytes of a field, as Latin-1
        ("https://www.e.com/日", "https://www.e.com/%E6%97%A5"),
        ("https://www.e.com/a b?c d", "https://www.e.com/a%20b?c%20d"),
        ("https://www.e.com/%7Ea%2f?b=%zz", "https://www.e.com/%7Ea%2f?b=%zz"),
        ("https://www.e.com/x/../y/./z", "https://www.e.com/y/z"),
        ("https://www.e.com/x/..", "https://www.e.com/"),
        (" https://www.e.com/y#top ", "https://www.e.com/y"),
        ("//www.e.com", "https://www.e.com/"),
        ("https://münchen.example/", "https://xn--mnchen-3ya.example/"),
        ("http://www.e.com:80", "http://www.e.com/"),
        ("https://www.e.com:8443", "https://www.e.com:8443/"),
        ("https://[2001:DB8::1]:443", "https://[2001:db8::1]/"),
        ("/ü", "https://e.com/%C3%BC"),
        ("ä/b", "https://e.com/%C3%A4/b"),
    ],
)
def test_a_target_is_the_request_that_a_browser_makes_of_it(tmp_path: Path, to: str, asked: str) -> None:
    """The chain holds, and what the target asks for waits for it."""
    assert resolve_redirect("https://e.com/", to) == asked
    found = read(
        tmp_path,
        ("https://e.com/", moved(to)),
        (asked, {}),
        ("https://e.com/a.js", {}),
        _initiator={"url": asked},
    )
    second = found[1][0]
    assert [one[2:] for one in found] == [([], second), ([], None), ([second], None)]


def test_a_request_that_is_not_in_a_browsers_form_is_brought_into_it(tmp_path: Path) -> None:
    """Other programs write URLs as they were given; an initiator is found in any spelling, and a host is one."""
    found = read(
        tmp_path,
        ("HTTPS://E.com:443", moved("https://e.com/ü")),
        ("https://e.com/ü#top", {}),
        ("https://E.COM/a.js", {}),
        _initiator={"stack": {"callFrames": [{"url": "about:blank"}, {"url": "https://e.com:443/%C3%BC"}]}},
    )
    assert found == [
        ("index", "e.com", [], "ü"), ("ü", "e.com", [], None), ("a.js", "e.com", ["ü"], None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "other",
    [
        "https://www.e.com/Y",
        "https://www.e.com/y/",
        "http://www.e.com/y",
        "https://www.e.com:80/y",
        "https://www.e.com/y?q",
        "https://www.e.com/%79",
        "https://www.e.com.org/y",
    ],
)
def test_different_urls_stay_different(tmp_path: Path, other: str) -> None:
    first, second = read(tmp_path, ("https://e.com/", moved("https://www.e.com/y")), (other, {}))
    assert (first[3], second[2]) == (None, ["index"])


@pytest.mark.parametrize(
    "url", ["about:blank", "data:,x", "blob:https://e.com/1", "", "https://[x/", "no url", "https:///"]
)
def test_other_urls_are_unchanged(tmp_path: Path, url: str) -> None:
    """Neither as a target nor as an initiator does it lead anywhere, or stop the reading."""
    assert normalise(url) == url
    found = read(tmp_path, ("https://e.com/", {}), ("https://e.com/x", moved(url)), _initiator={"url": url})
    assert [one[2:] for one in found] == [([], None), (["index"], None)]


@pytest.mark.parametrize(
    "url", ["https://e.com/\ud800", "https://e\ud800.com/", "https://e.com:" + "9" * 5000 + "/"]
)
def test_malformed_letters_and_numbers_are_urls_as_well(url: str) -> None:
    assert normalise(normalise(url)) == normalise(url)
