"""``bentpipe-rt serve`` and a browser: the page as the simulated one, and the way to HTTP/3."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import realtime
from served_page import OBJECTS, PATHS, Served, a_server

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def program() -> Path:
    return realtime.program()


class Browser:
    """A headless Chromium that is spoken to over its pipe."""

    def __init__(self, folder: Path, served: Served, *flags: str) -> None:
        realtime.need("chromium")
        hosts = "MAP origin.example 127.0.0.1, MAP static.example 127.0.0.1, MAP * ~NOTFOUND"
        down, self._out = os.pipe()
        self._in, up = os.pipe()
        command = [
            "chromium",
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-extensions",
            "--remote-debugging-pipe",
            f"--user-data-dir={folder / 'profile'}",
            f"--ignore-certificate-errors-spki-list={served.ready['spki']}",
            f"--host-resolver-rules={hosts}",
            *flags,
        ]

        # The pipe's ends are to be at 3 and 4.
        script = (
            "import os, sys; ends = [os.dup(int(end)) for end in sys.argv[1:3]]; "
            "[os.set_inheritable(os.dup2(end, place), True) for end, place in zip(ends, (3, 4))]; "
            "os.execvp(sys.argv[3], sys.argv[3:])"
        )
        self._process = subprocess.Popen(
            [sys.executable, "-c", script, str(down), str(up), *command],
            pass_fds=(down, up),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(down)
        os.close(up)
        self._count, self._rest = 0, b""

    def call(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._count:
                assert "error" not in found, found
                result: dict[str, Any] = found["result"]
                return result

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            data = os.read(self._in, 1 << 16)
            assert data, "the browser is gone"
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def load(self, url: str) -> list[dict[str, Any]]:
        """The timing entries of a page and its resources, after the load event."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.call("Page.enable", session)
        self.call("Page.navigate", session, url=url)
        for _ in range(1200):
            script = (
                "JSON.stringify(location.protocol == 'https:' && document.readyState == 'complete' && "
                "performance.timing.loadEventEnd > 0 ? performance.getEntries() : [])"
            )
            value = self.call("Runtime.evaluate", session, expression=script)["result"]["value"]
            entries: list[dict[str, Any]] = json.loads(value)
            if entries:
                return [one for one in entries if one["entryType"] in ("navigation", "resource")]
            time.sleep(0.05)
        raise AssertionError("the page did not load")

    def close(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._out)
        os.close(self._in)


@pytest.mark.parametrize("protocol", ["h3", "h2"])
def test_a_browser_loads_the_page_as_the_simulated_one(program: Path, tmp_path: Path, protocol: str) -> None:
    with a_server(program, tmp_path) as served:
        hosts = f"origin.example:{served.port},static.example:{served.port}"
        force = ["--enable-quic", f"--origin-to-force-quic-on={hosts}"]
        browser = Browser(tmp_path, served, *(force if protocol == "h3" else ["--disable-quic"]))
        try:
            document = served.ready["document"]
            assert document == f"https://origin.example:{served.port}/"
            entries = {one["name"]: one for one in browser.load(document)}
            # A response is logged when the browser has acknowledged its end.
            log = served.logged(len(OBJECTS))
        finally:
            browser.close()
        objects = served.ready["objects"]
        assert sorted(entries) == sorted(one["url"] for one in objects)
        found = [entries[one["url"]] for one in objects]
        assert {one["nextHopProtocol"] for one in found} == {protocol}
        assert [one["encodedBodySize"] for one in found] == [size for _, size, _, _ in OBJECTS]
        assert found[0]["loadEventStart"] >= max(one["responseEnd"] for one in found)
        assert sorted(one["path"] for one in log) == sorted(PATHS)
        assert {one["protocol"] for one in log} == {protocol}
        assert {(one["path"], one["status"], one["bytes"]) for one in log} == {
            (path, 200, size) for path, (_, size, _, _) in zip(PATHS, OBJECTS, strict=True)
        }
        for one in log:
            assert one["complete"]
            assert one["time_ns"] <= one["first_byte_ns"] <= one["last_byte_ns"]
            assert (one["acked_ns"] is not None) == (protocol == "h3")
            assert one["peer"].startswith("127.0.0.1:")
        # No object is requested before the last byte of its dependency, by the server's clock. A browser may parse the
        # tail of a document before it records its end.
        asked = {one["path"]: one for one in log}
        for path, one, (name, _, after, _) in zip(PATHS, found, OBJECTS, strict=True):
            for other in after:
                assert asked[path]["time_ns"] > asked[PATHS[other]]["last_byte_ns"], name
                assert one["startTime"] >= found[other]["responseStart"], name
        # A host of the page is never reached over another host's connection.
        by_host = {one["authority"].split(".")[0]: one["connection"] for one in log}
        assert by_host["origin"] != by_host["static"]
        end = served.stop()
        assert end["requests"][protocol] == len(OBJECTS)
        assert end["body_bytes"] == sum(size for _, size, _, _ in OBJECTS)


def test_alt_svc_leads_a_browser_to_http3(program: Path, tmp_path: Path) -> None:
    with a_server(program, tmp_path) as served:
        # Another port of the host: QUIC then accepts a certificate without a known authority.
        browser = Browser(
            tmp_path, served, "--enable-quic", "--origin-to-force-quic-on=origin.example:1,static.example:1"
        )
        later: set[str] = set()
        try:
            first = {one["nextHopProtocol"] for one in browser.load(served.ready["document"])}
            for _ in range(10):
                later = {one["nextHopProtocol"] for one in browser.load(served.ready["document"])}
                if later == {"h3"}:
                    break
        finally:
            browser.close()
        assert "h2" in first
        assert later == {"h3"}
