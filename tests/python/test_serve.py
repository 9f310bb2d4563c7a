"""``bentpipe-rt serve``: real and foreign clients, exact sizes, hostile input."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import ssl
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import pytest

import realtime
from bentpipe.lab.free_port import free_port
from served_page import OBJECTS, PATHS, a_server, page_of, plan_of

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
PEER = Path(__file__).parent / "serve_peer.py"


@pytest.fixture(scope="module")
def program() -> Path:
    return realtime.program()


def _refused(program: Path, folder: Path, plan: dict[str, Any]) -> str:
    """The one line that a plan is refused with."""
    file = folder / "plan.json"
    file.write_text(json.dumps(plan))
    done = subprocess.run([program, "serve", file], capture_output=True, text=True, timeout=10, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def _tls(port: int, alpn: str = "http/1.1") -> ssl.SSLSocket:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([alpn])
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=10))


def _in_time(port: int, alpn: str = "http/1.1") -> ssl.SSLSocket:
    """A connection to a server that waits for no handshake longer than 0.3 s, in three tries."""
    for _ in range(2):
        with contextlib.suppress(OSError):
            return _tls(port, alpn)
    return _tls(port, alpn)


def _http1(port: int, request: bytes) -> tuple[bytes, bytes]:
    with _tls(port) as connection:
        connection.sendall(request)
        answer = b""
        while data := connection.recv(1 << 16):
            answer += data
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, body


def _get(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: origin.example\r\nConnection: close\r\n\r\n".encode()


def _peer(port: int, *words: str) -> Any:
    pytest.importorskip("aioquic")
    command = [sys.executable, str(PEER), str(port), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def test_http1_and_what_every_response_says(program: Path, tmp_path: Path) -> None:
    with a_server(program, tmp_path) as served:
        for path, (_, size, _, _) in zip(PATHS, OBJECTS, strict=True):
            head, body = _http1(served.port, _get(path))
            assert len(body) == size, path
            lines = head.decode().lower().split("\r\n")
            assert lines[0] == "http/1.1 200 ok"
            for field in (
                "cache-control: no-store",
                "timing-allow-origin: *",
                f"content-length: {size}",
                f'alt-svc: h3=":{served.port}"; ma=86400',
            ):
                assert field in lines
            if path == "/":
                assert len(head + b"\r\n\r\n") == 300 + len("connection: close\r\n")
        assert _http1(served.port, _get("/nothing"))[0].startswith(b"HTTP/1.1 404")
        assert _http1(served.port, _get("/", "POST"))[0].startswith(b"HTTP/1.1 405")
        head, body = _http1(served.port, _get("/", "HEAD"))
        assert b"content-length: 6000" in head.lower()
        assert body == b""
        # Bodies do not become shorter by compression.
        _, script = _http1(served.port, _get("/2.js"))
        assert len(zlib.compress(script, 9)) > 0.7 * len(script)


def test_http2_by_curl(program: Path, tmp_path: Path) -> None:
    if shutil.which("curl") is None:
        pytest.skip("no curl")
    with a_server(program, tmp_path) as served:
        urls = [f"https://127.0.0.1:{served.port}{path}" for path in PATHS]
        outputs = [word for _ in urls for word in ("-o", "/dev/null")]
        form = "%{http_version} %{response_code} %{size_download}\n"
        done = subprocess.run(
            ["curl", "-sk", "--http2", "-w", form, *outputs, *urls],
            capture_output=True,
            text=True,
            timeout=20,
            check=True,
        )
        assert done.stdout.splitlines() == [f"2 200 {size}" for _, size, _, _ in OBJECTS]


def test_a_foreign_http3_client(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("aioquic")
    with a_server(program, tmp_path) as served:
        answers = _peer(served.port, "get", *PATHS, "/nothing")
        assert [one["status"] for one in answers] == [200] * len(PATHS) + [404]
        assert [one["length"] for one in answers[:-1]] == [size for _, size, _, _ in OBJECTS]
        assert answers[0]["headers"]["cache-control"] == "no-store"
        assert "alt-svc" not in answers[0]["headers"]
        assert served.stop()["requests"] == {"h3": len(PATHS) + 1, "h2": 0, "http/1.1": 0}


@pytest.mark.parametrize("early", [False, True])
def test_sessions_are_resumed(program: Path, tmp_path: Path, early: bool) -> None:
    pytest.importorskip("aioquic")
    with a_server(program, tmp_path, tls={"early_data": early}) as served:
        first, second = _peer(served.port, "resume", "/3.png")
        assert (first["resumed"], second["resumed"]) == (False, True)
        assert second["early"] is early
        assert first["sha256"] == second["sha256"]


HOSTILE = {
    "garbage": 0x200,  # QPACK_DECOMPRESSION_FAILED
    "data first": 0x105,  # H3_FRAME_UNEXPECTED
    "settings on a request": 0x105,
    "endless header": 0x107,  # H3_EXCESSIVE_LOAD
    "second control stream": 0x103,  # H3_STREAM_CREATION_ERROR
    "encoder flood": 0x107,
    "rapid reset": 0x107,
    "many fields": ["431"],  # to this one request
}


def test_hostile_http3_ends_its_own_connection(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("aioquic")
    with a_server(program, tmp_path) as served:
        assert _peer(served.port, "hostile", *HOSTILE) == HOSTILE
        assert _peer(served.port, "get", "/3.png")[0]["length"] == 50_000


def test_clients_prove_their_address_when_many_knock(program: Path, tmp_path: Path) -> None:
    pytest.importorskip("aioquic")
    with a_server(program, tmp_path, limits={"handshakes": 0}) as served:
        # Every client gets a Retry then, and comes back.
        (answer,) = _peer(served.port, "get", "/3.png")
        assert (answer["length"], answer["retries"]) == (50_000, 1)


def test_hostile_tcp_is_survived(program: Path, tmp_path: Path) -> None:
    limits = {"connections": 3, "handshake_timeout_ns": 300_000_000, "idle_timeout_ns": 500_000_000}
    with a_server(program, tmp_path, limits=limits) as served:
        place = ("127.0.0.1", served.port)
        # The server disconnects clients that send nothing, send slowly, or send nonsense.
        silent = [socket.create_connection(place, timeout=5) for _ in range(3)]
        with socket.create_connection(place, timeout=5) as one_too_many:
            assert one_too_many.recv(1) == b""
        for one in silent:
            assert one.recv(1) == b""
            one.close()
        with socket.create_connection(place, timeout=5) as nonsense:
            nonsense.sendall(b"GET / HTTP/1.1\r\n\r\n" * 100)
            while nonsense.recv(1 << 12):
                pass
        with _in_time(served.port) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nX: ")
            while slow.recv(1 << 12):
                pass
        with _in_time(served.port, "h2") as idle:
            idle.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0")
            while idle.recv(1 << 12):
                pass
        # A header that does not end.
        with _in_time(served.port) as endless:
            try:
                for _ in range(1000):
                    endless.sendall(b"X-Y: " + b"z" * 1000 + b"\r\n")
                reply = endless.recv(1 << 12)
            except OSError:
                reply = b""
            assert not reply.startswith(b"HTTP/1.1 200")

        def judge(_: int) -> list[object]:
            with contextlib.suppress(OSError):
                return [len(_http1(served.port, _get("/3.png"))[1]) != 50_000]
            return ["put out"]

        realtime.tried(judge)


def test_a_picture_alone_is_the_document(program: Path, tmp_path: Path) -> None:
    page = page_of([("picture", 5_300_000, [], 0)])
    with a_server(program, tmp_path, content={"page": page}) as served:
        assert served.ready["objects"][0]["type"] == "image/png"
        head, body = _http1(served.port, _get("/"))
        assert b"image/png" in head
        assert len(body) == 5_300_000
        place = 8
        kinds = []
        while place < len(body):
            length = int.from_bytes(body[place : place + 4], "big")
            chunk = body[place + 4 : place + 8 + length]
            assert zlib.crc32(chunk) == int.from_bytes(body[place + 8 + length : place + 12 + length], "big")
            kinds.append(chunk[:4])
            place += length + 12
        assert kinds == [b"IHDR", b"biLl", b"IDAT", b"IEND"]


def test_a_folder_is_served(program: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "index.html").write_text("<p>hello")
    (root / "large.bin").write_bytes(bytes(3_000_000))
    (tmp_path / "secret").write_text("secret")
    with a_server(program, tmp_path, content={"root": str(root)}) as served:
        assert "objects" not in served.ready
        assert _http1(served.port, _get("/"))[1] == b"<p>hello"
        assert len(_http1(served.port, _get("/large.bin"))[1]) == 3_000_000
        for path in ("/../secret", "/%2e%2e/secret", "/.", "/nothing"):
            assert _http1(served.port, _get(path))[0].startswith(b"HTTP/1.1 404"), path


def test_both_families_at_one_port(program: Path, tmp_path: Path) -> None:
    with a_server(program, tmp_path, listen=["127.0.0.1:0", "[::1]:0"]) as served:
        for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            with socket.socket(family) as probe:
                probe.settimeout(5)
                probe.connect((address, served.port))
            with socket.socket(family, socket.SOCK_DGRAM) as probe, pytest.raises(OSError, match="in use"):
                probe.bind((address, served.port))


def test_ready_line_and_certificate(program: Path, tmp_path: Path) -> None:
    with a_server(program, tmp_path, certificate_bytes=2300, alt_svc=False) as served:
        with _tls(served.port) as connection:
            certificate = connection.getpeercert(binary_form=True)
        assert certificate is not None
        assert abs(len(certificate) - 2300) <= 4
        assert served.ready["protocols"] == ["h3", "h2", "http/1.1"]
        assert b"alt-svc" not in _http1(served.port, _get("/"))[0].lower()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"protocols": []}, "expected some of h3, h2, http/1.1"),
        ({"protocols": ["spdy"]}, "spdy"),
        ({"listen": ["nonsense"]}, 'found "nonsense", expected ADDRESS:PORT'),
        ({"listen": ["192.0.2.1:4433"]}, "not an address of this host"),
        ({"content": {"root": "/nowhere"}}, "/nowhere"),
        (
            {"content": {"page": page_of([("index", 60, [], 0), ("a", 50, [0], 0)])}},
            'document "index" has 60 bytes',
        ),
        ({"content": {"page": page_of(OBJECTS), "authorities": {"orgin": "x"}}}, 'found "orgin"'),
        ({"content": {}}, "expected a page or a root"),
        ({"content": {"rot": "x"}}, "`rot`, expected one of `page`, `authorities`, `root`"),
        ({"tcp": {"congestion": "vegass"}}, 'found "vegass"'),
        (
            {"tcp": {"congestion": "bbr"}},
            'found "bbr" (BBRv3), expected "bbr1", which the kernel has as BBR version 1 (tcp_bbr.c)',
        ),
        ({"tcp": {"mss_bytes": 1}}, "mss_bytes: found 1"),
        ({"congestion": {"name": "cubbic", "options": {}}}, "cubic"),
        ({"certificate_bytes": 100}, "expected at least"),
        ({"certificate": {"certificate": "/no.pem", "key": "/no.key"}}, "/no.pem"),
        ({"tls": {"resumption": False, "early_data": True}}, "without resumption"),
        ({"access_log": "/nowhere/log"}, "/nowhere/log"),
        ({"limits": {"streams": 0}}, "at least 1"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_a_wrong_plan_is_refused(program: Path, tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    assert words in _refused(program, tmp_path, plan_of(**changes))


def test_tcp_has_the_controller_and_the_segments_asked_for(program: Path, tmp_path: Path) -> None:
    asked = {"congestion": "newreno", "mss_bytes": 1000}
    with (
        a_server(program, tmp_path, tcp=asked) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as client,
    ):
        # the value announced by the server, without space for timestamps (RFC 7323 appendix A)
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) == 1000 - 12


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_in_use_is_reported(program: Path, tmp_path: Path, kind: int) -> None:
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind(("127.0.0.1", free_port()))
        if kind == socket.SOCK_STREAM:
            holder.listen()
        port = holder.getsockname()[1]
        message = _refused(program, tmp_path, plan_of(listen=[f"127.0.0.1:{port}"]))
        name = "TCP" if kind == socket.SOCK_STREAM else "UDP"
        assert f"--listen: {name} 127.0.0.1:{port} is in use, expected a free port" in message


def test_it_ends_with_its_parent(program: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(plan_of()))
    # A parent that waits; it is killed. Its line has a separate pipe: the server writes its output in pieces.
    script = (
        "import subprocess,sys; p = subprocess.Popen(sys.argv[1:]); "
        "print(p.pid, file=sys.stderr, flush=True); p.wait()"
    )
    command = [sys.executable, "-c", script, str(program), "serve", str(plan)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stderr is not None
        child = int(parent.stderr.readline())
        assert json.loads(parent.stdout.readline())["ready"]
        parent.kill()
        parent.wait()
        with contextlib.suppress(OSError):  # it is gone
            for _ in range(250):
                if "Z" in Path(f"/proc/{child}/stat").read_text().split()[2]:
                    break
                time.sleep(0.02)
            else:
                raise AssertionError("the server is still there")
