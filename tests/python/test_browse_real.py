"""``bentpipe browse`` in a real Chromium: over loopback, and in a lab behind a path."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import bentpipe_studies
import realtime
from bentpipe.lab.browser import split_tcp
from bentpipe.lab.browser.runner import BrowserRunner, Schedule
from bentpipe.lab.browser.sessions import Options, plan_sessions
from bentpipe.report.store_page import write_report
from bentpipe.runners import engine
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.har import read_har
from bentpipe.store.files import DiskError
from bentpipe.store.reader import Store
from bentpipe_studies.thomas_2019 import emulation
from browse_page import FLOW, HEAD, SATELLITE, written

CATALOGUE = engine.catalogue()


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    return written(tmp_path)


# --- in a real browser ----------------------------------------------------------------------------------------------


def _cli(*words: str, timeout: float = 120.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bentpipe.cli", *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


UNIT = {"mode": "2", "error": "", "loads": [], "began_s": 1e9, "ended_s": 1e9 + 1, "port": 4433, "addresses": ["10.0.0.1"],
        "chromium": "C", "cpu": {"busy_mean": 0.1}}  # fmt: skip


def _machine(tmp_path: Path, unit: dict[str, Any], lab: dict[str, Any], status: int = 0) -> Path:
    """A bentpipe-rt whose labs end at once, with this record and result; it counts them."""
    program = tmp_path / "rt"
    folder = "$5"
    program.write_text(
        f"#!/bin/sh\ncat $2 > /dev/null\necho >> {tmp_path}/labs\ncat > {folder}/unit.json <<'E'\n{json.dumps(unit)}\nE\n"
        f"cat > {folder}/lab.json <<'E'\n{json.dumps(lab)}\nE\nexit {status}\n"
    )
    program.chmod(0o755)
    return program


def test_a_unit_that_the_machine_was_too_late_for_is_made_again_and_fails(
    scenario: Path, tmp_path: Path
) -> None:
    run = plan_sessions(str(scenario), Options(units=1, http=("2",)), "e", CATALOGUE).runs
    program = _machine(tmp_path, UNIT, {"valid": False, "reasons": ["9 ms late"]})
    runner = BrowserRunner(tmp_path, "e", Path("none"), program)
    (outcome,) = runner.run(run)
    assert (outcome.data, len((tmp_path / "labs").read_text())) == (None, 3)
    assert "missed its deadlines: 9 ms late" in outcome.error
    runner = BrowserRunner(tmp_path, "e", Path("none"), program, keep_invalid=True)
    (outcome,) = runner.run(run)
    assert (outcome.data is not None, len((tmp_path / "labs").read_text())) == (True, 4)
    assert list(tmp_path.glob(".part-*")) == []


def test_a_full_disk_ends_the_campaign_with_one_message(scenario: Path, tmp_path: Path) -> None:
    run = plan_sessions(str(scenario), Options(units=3, http=("2",)), "e", CATALOGUE).runs
    full = _machine(tmp_path, {**UNIT, "error": f"load-1.har: {os.strerror(28)}"}, {}, 1)
    with pytest.raises(DiskError, match="the disk is full; 0 finished sessions are saved"):
        list(BrowserRunner(tmp_path, "e", Path("none"), full).run(run))
    assert len((tmp_path / "labs").read_text()) == 1


def test_a_disk_too_full_for_a_recording_is_reported(
    scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = plan_sessions(str(scenario), Options(units=3, http=("2",)), "e", CATALOGUE).runs
    mute = _machine(tmp_path, {}, {}, 101)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    with pytest.raises(DiskError, match="the disk is full"):
        list(BrowserRunner(tmp_path, "e", Path("none"), mute).run(run))
    assert len((tmp_path / "labs").read_text()) == 1


@pytest.fixture(scope="module")
def rt() -> Path:
    realtime.need("chromium")
    os.environ.setdefault("BENTPIPE_RT", str(realtime.program()))
    return realtime.program()


@pytest.fixture(scope="module")
def server(rt: Path) -> Iterator[list[str]]:
    """Start ``bentpipe serve`` on loopback, and return the options with which browse finds it."""
    command = [sys.executable, "-u", "-m", "bentpipe.cli", "serve", "target-b", "--listen", "127.0.0.1:44330"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        words = process.stdout.readline().split()
        yield ["--remote", "127.0.0.1:44330", "--spki", words[-1]]
        process.send_signal(signal.SIGTERM)


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Temporary files of commands: a name of its own, and short, as Chromium puts a socket there."""
    with tempfile.TemporaryDirectory(prefix="bp-") as name:
        Path(name).chmod(0o711)  # the browser is another user
        monkeypatch.setenv("TMPDIR", name)
        yield Path(name)


def _browsers() -> list[int]:
    """Processes with a profile of this test's."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if f"{os.environ['TMPDIR']}/bentpipe-browse-" in entry.read_text():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.lab
def test_pages_by_every_version_over_loopback(server: list[str], tmp_path: Path) -> None:
    """Was it really h3? Alt-Svc is learnt by the first load and used by the second; all of it ends up in a store."""
    words = ["browse", "target-b", *server, "--sessions", "1", "--pause", "0", "--http", "3,alt-svc"]
    wanted = {("HTTP/3", 1): "h3", ("HTTP/3", 2): "h3", ("Alt-Svc", 1): "h2", ("Alt-Svc", 2): "h3"}
    outs: list[Path] = []

    # A browser takes what is connected first: on a busy machine TCP may overtake QUIC.
    def judge(number: int) -> list[object]:
        outs.append(tmp_path / f"store{number}")
        done = _cli(*words, "--out", str(outs[-1]), "--loads", "2", "--annotate", "rain=none", "--json")
        assert done.returncode == 0, done.stderr
        message = json.loads(done.stdout)
        came = {(row["asked for"], row["load"]): row["negotiated protocol"] for row in message["loads"]}
        assert {**came, ("Alt-Svc", 2): "h3"} == wanted
        return [came != wanted and came]

    realtime.tried(judge)
    out = outs[-1]
    rows = Store(out).pages.to_dicts()
    assert len(rows) == 4
    for row in rows:
        assert (row["objects"], row["bytes"], row["completed"]) == (3, 11_000, 1)
        assert (
            row["connect_start_s"] < row["connect_end_s"] <= row["request_start_s"] < row["response_start_s"]
        )
        assert row["ttr_s"] < row["plt_s"] < 30
    units = [json.loads(file.read_text()) for file in out.glob("runs/*/unit.json")]
    assert all(unit["notes"] == {"rain": "none"} for unit in units)
    assert not any(
        one["transport"] == "tcp" for unit in units if unit["mode"] == "3" for one in unit["connections"]
    )
    assert {file.suffix for file in next(out.glob("runs/*/")).iterdir()} == {
        ".parquet",
        "",  # the checksums
        ".har",
        ".pcapng",
        ".json",
    }
    page = read_har(next(out.glob("runs/*/load-1.har"))).page
    assert sorted(one.size.bytes for one in page.object) == [1600, 3100, 6300]
    assert "Page load time" in write_report(out).read_text()
    again = _cli(*words, "--out", str(out), "--loads", "2", "--json")
    assert json.loads(again.stdout)["reused"] == 2
    assert _browsers() == []


@pytest.mark.lab
def test_a_server_that_is_not_there_and_a_key_that_is_not_its_own(server: list[str], tmp_path: Path) -> None:
    common = ["--sessions", "1", "--pause", "0", "--http", "2", "--timeout", "10s", "--out"]
    nobody = ["--remote", "127.0.0.1:44331", *server[2:]]
    done = _cli("browse", "target-b", *nobody, *common, str(tmp_path / "a"))
    assert (done.returncode, "connection refused" in done.stderr) == (1, True), done.stderr
    wrong = [*server[:3], "A" * 43 + "="]
    done = _cli("browse", "target-b", *wrong, *common, str(tmp_path / "b"))
    assert (done.returncode, "the certificate is not trusted" in done.stderr) == (1, True), done.stderr
    assert _browsers() == []


@pytest.mark.lab
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_whatever_ends_it(server: list[str], tmp_path: Path, how: signal.Signals) -> None:
    words = [
        "browse",
        "target-b",
        *server,
        "--sessions",
        "9",
        "--pause",
        "90 s",
        "--http",
        "3",
        "--out",
        str(tmp_path / "s"),
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "bentpipe.cli", *words], stderr=subprocess.PIPE, text=True
    ) as process:
        for _ in range(600):
            if _browsers():
                break
            time.sleep(0.05)
        else:
            pytest.fail("no browser was started")
        process.send_signal(how)
        process.wait(30)
        message = process.stderr.read() if process.stderr is not None else ""
    if how == signal.SIGINT:
        assert "rerun the command to resume" in message
    for _ in range(200):
        if not _browsers():
            break
        time.sleep(0.05)
    assert _browsers() == []
    assert not list(tmp_path.glob("s/runs/*")) or process.returncode


@pytest.mark.lab
def test_a_browser_that_hangs_is_killed_and_the_campaign_goes_on(
    server: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first browser of the campaign never answers; its unit fails, the next one is made."""
    open_to_all = Path(os.environ["TMPDIR"], "programs")
    open_to_all.mkdir()
    open_to_all.chmod(0o777)  # the browser is another user
    hanging = open_to_all / "chromium"
    hanging.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && exec chromium --version\n'
        f'mkdir {open_to_all}/once 2>/dev/null && exec sleep 987\nexec chromium "$@"\n'
    )
    hanging.chmod(0o755)
    monkeypatch.setenv("BENTPIPE_CHROMIUM", str(hanging))
    monkeypatch.setenv("BENTPIPE_BROWSER_START_S", "15")
    words = [
        "browse",
        "target-b",
        *server,
        "--sessions",
        "2",
        "--loads",
        "1",
        "--http",
        "2",
        "--out",
        str(tmp_path / "s"),
    ]
    done = _cli(*words, "--json")
    assert done.returncode == 1
    message = json.loads(done.stdout)
    assert message["done"] == 1
    assert "did not answer" in message["failed"][0]["error"]
    assert not any("sleep 987" in _line(entry) for entry in Path("/proc").glob("[0-9]*/cmdline"))


@pytest.mark.lab
@pytest.mark.parametrize("http", ["2", "3"])
def test_a_recorded_site_with_redirects_and_plain_http(tmp_path: Path, http: str) -> None:
    """A document and a picture behind redirects, and a script over http in a page over https: each as it was recorded. The
    load begins with the redirect: two round trips of 80 ms without TLS, then the handshake of the other host, and its answer."""
    realtime.need_namespaces("chromium", "nft")

    def entry(second: int, url: str, size: int, to: str = "") -> dict[str, Any]:
        response = {"status": 301 if to else 200, "bodySize": size, "redirectURL": to}
        return {
            "startedDateTime": f"2026-01-31T12:00:{second:02}Z",
            "request": {"url": url},
            "response": response,
        }

    entries = [
        entry(1, "http://a/", 0, "https://a/"),
        entry(2, "https://a/", 3000),
        entry(3, "http://b/x.js", 900),
        entry(4, "https://a/old.png", 20, "https://a/new.png"),
        entry(5, "https://a/new.png", 4000),
    ]
    (tmp_path / "a.har").write_text(json.dumps({"log": {"entries": entries}}))
    done = _cli(
        "browse", str(tmp_path / "a.har"), "--access", "lte-4g", "--sessions", "1", "--loads", "1", "--http", http,
        "--no-path-check", "--keep-invalid", "--out", str(tmp_path / "s"), "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    store = Store(tmp_path / "s")
    requests = store.rows("requests", ["object", "protocol", "bytes", "end_s"])
    secure = {"2": "h2", "3": "h3"}[http]
    assert {row["object"]: (row["protocol"], row["bytes"]) for row in requests.to_dicts()} == {
        "index": ("http/1.1", 0), "index-2": (secure, 3000), "x.js": ("http/1.1", 900),
        "old.png": (secure, 0), "new.png": (secure, 4000),
    }  # fmt: skip
    (page,) = store.rows(
        "pages", ["protocol", "connect_start_s", "request_start_s", "ttr_s", "plt_s", "completed"]
    ).to_dicts()
    assert (page["protocol"], page["completed"]) == (secure, 1)
    trips = {"2": 2 + 3, "3": 2 + 2}[http]
    assert page["plt_s"] > page["ttr_s"] >= trips * 0.08
    assert page["request_start_s"] - page["connect_start_s"] >= 0.08


@contextlib.contextmanager
def _in_front(each: Callable[[], object]) -> Iterator[str]:
    """Hands connections on to the server of this file, after ``each``; the address to ask at."""

    def pour(source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def carry(near: socket.socket) -> None:
        with near, socket.create_connection(("127.0.0.1", 44330)) as far:
            back = threading.Thread(target=pour, args=(far, near), daemon=True)
            back.start()
            pour(near, far)
            back.join()

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = listener.accept()
                each()
                threading.Thread(target=carry, args=(near,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


@pytest.mark.lab
def test_a_browser_that_is_killed_fails_its_unit_alone(
    server: list[str], tmp_path: Path, folder: Path
) -> None:
    """The first one, before its first connection is answered; the next unit is made, and nothing is left."""
    killed: list[int] = []

    def kill() -> None:
        if not killed:
            pipe = "--remote-debugging-pipe"
            killed.extend(one for one in _browsers() if pipe in _line(Path(f"/proc/{one}/cmdline")))
            for one in killed:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(one, signal.SIGKILL)

    with _in_front(kill) as address:
        words = ["--remote", address, *server[2:], "--sessions", "2", "--loads", "1", "--http", "2"]
        done = _cli("browse", "target-b", *words, "--out", str(tmp_path / "s"), "--json")
    message = json.loads(done.stdout)
    assert killed
    assert (done.returncode, message["done"]) == (1, 1), done.stderr
    assert "the browser exited" in message["failed"][0]["error"]
    assert _browsers() == []
    assert list(folder.iterdir()) == []


def _line(file: Path) -> str:
    try:
        return file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def test_without_chromium_there_is_one_message(
    scenario: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("BENTPIPE_CHROMIUM", raising=False)
    done = _cli("browse", str(scenario))
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "apt-get install chromium" in done.stderr


def test_the_quota_stops_the_campaign(scenario: Path, tmp_path: Path) -> None:
    """Bytes of finished units count; no unit is started beyond them."""
    runs = plan_sessions(str(scenario), Options(units=3), "e", CATALOGUE).runs
    folder = tmp_path / "runs" / "x"
    folder.mkdir(parents=True)
    (folder / "unit.json").write_text(json.dumps({"capture": {"bytes": 5_000_000}}))
    runner = BrowserRunner(tmp_path, "e", Path("none"), Path("none"), due=Schedule(quota_bytes=5_000_000))
    assert list(runner.run(runs)) == []
    assert "5.0 MB of 5.0 MB" in runner.stopped


# --- in a lab -------------------------------------------------------------------------------------------------------


@pytest.mark.lab
def test_behind_a_path_the_response_takes_its_round_trips(rt: Path, scenario: Path, tmp_path: Path) -> None:
    """HTTP/3: 2 round trips of 120 ms to the response (RFC 9001: 1 for the handshake); HTTP/2: 3 (RFC 8446: TCP's and
    TLS's). The path's counters and its check are kept."""
    realtime.need_namespaces()

    def judge(number: int) -> list[object]:
        out = tmp_path / f"store{number}"
        words = ["--sessions", "1", "--loads", "1", "--keep-invalid", "--out", str(out), "--json"]
        done = _cli("browse", str(scenario), *words)
        assert done.returncode == 0, done.stderr
        units = {
            one["mode"]: one
            for one in (json.loads(file.read_text()) for file in out.glob("runs/*/unit.json"))
        }
        for unit in units.values():
            assert unit["lab"]["check"]["rtt_ns"] >= 120e6
            assert unit["lab"]["statuses"] == {"browser": 0, "server": 0}
        store = Store(out)
        assert set(store.links["link"]) == {"satellite.up", "satellite.down"}
        assert set(store.link_summary["rate_bit_s"]) == {5e6, 25e6}
        assert min(store.link_summary["delivered_bytes"]) > 2000  # a ClientHello of 2014 B alone
        pages = {row["http"]: row for row in store.pages.to_dicts()}
        assert {mode: page["protocol"] for mode, page in pages.items()} == {"3": "h3", "2": "h2"}
        assert pages["3"]["ttr_s"] >= 0.240
        assert pages["2"]["ttr_s"] >= 0.360
        assert not store.proxies.height
        assert split_tcp.detect_split_tcp(list(units.values())).answer in ("uncertain", "not split") or _late(
            units.values()
        )
        return _later(
            {mode: (pages[mode]["ttr_s"], (trips + 1) * 0.120) for mode, trips in (("3", 2), ("2", 3))},
            units.values(),
        )

    realtime.tried(judge)


def _later(times: Mapping[str, tuple[float, float]], units: Iterable[dict[str, Any]]) -> list[object]:
    """Times that are not below their limits. A limit is one round trip more than they take; the rest belongs to the
    browser and the machine. A machine that was too late for it gives up."""
    above = {name: one for name, one in times.items() if one[0] >= one[1]}
    if above and _late(units):
        realtime.give_up(str(above))
    return list(above.items())


def _late(units: Iterable[dict[str, Any]]) -> bool:
    """The machine did not keep up: what was measured is the machine's, not the path's."""
    return not all(unit["lab"]["valid"] and unit["cpu"]["busy_mean"] < 0.9 for unit in units)


@pytest.mark.lab
def test_a_proxy_that_answers_for_the_server_is_found(rt: Path, tmp_path: Path) -> None:
    """TCP's other end is 2 ms away, the server 132 ms."""
    realtime.need_namespaces("nft")
    file = tmp_path / "split.toml"
    file.write_text(HEAD + realtime.split(SATELLITE) + FLOW)

    def judge(number: int) -> list[object]:
        out = tmp_path / f"store{number}"
        words = ["--sessions", "1", "--loads", "1", "--http", "2", "--no-path-check", "--keep-invalid"]
        done = _cli("browse", str(file), *words, "--out", str(out))
        assert done.returncode == 0, done.stderr
        units = [json.loads(one.read_text()) for one in out.glob("runs/*/unit.json")]
        # The store has the counters of each proxy: the terminal's sockets are 2 ms from the client, 120 ms from the
        # gateway.
        proxies = Store(out).proxies
        ends = {(row["proxy"], row["socket"]): row for row in proxies.to_dicts()}
        assert set(ends) == set(itertools.product(("terminal", "gateway"), ("client_side", "server_side")))
        assert all(row["flow"] == "browser" and row["connections"] >= 1 for row in ends.values())
        assert ends["terminal", "client_side"]["sent_packets"] > 0
        assert ends["terminal", "client_side"]["smoothed_rtt_ms"] >= 2
        assert ends["terminal", "server_side"]["smoothed_rtt_ms"] >= 120
        near = (
            ends["terminal", "client_side"]["smoothed_rtt_ms"]
            < ends["terminal", "server_side"]["smoothed_rtt_ms"]
        )
        wide = ends["gateway", "client_side"]["cwnd_bytes"] >= 10 * 1400
        assert ends["gateway", "client_side"]["sent_bytes"] > 10_000  # the page, with headers
        found = split_tcp.detect_split_tcp(units)
        if found.answer != "split" and _late(units):
            realtime.give_up(f"{found.answer} in place of split")
        assert found.answer == "split"
        return [(not near or not wide) and ends, "close to the client" not in found.text and found.text]

    realtime.tried(judge)


@pytest.mark.lab
@pytest.mark.nightly
def test_the_study_has_a_form_in_real_time(rt: Path, tmp_path: Path) -> None:
    """One target over 4G, one load, on both clocks: a row each, TTR of at least 2 and 3 round trips of 80 ms."""
    realtime.need_namespaces()
    short = {
        "flow.chrome.load.page": "target-b",
        "flow.chrome.load.loads": 1,
        "flow.chrome.load.pause": "0 s",
    }

    def judge(number: int) -> list[object]:
        folder = tmp_path / str(number)
        folder.mkdir()
        assert emulation.run(folder, only="4g", seeds=1, settings=short, keep_invalid=True).good
        data = json.loads((folder / "study.json").read_text())
        rows = data["tables"][0]["rows"]
        assert [(row["target"], row["TCP proxy"], row["load"]) for row in rows] == [
            ("B", "QUIC on", 1), ("B", "QUIC off", 1),
        ]  # fmt: skip
        for row in rows:
            assert float(row["TTR s, simulated"]) == pytest.approx(0.250, abs=0.03)
            assert (
                float(row["TTR s, browser"]) >= 0.225
            )  # 3 x (80 - 5) ms: the wait upwards is uniform over 10 ms
        units = [json.loads(one.read_text()) for one in folder.glob("4g-browser/runs/*/unit.json")]
        assert len(units) == 2
        return _later(
            {
                row["TTR s, browser"]: (float(row["TTR s, browser"]), float(row["TTR s, simulated"]) + 0.080)
                for row in rows
            },
            units,
        )

    realtime.tried(judge)


def test_a_study_without_a_form_in_real_time_says_so(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="thomas-2019"):
        bentpipe_studies.run("etosat", out=tmp_path, engine="emu")
    with pytest.raises(ScenarioError, match="satcom"):
        emulation.run(tmp_path, only="satcomm")
