"""Tests of ``bentpipe browse URL``: a local site behind an access network."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import realtime
from bentpipe.lab.browser import har_export
from bentpipe.lab.browser.site_load import SiteLoad, address, visit
from bentpipe.lab.free_port import free_port
from bentpipe.lab.shell import InterruptedLab
from bentpipe.report import site_page as pages
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.har import read_har
from commands import bentpipe

DOT = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")
ANSWERS = {
    "/": (
        200,
        b"<!doctype html><link rel=icon href=data:,><h1>Mine</h1><img src=dot.gif width=200>",
        "text/html",
    ),
    "/dot.gif": (200, DOT, "image/gif"),
    "/says": (
        200,
        b"""<!doctype html><link rel=icon href=data:,><h1>Mine</h1>
        <script>addEventListener('load', () => setTimeout(() => fetch('/after'), 100))</script>""",
        "text/html",
    ),
}


class Handler(http.server.BaseHTTPRequestHandler):
    """A site with a redirect, a circular redirect, a page that never arrives, and one that reports its load."""

    released = threading.Event()
    asked = threading.Event()
    """A client has requested the page that never arrives, or the page that reports its load has loaded."""

    def do_GET(self) -> None:
        if self.path in ("/never", "/after"):
            self.asked.set()
            self.released.wait(60)
            return
        to = {"/moved": "/", "/circle": "/circle"}.get(self.path)
        status, body, kind = (302, b"", "") if to else ANSWERS.get(self.path, (404, b"no", "text/plain"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Location" if to else "Content-Type", to or kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary files of commands, beside the test's: a name of its own, and short, as Chromium puts a socket there."""
    with tempfile.TemporaryDirectory(prefix="bp-") as name:
        Path(name).chmod(0o711)  # the browser is another user
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.setattr(tempfile, "tempdir", None)
        yield Path(name)


@pytest.fixture(scope="module")
def site() -> Iterator[str]:
    realtime.need_namespaces("nft", "chromium")
    realtime.need_root("a server on the machine's own side")
    with pytest.MonkeyPatch.context() as patch, http.server.ThreadingHTTPServer(("", 0), Handler) as server:
        patch.setenv("BENTPIPE_RT", str(realtime.program()))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_address[1]}"
        Handler.released.set()
        server.shutdown()
        thread.join()


@pytest.mark.lab
def test_a_redirect_a_page_and_its_picture(site: str, tmp_path: Path) -> None:
    """Every round trip of the path is in it: 80 ms for each connection, redirect, answer. The HAR file is a page."""
    found = visit(f"{site}/moved", "lte-4g", tmp_path / "out")
    assert found.error == ""
    assert [(one["url"].removeprefix(site), one["status"]) for one in found.requests] == [
        ("/moved", 302), ("/", 200), ("/dot.gif", 200),
    ]  # fmt: skip
    assert found.marks["loaded"] >= found.marks["first byte"] >= 3 * 80.0
    assert found.bytes == len(ANSWERS["/"][1]) + len(DOT)
    assert all(picture.read_bytes()[:2] == b"\xff\xd8" for _, picture in found.film)
    page = read_har(tmp_path / "out" / "load.har").page
    assert [(one.name, one.after, one.redirect) for one in page.object] == [
        ("moved", [], "index"), ("index", [], None), ("dot.gif", ["index"], None),
    ]  # fmt: skip
    assert [host.tls for host in page.host.values()] == [False]
    again = visit(f"{site}/", "lte-4g", tmp_path / "out")
    assert [one["status"] for one in again.requests] == [200, 200]
    # A browser that waits for its processor has painted nothing within the second after the load.
    assert found.film or again.film or visit(f"{site}/", "lte-4g", tmp_path / "out").film


@pytest.mark.lab
def test_a_failed_load_is_reported_and_saved(site: str, tmp_path: Path) -> None:
    done = bentpipe(tmp_path, "browse", f"{site}/circle", "--access", "lte-4g", "--out", "circle", "--json")
    message = json.loads(done.stdout)
    assert (done.returncode, message["error"]) == (1, "too many redirects: net::ERR_TOO_MANY_REDIRECTS")
    assert {one["status"] for one in message["requests"]} == {302, None}
    assert (tmp_path / "circle" / "page.html").exists()
    assert len(json.loads((tmp_path / "circle" / "load.har").read_text())["log"]["entries"]) > 10


@pytest.mark.lab
@pytest.mark.parametrize(
    ("path", "error", "tally"),
    [
        ("", "connection refused: net::ERR_CONNECTION_REFUSED", "failed"),
        ("/never", "not finished within 6 s", "unanswered"),
    ],
)
def test_a_site_that_does_not_answer(site: str, tmp_path: Path, path: str, error: str, tally: str) -> None:
    """One sentence and exit status 1; no instant of another page is reported for this one."""
    url = site + path if path else f"http://localhost:{free_port()}/"
    done = bentpipe(tmp_path, "browse", url, "--access", "lte-4g", "--timeout", "6 s", "--out", "o")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[:2] == [
        f"{url} over lte-4g did not load: {error}.", f"1 request, 0 kB of bodies: 1 {tally}."
    ]  # fmt: skip
    assert {"page.html", "load.har", "visit.json"} < {one.name for one in (tmp_path / "o").iterdir()}
    visit = json.loads((tmp_path / "o" / "visit.json").read_text())
    assert visit["left_s"] - visit["start_s"] < 15, "6 s, a second more, and the end of the browser"
    assert _left() == []


@pytest.mark.lab
def test_a_browser_that_is_killed_while_it_loads(site: str, tmp_path: Path) -> None:
    with _killed_when_asked():
        done = bentpipe(tmp_path, "browse", f"{site}/never", "--access", "lte-4g", "--out", "o")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(f"{site}/never over lte-4g did not load: the browser exited.\n")
    assert "1 request, 0 kB of bodies: 1 unanswered." in done.stdout
    assert (tmp_path / "o" / "page.html").exists()
    assert _left() == []


@pytest.mark.lab
def test_a_browser_that_ends_after_the_load_has_loaded(site: str, tmp_path: Path) -> None:
    """Only what the page does in the second after its load event is not known."""

    def judge(number: int) -> list[object]:
        words = ("--access", "lte-4g", "--out", f"o{number}", "--json")
        with _killed_when_asked():
            done = bentpipe(tmp_path, "browse", f"{site}/says", *words)
        message = json.loads(done.stdout)
        assert _left() == []
        # On a busy machine the kill comes before the load event is known of, or when the second is over.
        if message["error"] == "the browser exited" or not message["warning"]:
            return [message["error"], "the kill came after it"]
        assert (done.returncode, message["error"]) == (0, None)
        assert message["warning"] == "no data for the second after the load event: the browser exited"
        assert message["marks_ms"]["loaded"] > 2 * 80
        assert message["warning"] in (tmp_path / f"o{number}" / "page.html").read_text()
        return []

    realtime.tried(judge)


@pytest.mark.lab
def test_ctrl_c_keeps_what_has_come(site: str, tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "bentpipe.cli",
        "browse",
        f"{site}/never",
        "--access",
        "lte-4g",
        "--out",
        "o",
    ]
    Handler.asked.clear()
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        assert Handler.asked.wait(60)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        printed, message = process.communicate(timeout=60)
    assert (process.returncode, message) == (
        130, "\ninterrupted: the partial result is in o; rerun the command to start again\n",
    )  # fmt: skip
    assert printed.startswith(f"{site}/never over lte-4g did not load: it was interrupted.\n")
    assert json.loads((tmp_path / "o" / "visit.json").read_text())["requests"][0]["url"] == f"{site}/never"
    assert (tmp_path / "o" / "page.html").exists()
    assert _left() == []


def test_ctrl_c_before_there_is_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> None:
        raise InterruptedLab({})

    monkeypatch.setattr("bentpipe.lab.browser.site_load.run_lab", interrupted)
    monkeypatch.setattr("bentpipe.lab.browser.chromium.find", lambda: Path("chromium"))
    (tmp_path / "o").mkdir()
    (tmp_path / "o" / "visit.json").write_text("an earlier one")
    done = bentpipe(tmp_path, "browse", "http://x/", "--access", "lte-4g", "--out", "o")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "\ninterrupted before the first request; nothing was saved\n"
    assert [one.read_text() for one in (tmp_path / "o").iterdir()] == ["an earlier one"]


def test_each_load_over_an_access_has_its_number_as_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: dict[str, list[int | None]] = {"starlink": [], "lte-4g": []}

    def load(url: str, access: str, folder: Path, *, seed: int | None = None, **_: object) -> SiteLoad:
        seeds[access].append(seed)
        return SiteLoad(url, access, folder, "", {"loaded": 1e3 * len(access)}, [], 0.0, 1.0, [], [], "")

    monkeypatch.setattr("bentpipe.lab.browser.site_load.visit", load)
    words = ["browse", "http://x/", "--access", "starlink,lte-4g", "--loads", "3", "--out", "o"]
    done = bentpipe(tmp_path, *words)
    assert done.returncode == 0, done.stderr
    assert seeds == {"starlink": [1, 2, 3], "lte-4g": [1, 2, 3]}
    assert "note: load k has seed k; each load has other random values of starlink\n" in done.stdout
    assert json.loads(bentpipe(tmp_path, *words, "--json").stdout)["seeds"] == [1, 2, 3]
    refused = bentpipe(tmp_path, *words, "--set", "seeds=[4]")
    expected = "error: --set seeds: load k has seed k, expected --loads with the number of loads\n"
    assert (refused.returncode, refused.stderr) == (2, expected)


@pytest.mark.parametrize(("given", "seed"), [(None, 4), (7, 7)])
def test_a_load_has_the_seed_of_its_access_or_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: int | None, seed: int
) -> None:
    plans: list[Any] = []

    def interrupted(plan: object) -> None:
        plans.append(plan)
        raise InterruptedLab({})

    monkeypatch.setattr("bentpipe.lab.browser.site_load.run_lab", interrupted)
    monkeypatch.setattr("bentpipe.lab.browser.chromium.find", lambda: Path("chromium"))
    with pytest.raises(InterruptedLab):
        visit("http://x/", "starlink", tmp_path / "o", overrides=[("seeds", [4])], seed=given)
    assert plans[0]["lab"]["seed"] == seed


@pytest.mark.lab
@pytest.mark.nightly
def test_a_har_file_is_served_to_a_browser(site: str, tmp_path: Path) -> None:
    """A visited site, served by ``bentpipe serve`` with a self-signed certificate: its objects, with their sizes, by HTTP/2. Nothing loads without the key of the certificate."""
    visit(f"{site}/", "lte-4g", tmp_path / "first")
    port = free_port()
    command = [
        sys.executable, "-u", "-m", "bentpipe.cli", "serve", "first/load.har", "--listen", f"[::]:{port}",
    ]  # fmt: skip
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()
            words = server.stdout.readline().split()
            url = f"https://localhost:{port}/"
            unknown = bentpipe(tmp_path, "browse", url, "--access", "lte-4g", "--out", "none", "--json")
            assert (unknown.returncode, unknown.stderr) == (1, "")
            assert json.loads(unknown.stdout)["error"].startswith("the certificate is not trusted")
            found = visit(url, "lte-4g", tmp_path / "second", spki=words[-1])
        finally:
            server.terminate()
    assert words[2:4] == ["browse", "first/load.har"]
    assert found.error == ""
    assert found.protocols == {"h2": 2}
    assert sorted(one["bytes"] for one in found.requests) == sorted([len(ANSWERS["/"][1]), len(DOT)])


NAMED = """
mount --bind {folder}/hosts /etc/hosts && mount --bind {folder}/resolv.conf /etc/resolv.conf && exec "$@"
"""


@pytest.mark.lab
def test_names_that_only_this_machine_knows(site: str, tmp_path: Path) -> None:
    """hosts(5) maps one to loopback, the server side; the other has no address."""
    (tmp_path / "hosts").write_text("127.0.0.1 localhost\n127.0.1.1 Mine.test other # mine.invalid\n")
    (tmp_path / "resolv.conf").write_text("")
    place = ["unshare", "--mount", "sh", "-c", NAMED.format(folder=tmp_path), "sh"]
    message = {}
    for host in ("mine.test", "mine.invalid"):
        words = [
            "browse",
            f"{site.replace('localhost', host)}/",
            "--access",
            "lte-4g",
            "--out",
            host,
            "--json",
        ]
        done = subprocess.run(
            [*place, sys.executable, "-m", "bentpipe.cli", *words],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.stderr == ""
        message[host] = done.returncode, json.loads(done.stdout)
    status, mine = message["mine.test"]
    assert (status, mine["error"], [one["status"] for one in mine["requests"]]) == (0, None, [200, 200])
    status, nowhere = message["mine.invalid"]
    assert status == 1
    assert nowhere["error"].endswith("unknown or not allowed: net::ERR_NAME_NOT_RESOLVED")
    assert _left() == []


@pytest.mark.lab
def test_a_site_behind_a_proxy(site: str, tmp_path: Path) -> None:
    found = visit(f"{site}/", "geo-konnect", tmp_path / "out", pep="early")
    assert (found.error, [one["status"] for one in found.requests]) == ("", [200, 200])


def _left() -> list[str]:
    """Processes and folders of visits of this test's."""
    found = [str(one) for one in Path(os.environ["TMPDIR"]).iterdir()]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            line = entry.read_text()
            found += [line] if os.environ["TMPDIR"] in line else []
    return found


@contextlib.contextmanager
def _killed_when_asked() -> Iterator[None]:
    """Kill the browser of this test after its request for the page that never arrives."""
    Handler.asked.clear()

    def kill() -> None:
        Handler.asked.wait(120)
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = entry.read_text().split("\0")
                if any(one.startswith(f"--user-data-dir={os.environ['TMPDIR']}/") for one in words):
                    os.kill(int(entry.parent.name), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        yield
    finally:
        Handler.asked.set()
        thread.join()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ftp://x/", "--access", "lte-4g"], "URL: found"),
        (["http://:80/", "--access", "lte-4g"], "URL: found"),
        (["http://x/"], "--access: missing, required with a URL"),
        (["http://x/", "--access", "lte4g"], 'did you mean "lte-4g"'),
        *[
            (["http://x/", "--access", "lte-4g", *words], f"{words[0]}: cannot be combined with a URL")
            for words in (
                ["--sessions", "10"],
                ["--http", "2"],
                ["--pause", "1 s"],
                ["--session-interval", "6 min"],
                ["--hours", "8-18"],
                ["--quota", "1 GB"],
                ["--jobs", "1"],
                ["--netlog"],
                ["--no-path-check"],
                ["--keep-invalid"],
                ["--annotate", "rain=none"],
                ["--metar", "f"],
                ["--remote", "h"],
                ["--run", "3-1"],
            )
        ],
        (["http://x/", "--access", "lte-4g", "--out", "there"], "exists and is not a result of browse"),
        (["http://x/", "--access", "lte-4g", "--spki", "k"], '--spki: found "k", expected the 44 characters'),
        (["http://x/", "--access", "lte-4g", "--pep", "late"], 'no set-up "late"'),
        (["http://x/", "--access", "lte-4g", "--timeout", "0"], "expected a time above 0"),
        (["s.toml", "--access", "lte-4g"], "--access: cannot be combined with the scenario s.toml"),
        (["s.toml", "--pep", "early"], "--pep: requires --access"),
    ],
)
def test_refused_input(words: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "mine").touch()
    done = bentpipe(tmp_path, "browse", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (tmp_path / "out").exists()


def _event(method: str, at: float, **more: Any) -> dict[str, Any]:
    return {"method": f"Network.{method}", "params": {"requestId": "1", "timestamp": at, **more}}


def test_a_redirect_is_a_request_of_its_own() -> None:
    events = [
        _event("requestWillBeSent", 1.0, request={"url": "http://a/"}),
        _event("requestWillBeSent", 2.0, request={"url": "http://a/b"},
               redirectResponse={"status": 301, "encodedDataLength": 99}),
        _event("responseReceived", 3.0, response={"status": 200}),
        _event("dataReceived", 3.5, dataLength=7),
        _event("loadingFinished", 4.0, encodedDataLength=50),
    ]  # fmt: skip
    first, second = har_export.requests(events)
    assert (first["response"]["status"], first["end_s"], first["encoded"], first["body"]) == (301, 2.0, 99, 0)
    assert (second["response"]["status"], second["end_s"], second["encoded"], second["body"]) == (
        200,
        4.0,
        50,
        7,
    )


def test_an_address() -> None:
    assert address("https://my.site:8443/a?b") == "https://my.site:8443/a?b"
    for wrong in ("http://", "http://a:99999/", "file:///etc/passwd"):
        with pytest.raises(ScenarioError, match="expected one such as"):
            address(wrong)


def _row(url: str, **more: Any) -> dict[str, Any]:
    """A request that was answered whole in a second."""
    return {
        "url": url, "status": 200, "protocol": "h2", "bytes": 1500, "error": "", "queued_s": 10.0, "connect_start_s": 10.1,
        "connect_end_s": 10.2, "sent_s": 10.2, "response_start_s": 10.5, "end_s": 11.0, "failed_s": None, **more,
    }  # fmt: skip


LOST = {
    **dict.fromkeys(_row("")), "url": "http://a/c", "status": 0, "protocol": "", "bytes": 0, "error": "gone",
    "queued_s": 10.5, "failed_s": 11.5,
}  # fmt: skip
"""A request that failed before it was sent."""


def test_the_page_of_a_visit(tmp_path: Path) -> None:
    """The verdict with its evidence, a bar for each phase that occurred, the table of every page, and a name that is a
    stranger's text."""
    (tmp_path / "1.jpg").write_bytes(b"\xff\xd8")
    seen = pages.SiteReport(
        "http://a/", "lte-4g", "", {"first byte": 500.0, "first contentful paint": 900.0, "loaded": 2000.0},
        [_row("http://a/<b>"), LOST], 10.0, 13.0, [(0, tmp_path / "1.jpg")], ["it is late"],
    )  # fmt: skip
    assert (
        pages.headline_text(seen)
        == "http://a/ over lte-4g loads in 2.00 s; first contentful paint after 0.90 s."
    )
    assert (
        pages.supporting_text(seen)
        == "First byte after 0.50 s. 2 requests, 2 kB of bodies: 1 over h2 and 1 failed."
    )
    text = pages.write(seen, tmp_path / "page.html", "1").read_text()
    assert "&lt;b&gt; (a)" in text
    assert "<b> (a)" not in text
    assert 'class="connect" style="left:5.000%;width:5.000%"' in text
    assert 'class="wait" style="left:10.000%;width:15.000%"' in text
    assert 'class="receive" style="left:25.000%;width:25.000%"' in text
    assert 'class="open" style="left:25.000%;width:50.000%"' in text
    assert text.count('class="queued" style') == 1
    assert 'class="mark m1" style="left:25.000%"' in text
    assert '<p class="warning">it is late</p>' in text
    assert "<summary>Table, 2 rows</summary>" in text
    assert f'<abbr title="{pages.COLUMNS["first byte"]}">first byte</abbr><small>ms</small>' in text
    assert f"<dt>first contentful paint</dt><dd>{pages.MARKS['first contentful paint']}</dd>" in text
    assert pages.rows(seen)[0]["first byte, ms"] == 500.0


def test_the_page_of_a_site_that_never_answers(tmp_path: Path) -> None:
    """An open request is drawn until the end of the session; no other instant is known."""
    asked = LOST | {"error": "", "queued_s": 10.0, "failed_s": None, "sent_s": 11.0}
    seen = pages.SiteReport("http://a/", "lte-4g", "not finished within 4 s", {}, [asked], 10.0, 14.0, [], [])
    assert pages.headline_text(seen) == "http://a/ over lte-4g did not load: not finished within 4 s."
    assert pages.supporting_text(seen) == "1 request, 0 kB of bodies: 1 unanswered."
    text = pages.write(seen, tmp_path / "page.html", "1").read_text()
    assert 'class="queued" style="left:0.000%;width:25.000%"' in text
    assert 'class="open" style="left:25.000%;width:75.000%"' in text
    assert '<span style="left:0.000%">0\u00a0s</span><span style="left:12.500%">0.5\u00a0s</span>' in text
    never = pages.SiteReport("http://a/", "lte-4g", "gone", {}, [], 10.0, 14.0, [], [])
    assert pages.supporting_text(never) == "The browser made no request."
    assert "Request waterfall" not in pages.write(never, tmp_path / "none.html", "1").read_text()
