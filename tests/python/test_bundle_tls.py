"""TCPCLv4 in TLS (RFC 9174 section 4.4) in virtual time: what the handshake and the records cost."""

from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from bentpipe.plan.document import load_scenario
from bentpipe.plan.plan import build_plan
from bentpipe.scenario.errors import ScenarioError
from traced_runs import made, spec_of

RATE, DELAY_S = 100e6, 0.05
"""Rate of the link in bit/s, and its one-way delay."""
RECORD, ADDED = 1 << 14, 22
"""Most content of a record and what TLS 1.3 adds to each, bytes (RFC 8446 sections 5.1 and 5.2, AES-GCM)."""
HANDSHAKE = (198, 127 + 6 + 509, 6 + 58)
"""Bytes of the flights as rustls has them; a close_notify is 24."""


def hop(tls: str, words: str, layer: str = "tcpcl") -> dict[str, Any]:
    congestion = {"name": "cubic", "avoidance": "linux"}
    load = {"bundles": {"layer": layer, "tls": tls, "dtnperf": words}}
    return {
        "duration": "20 s",
        "path": {
            "segment": [
                {
                    "name": "link",
                    "delay": f"{DELAY_S} s",
                    "both": {"rate": "100 Mbit/s", "queue": "2000 packets"},
                }
            ]
        },
        "flow": [{"name": "hop", "transport": "tcp", "congestion": congestion, "load": load}],
    }


def delivered(tables: dict[str, pl.DataFrame]) -> pl.Series:
    return tables["bundles"].filter(event="delivered", kind="data")["time_s"].sort()


def sent(tables: dict[str, pl.DataFrame]) -> int:
    """Bytes that the client gave to TCP."""
    total: int = tables["flow_summary"].filter(side="client")["sent_bytes"].sum()
    return total


def test_a_handshake_is_one_round_trip_more() -> None:
    plain, secured = (delivered(made(spec_of(hop(tls, "-W 1 -P 500 -D 500")))) for tls in ("no", "require"))
    assert (plain.len(), secured.len()) == (1, 1)
    on_the_air = 8 * (sum(HANDSHAKE[:2]) + 4 * 60) / RATE
    assert secured[0] - plain[0] == pytest.approx(2 * DELAY_S + on_the_air, abs=1e-4)


def test_each_piece_is_a_record_longer() -> None:
    bundles, size = 10, 1_000_000
    plain, secured = (
        made(spec_of(hop(tls, f"-W {bundles} -P {size} -D {bundles * size}"))) for tls in ("no", "require")
    )
    assert (delivered(plain).len(), delivered(secured).len()) == (bundles, bundles)
    least = bundles * size / RECORD * ADDED
    # heads of segments go in records of their own, and parts end where bundles' blocks do
    assert least <= sent(secured) - sent(plain) <= 3 * least
    assert delivered(secured)[-1] > delivered(plain)[-1] + 2 * DELAY_S


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, other = (made(spec_of(hop("require", "-W 4 -P 100k -D 1M"))) for _ in range(2))
    assert all(one[name].equals(other[name]) for name in ("bundles", "flow_summary", "flows"))


@pytest.mark.parametrize("layer", ["quiccl", "qubicle", "ltp"])
def test_other_layers_do_not_begin_it(layer: str) -> None:
    scenario = hop("require", "-W 1 -P 500 -D 500", layer)
    with pytest.raises(ScenarioError, match=f'found tls beside "{layer}", expected it with tcpcl'):
        build_plan(load_scenario(scenario), "test")
