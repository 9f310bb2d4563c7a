"""Signed bundles: keys of scenarios and node files, HMACs by Python's library, a run, and two nodes on real sockets."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import tomllib
from pathlib import Path
from typing import Any

import cbor2
import polars as pl
import pytest

import realtime
from bentpipe.dtn.node import plan_of
from bentpipe.lab.free_port import free_port
from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.sweep import set_key
from bentpipe.store.reader import open_store
from bundle_peers import a_node
from commands import bentpipe

ROOT = Path(__file__).parents[2]
SIGNED = (ROOT / "crates/bundle/tests/suite/oracles/signed.txt").read_text().splitlines()
SCENARIO = (ROOT / "scenarios/dtn/integrity.toml").read_text()
SHA = {5: "sha256", 6: "sha384", 7: "sha512"}


def head(block: list[Any]) -> bytes:
    return b"".join(cbor2.dumps(field) for field in block[:3])


@pytest.mark.parametrize("line", SIGNED, ids=range(len(SIGNED)))
def test_pythons_hmac_of_a_bundle_is_the_one_in_it(line: str) -> None:
    name, digits = line.split()
    data = bytes.fromhex(digits)
    first, *others, payload = cbor2.loads(data)
    primary = cbor2.dumps(first)
    assert data.startswith(b"\x9f" + primary)
    [block] = [one for one in others if one[0] == 11]
    # RFC 9173 section 3.8.1: a target has no CRC.
    assert (payload[0], payload[3], len(payload)) == (1, 0, 5)
    asb = cbor2.loads(b"\x9f" + block[4] + b"\xff")
    targets, context, flags, _source, parameters, results = asb
    assert (targets, context, flags) == ([1], 1, 1)
    variant, scope = dict(parameters)[1], dict(parameters)[3]
    signed = cbor2.dumps(scope)
    signed += primary if scope & 1 else b""
    signed += head(payload) if scope & 2 else b""
    signed += head(block) if scope & 4 else b""
    signed += cbor2.dumps(payload[4])
    key = hashlib.sha256(f"bentpipe {name}".encode()).digest()
    assert results == [[[1, hmac.digest(key, signed, SHA[variant])]]]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('sign = "mars"', 'sgn = "mars"', 'integrity.sgn: no key "sgn"'),
        ('sign = "mars"', "sha = 256", "expected sign = "),
        ('sign = "mars"', 'sign = "mars", sha = 128', "sha: found 128, expected 256, 384 or 512"),
        ('sign = "mars"', 'sign = "mars", scope = ["primry"]', "scope"),
        ('sign = "mars"', 'sign = "mars", unsigned = "pass"', "unsigned: found without check"),
        ('check = { probe = "mars" }', 'check = { porbe = "mars" }', 'did you mean "probe"?'),
    ],
)
def test_impossible_settings_are_reported_by_key(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "a.toml").write_text(SCENARIO.replace(old, new))
    done = bentpipe(tmp_path, "check", "a.toml")
    assert done.returncode == 2
    assert "dtn.node" in done.stderr
    assert message in done.stderr


def test_a_key_of_a_node_is_set_and_swept_by_the_nodes_name(tmp_path: Path) -> None:
    """One node has a separate table, the other has none in the scenario."""
    (tmp_path / "a.toml").write_text(SCENARIO.partition("[sweep]")[0])
    words = ["--set", "dtn.node.orbiter.store=5 MB", "--sweep", "dtn.node.probe.integrity.sign=mars,old"]
    message = bentpipe(tmp_path, "check", "a.toml", *words)
    assert message.returncode == 0, message.stderr
    assert "2 cells" in message.stdout
    data = tomllib.loads(SCENARIO)
    set_key(data, "dtn.node.orbiter.store", "5 MB")
    set_key(data, "dtn.node.probe.integrity.sign", "old")
    assert data["dtn"]["node"] == [
        {"name": "probe", "integrity": {"sign": "old"}},
        {"name": "earth", "integrity": {"check": {"probe": "mars"}}},
        {"name": "orbiter", "store": "5 MB"},
    ]


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("dtn.node.nobody.store=5 MB", 'no bundle node "nobody", expected one of: earth, orbiter, probe'),
        ("dtn.node.probe.stroe=5 MB", 'dtn.node.probe.stroe: no key "stroe"'),
        ("dtn.node.probe=5", 'expected a key of "probe" after it, such as "dtn.node.probe.store"'),
    ],
)
def test_unknown_keys_of_a_node(tmp_path: Path, word: str, message: str) -> None:
    (tmp_path / "a.toml").write_text(SCENARIO.partition("[sweep]")[0])
    done = bentpipe(tmp_path, "check", "a.toml", "--set", word)
    assert done.returncode == 2
    assert message in done.stderr


def test_a_wrong_key_is_found_where_it_is_looked_for(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(SCENARIO.replace("-T 60", "-T 4").replace('"120 s"', '"20 s"'))
    done = bentpipe(tmp_path, "run", "a.toml", "--out", "out")
    assert done.returncode == 0, done.stderr
    store = open_store(tmp_path / "out")
    data = store.rows("bundles").filter(pl.col("kind") == "data")
    ends = data.filter(pl.col("event").is_in(["delivered", "deleted"]))
    found = ends.group_by("run", "node", "event", "reason").len().drop("run").rows()
    failed = "failed security operation"
    assert sorted(found, key=str) == [
        ("earth", "deleted", failed, 5), ("earth", "delivered", "", 5), ("orbiter", "deleted", failed, 5),
    ]  # fmt: skip
    # --del; and nothing goes down that the orbiter has deleted.
    assert store.rows("bundle_status_reports").group_by("reason").len().rows() == [(15, 10)]
    down = (
        store.rows("links")
        .filter(pl.col("link") == "down.up")
        .group_by("run")
        .agg(pl.col("sent_bytes").max())
    )
    assert sorted(sent > 0 for _, sent in down.rows()) == [False, True, True]
    assert bentpipe(tmp_path, "verify", "out").returncode == 0
    # No key but a name is anywhere.
    key = hashlib.sha256(b"bentpipe mars").hexdigest()
    assert not any(key.encode() in one.read_bytes() for one in (tmp_path / "out").rglob("*") if one.is_file())


def test_a_key_that_cannot_fit_gives_a_warning(tmp_path: Path) -> None:
    text = SCENARIO[: SCENARIO.index("[sweep]")]
    for sign, why in (
        ('{ sign = "mras" }', 'signs with "mras"'),
        ('{ check = { earth = "x" } }', "signs nothing"),
    ):
        (tmp_path / "a.toml").write_text(text.replace('{ sign = "mars" }', sign))
        done = bentpipe(tmp_path, "check", "a.toml")
        assert done.returncode == 0, done.stderr
        message = " ".join((done.stdout + done.stderr).split())
        assert f'dtn.node.earth.integrity.check: found probe = "mars", which {why}' in message


KEYS = 'mars = "' + "2b" * 48 + '"\nmoon = "' + "3c" * 48 + '"\n'


def files(folder: Path, sender: str, receiver: str, port: int = 1) -> tuple[Path, Path]:
    """Files of node 1, which sends, and of node 2, with what they say of integrity."""
    (folder / "keys.toml").write_text(KEYS)
    (folder / "keys.toml").chmod(0o600)
    for name, other, way, message in (("1", "2", "peer", sender), ("2", "1", "listen", receiver)):
        (folder / f"n{name}.toml").write_text(
            f'name = "{name}"\n{message}\n[[neighbour]]\nname = "{other}"\nlayer = "tcpcl"\n{way} = "127.0.0.1:{port}"\n'
        )
    return folder / "n1.toml", folder / "n2.toml"


def test_a_nodes_file_names_keys_and_the_plan_has_those_alone(tmp_path: Path) -> None:
    message = (
        'keys = "keys.toml"\nintegrity = { sign = "mars", sha = 512, scope = [], check = { 2 = "mars" } }'
    )
    plan = plan_of(files(tmp_path, message, "")[0])
    assert plan["keys"] == {"mars": "2b" * 48}
    words = {node["name"]: node.get("integrity") for node in plan["dtn"]["nodes"]}
    assert words["2"] is None
    assert words["1"] is not None
    assert words["1"]["sign"] == {
        "key": "mars", "sha": "512", "scope": {"primary": False, "target": False, "security": False},
    }  # fmt: skip
    assert "derive_keys_from_names" not in plan["dtn"]


@pytest.mark.parametrize(
    ("message", "keys", "expected"),
    [
        ('integrity = { sign = "mars" }', KEYS, "keys: is missing"),
        ('keys = "keys.toml"', KEYS, "keys requires integrity"),
        ('keys = "keys.toml"\nintegrity = { sign = "mras" }', KEYS, 'integrity.sign: no key "mras".*did you mean "mars"'),
        ('keys = "keys.toml"\nintegrity = { check = { 3 = "mars" } }', KEYS, 'integrity.check: no node "3"'),
        ('keys = "none.toml"\nintegrity = { sign = "mars" }', KEYS, "no such file"),
        ('keys = "keys.toml"\nintegrity = { sign = "mars" }', 'mars = "2b2b"', "mars: found 2 bytes, expected at least 16"),
        ('keys = "keys.toml"\nintegrity = { sign = "mars" }', 'mars = "secret"', "mars: expected a text of hexadecimal"),
    ],
)  # fmt: skip
def test_errors_of_keys_do_not_reveal_them(tmp_path: Path, message: str, keys: str, expected: str) -> None:
    one, _ = files(tmp_path, message, "")
    (tmp_path / "keys.toml").write_text(keys)
    (tmp_path / "keys.toml").chmod(0o600)
    with pytest.raises(ScenarioError, match=expected) as caught:
        plan_of(one)
    assert "2b2b" not in str(caught.value)
    assert "secret" not in str(caught.value)


def test_a_file_of_keys_is_its_owners_alone(tmp_path: Path) -> None:
    one, _ = files(tmp_path, 'keys = "keys.toml"\nintegrity = { sign = "mars" }', "")
    for mode in (0o644, 0o640, 0o602):
        (tmp_path / "keys.toml").chmod(mode)
        with pytest.raises(ScenarioError, match=f"mode {mode:o}.*chmod 600 "):
            plan_of(one)


@pytest.mark.live
def test_a_node_on_real_sockets_takes_what_is_signed_with_its_key(tmp_path: Path) -> None:
    environment = {**os.environ, "BENTPIPE_RT": str(realtime.program())}
    checks = 'keys = "keys.toml"\nintegrity = { check = { 1 = "mars" } }'
    port = free_port()
    _, two = files(tmp_path, "", checks, port)
    with a_node(two, "--json") as (_, out):
        assert json.loads(out.readline())["event"] == "started"
        for key, why in (
            ("mars", None),
            ("moon", "failed security operation"),
            (None, "missing security operation"),
        ):
            own = f'keys = "keys.toml"\nintegrity = {{ sign = "{key}" }}' if key else ""
            one, _ = files(tmp_path, own, checks, port)
            lifetime = "20" if why is None else "5"
            words = ("-D", "300k", "-P", "100k", "-W", "3", "-l", lifetime, "--json")
            done = bentpipe(tmp_path, "dtn", "perf", str(one), "2", *words, environment=environment)
            messages = json.loads(done.stdout)
            assert messages["acknowledged"] == (3 if why is None else 0), done.stderr
            assert (done.returncode == 0) == (why is None)
            ends = []
            while len(ends) < 3:
                row = json.loads(out.readline())
                if row["event"] in ("delivered", "deleted") and row["kind"] == "data":
                    ends.append(row)
            assert [one["reason"] for one in ends] == [why] * 3
            assert "2b2b" not in done.stdout + done.stderr
