"""``bentpipe serve`` with a certificate of its user's: a chain and a key from files."""

from __future__ import annotations

import datetime
import os
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

import realtime
from bentpipe.lab.free_port import free_port

x509 = pytest.importorskip("cryptography.x509")
hashes = pytest.importorskip("cryptography.hazmat.primitives.hashes")
serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
ec = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.ec")

HOST = "page.example"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A root, an authority below it, a server's certificate, and an unrelated key."""
    folder = tmp_path_factory.mktemp("certificates")
    keys = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("root", "middle", "leaf", "other")}
    began = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
    found = {}
    for name, issuer in (("root", "root"), ("middle", "root"), ("leaf", "middle")):
        names = {
            one: x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, one)]) for one in (name, issuer)
        }
        builder = x509.CertificateBuilder().subject_name(names[name]).issuer_name(names[issuer])
        builder = builder.public_key(keys[name].public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(began).not_valid_after(began + datetime.timedelta(days=2))
        constraints = x509.BasicConstraints(ca=name != "leaf", path_length=None)
        builder = builder.add_extension(constraints, critical=True)
        if name == "leaf":
            names_of = x509.SubjectAlternativeName([x509.DNSName(HOST)])
            builder = builder.add_extension(names_of, critical=False)
        found[name] = builder.sign(keys[issuer], hashes.SHA256())
    pem = serialization.Encoding.PEM
    (folder / "root.pem").write_bytes(found["root"].public_bytes(pem))
    (folder / "chain.pem").write_bytes(found["leaf"].public_bytes(pem) + found["middle"].public_bytes(pem))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    for name in ("leaf", "other"):
        (folder / f"{name}.key").write_bytes(keys[name].private_bytes(pem, *plain))
    (folder / "empty").write_bytes(b"")
    return folder


def _serve(place: Path, certificate: str, key: str, port: int = 44339) -> subprocess.Popen[str]:
    command = [
        sys.executable, "-u", "-m", "bentpipe.cli", "serve", "target-b", "--listen", f"127.0.0.1:{port}", "--name", HOST,
        "--certificate", str(place / certificate), "--key", str(place / key),
    ]  # fmt: skip
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, text=True
    )


def test_trust_in_the_authority_is_trust_in_the_server(place: Path) -> None:
    """Its whole chain is sent: a client has the root alone."""
    port = free_port()
    with _serve(place, "chain.pem", "leaf.key", port) as process:
        try:
            assert process.stdout is not None
            assert f"127.0.0.1:{port} by h3" in process.stdout.readline()
            context = ssl.create_default_context(cafile=place / "root.pem")
            context.set_alpn_protocols(["http/1.1"])
            with (
                socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
                context.wrap_socket(plain, server_hostname=HOST) as connection,
            ):
                connection.sendall(f"GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n".encode())
                assert connection.recv(100).startswith(b"HTTP/1.1 200")
            strangers = ssl.create_default_context()
            with (
                socket.create_connection(("127.0.0.1", port), timeout=10) as plain,
                pytest.raises(ssl.SSLCertVerificationError),
            ):
                strangers.wrap_socket(plain, server_hostname=HOST)
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=10)
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("certificate", "key", "named", "message"),
    [
        ("chain.pem", "other.key", "other.key", "is not the key of"),
        ("none.pem", "leaf.key", "none.pem", "No such file"),
        ("chain.pem", "none.key", "none.key", "No such file"),
        (".", "leaf.key", "certificates", "directory"),
        ("chain.pem", ".", "certificates", "directory"),
        ("empty", "leaf.key", "empty", "contains no PEM certificate"),
        ("leaf.key", "leaf.key", "leaf.key", "contains no PEM certificate"),
        ("chain.pem", "chain.pem", "chain.pem", "contains no PEM private key"),
    ],
)
def test_files_that_cannot_be_used(place: Path, certificate: str, key: str, named: str, message: str) -> None:
    with _serve(place, certificate, key) as process:
        out, error = process.communicate(timeout=20)
    assert (process.returncode, out, error.count("\n")) == (2, "", 1), error
    assert named in error
    assert message in error, error


def test_a_port_that_the_page_could_not_name(place: Path) -> None:
    with _serve(place, "chain.pem", "leaf.key", 0) as process:
        out, error = process.communicate(timeout=20)
    assert (process.returncode, out, error.count("\n")) == (2, "", 1), error
    assert "--listen: found port 0, expected 1 to 65535" in error
