"""Bundle nodes that prove who they are: what files and the command line say of it, and certificates that OpenSSL has made."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import realtime
from bentpipe.dtn.node import plan_of
from bentpipe.dtn.node_config import IdentityOptions
from bentpipe.lab.free_port import free_port
from bentpipe.scenario.errors import ScenarioError
from bundle_peers import a_node
from commands import bentpipe

PIN = "ab" * 32


def file(folder: Path, head: str, layer: str, keys: str = "") -> Path:
    path = folder / "node.toml"
    path.write_text(
        f'name = "1"\n{head}\n[[neighbour]]\nname = "2"\nlayer = "{layer}"\npeer = "127.0.0.1:1"\n{keys}\n'
    )
    return path


OWN = 'certificate = "a.pem"\nkey = "a.key"\n'


def test_tls_is_required_of_who_has_to_prove_who_it_is(tmp_path: Path) -> None:
    for layer, policy in (("tcpcl", "require"), ("quiccl", "no"), ("qubicle", "no")):
        [door] = plan_of(file(tmp_path, f'{OWN}authority = "ca.pem"', layer))["neighbours"]
        tls = door.get("tls", {})
        assert (door["cla"].get("tls", "no"), tls.get("pin")) == (policy, None)
        assert tls.get("authority") == str(tmp_path / "ca.pem")
        [door] = plan_of(file(tmp_path, f'{OWN}authority = "ca.pem"', layer, f'pin = "{PIN}"'))["neighbours"]
        tls = door.get("tls", {})
        assert (door["cla"].get("tls", "no"), tls.get("pin"), tls.get("authority")) == (policy, PIN, None)


def test_the_command_line_goes_before_the_file(tmp_path: Path) -> None:
    shown = IdentityOptions(tmp_path / "b.pem", tmp_path / "b.key", tmp_path / "other.pem", (f"2={PIN}",))
    [door] = plan_of(file(tmp_path, OWN, "quiccl"), shown=shown)["neighbours"]
    tls = door.get("tls", {})
    files = {"certificate": str(tmp_path / "b.pem"), "key": str(tmp_path / "b.key")}
    assert (tls.get("certificate"), tls.get("pin")) == (files, PIN)


@pytest.mark.parametrize(
    ("head", "layer", "keys", "expected"),
    [
        ('authority = "ca.pem"', "quiccl", "", "authority requires certificate and key"),
        (f'{OWN}authority = "ca.pem"', "tcpcl", 'tls = "allow"', 'found authority with tls = "allow"'),
        (f'{OWN}authority = "ca.pem"', "tcpcl", f'tls = "require"\nfingerprint = "{PIN}"', "expected pin"),
        ("", "tcpcl", f'tls = "no"\npin = "{PIN}"', 'found pin with tls = "no"'),
        ("", "tcpcl", f'tls = "require"\nfingerprint = "{PIN}"\npin = "{PIN}"', "found pin and fingerprint"),
        ("", "quiccl", 'pin = "ab"', "pin"),
    ],
)
def test_certificates_without_a_proof_are_refused(
    tmp_path: Path, head: str, layer: str, keys: str, expected: str
) -> None:
    with pytest.raises(ScenarioError, match=expected):
        plan_of(file(tmp_path, head, layer, keys))


def test_a_layer_in_clear_and_a_pin_of_nobody_are_refused(tmp_path: Path) -> None:
    ways = f'listen = "127.0.0.1:2"\nconnections = "each"\npin = "{PIN}"'
    with pytest.raises(ScenarioError, match=r'found pin with layer = "mtcp", which has no TLS'):
        plan_of(file(tmp_path, "", "mtcp", ways))
    with pytest.raises(ScenarioError, match='--pin: no neighbour "3"'):
        plan_of(file(tmp_path, "", "quiccl"), shown=IdentityOptions(pins=(f"3={PIN}",)))


def openssl(folder: Path, *words: str) -> str:
    done = subprocess.run(["openssl", *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout


def signed(folder: Path, name: str, names: str, purpose: str) -> None:
    """``NAME.pem`` and ``NAME.key`` by OpenSSL, signed by the authority of ``folder``."""
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    extensions = [f"subjectAltName={names}", *([f"extendedKeyUsage={purpose}"] if purpose else [])]
    added = [word for one in extensions for word in ("-addext", one)]
    openssl(
        folder, "req", "-x509", *curve, "-subj", "/CN=a node", "-days", "1", "-out", f"{name}.pem", "-keyout",
        f"{name}.key", "-CA", "authority.pem", "-CAkey", "authority.key", "-addext", "basicConstraints=CA:FALSE", *added,
    )  # fmt: skip


@pytest.mark.live
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_certificates_of_openssl_and_ours_know_each_other(tmp_path: Path) -> None:
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return bentpipe(tmp_path, "dtn", *words, environment=environment)

    made = run("keygen", "2", "--out", ".", "--json")
    assert made.returncode == 0, made.stderr
    openssl(tmp_path, "verify", "-x509_strict", "-CAfile", "authority.pem", "2.pem")
    shown = openssl(tmp_path, "x509", "-in", "2.pem", "-noout", "-text")
    assert "1.3.6.1.5.5.7.3.35" in shown or "Bundle Security" in shown, shown
    der = openssl(tmp_path, "asn1parse", "-in", "2.pem", "-strparse", _place(tmp_path, "2.pem"))
    assert "1.3.6.1.5.5.7.8.11" in der or "BundleEID" in der, der
    assert re.search("IA5STRING *:ipn:2.0", der), der
    again = run("keygen", "2", "--out", ".")
    assert (again.returncode, "2.pem: the file exists" in again.stderr) == (2, True)

    other = "otherName:1.3.6.1.5.5.7.8.11;"
    signed(tmp_path, "good", f"{other}IA5STRING:ipn:1.0", "1.3.6.1.5.5.7.3.35")
    signed(tmp_path, "plain", f"{other}IA5STRING:ipn:1.0", "")
    signed(tmp_path, "server", f"{other}IA5STRING:ipn:1.0", "serverAuth,clientAuth")
    signed(tmp_path, "utf8", f"{other}UTF8:ipn:1.0", "")
    signed(tmp_path, "dns", "DNS:one.example,URI:ipn:1.0", "")
    port = free_port()
    for name, other_name, way in (("1", "2", "peer"), ("2", "1", "listen")):
        (tmp_path / f"n{name}.toml").write_text(
            f'name = "{name}"\n[[neighbour]]\nname = "{other_name}"\nlayer = "quiccl"\n{way} = "127.0.0.1:{port}"\n'
        )
    keys = [str(tmp_path / one) for one in ("2.pem", "2.key", "authority.pem")]
    words = [
        word for pair in zip(("--certificate", "--key", "--authority"), keys, strict=True) for word in pair
    ]
    with a_node(tmp_path / "n2.toml", "--json", *words) as (_, out):
        assert json.loads(out.readline())["event"] == "started"
        for name, problem in (
            ("good", None),
            ("plain", None),
            ("server", "InvalidPurpose"),
            ("utf8", "no IA5String"),
            ("dns", "names no node, expected ipn:1.0"),
        ):
            own = ["--certificate", f"{name}.pem", "--key", f"{name}.key", "--authority", "authority.pem"]
            lifetime = "20" if problem is None else "5"
            asked = ["ipn:2.0", "-W", "2", "-D", "2k", "-P", "1k", "-l", lifetime]
            done = run("perf", "n1.toml", *asked, *own, "--json")
            assert done.returncode == (0 if problem is None else 1), (name, done.stdout, done.stderr)
            delivered = json.loads(done.stdout.splitlines()[-1])["delivered"]
            assert delivered == (2 if problem is None else 0), name
            if problem is not None:
                # A client that tries twice leaves two rows, the second of which the next case reads.
                rows = iter(lambda: json.loads(out.readline()), None)
                lost = (row["reason"] for row in rows if row["event"] == "connection_lost")
                assert any(problem in reason for reason in lost), name


def _place(folder: Path, name: str) -> str:
    """Return the offset of the value of subjectAltName in a certificate, as OpenSSL counts."""
    lines = openssl(folder, "asn1parse", "-in", name).splitlines()
    place = next(number for number, line in enumerate(lines) if "Subject Alternative Name" in line)
    return lines[place + 1].split(":")[0].strip()
