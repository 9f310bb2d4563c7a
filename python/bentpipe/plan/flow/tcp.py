"""Options of TCP in the engine's words (``TcpSpec``), with every default filled in.

Defaults are those of a current Linux; ``docs/manual/tcp.md`` has each with its reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from bentpipe.scenario.errors import ScenarioError
from bentpipe.scenario.flow.tcp import MOST_BUFFER, DelayedAck
from bentpipe.scenario.quantities import Duration

if TYPE_CHECKING:
    from bentpipe.plan.spec import run_spec
    from bentpipe.scenario.flow.tcp import TcpEnd

__all__ = ["header_bytes", "mss_bytes", "payload_bytes", "tcp_spec"]

HEADERS = {4: 40, 6: 60}
MSS = {4: 1460, 6: 1440}  # Ethernet's 1500 bytes (RFC 9293 section 3.7.1)
LEAST_WINDOW_BYTES = 14_600  # RFC 6928 section 2
INITIAL_RTO_NS = 10**9  # RFC 6298 section 2
MIN_RTO_NS = 200_000_000  # Linux: TCP_RTO_MIN
MAX_RTO_NS = 120 * 10**9  # Linux: TCP_RTO_MAX
DUP_THRESH = 3  # RFC 5681 section 3.2
TIMESTAMPS_BYTES = 12  # RFC 7323 section 3.2, padded


def mss_bytes(tcp: TcpEnd) -> int:
    """Largest segment, TCP options included."""
    return tcp.mss.bytes if tcp.mss is not None else MSS[tcp.ip or 4]


def header_bytes(tcp: TcpEnd) -> int:
    """IP and TCP headers without options."""
    return HEADERS[tcp.ip or 4]


def payload_bytes(tcp: TcpEnd) -> int:
    """Payload of a full segment."""
    return mss_bytes(tcp) - (TIMESTAMPS_BYTES if _on(tcp.timestamps) else 0)


def _on(said: bool | None, default: bool = True) -> bool:
    return default if said is None else said


def _ns(said: Duration | None, default: int) -> int:
    return said.ns if said is not None else default


def tcp_spec(tcp: TcpEnd, buffers: tuple[int, int], key: str) -> run_spec.TcpSpec:
    """One end in the engine's words.

    Args:
        tcp: its options, merged.
        buffers: receive and send buffer where the options are silent, bytes.
        key: of the table, for errors.

    Raises:
        ScenarioError: options that do not go together.
    """
    mss = mss_bytes(tcp)
    sack = _on(tcp.sack)
    window = min(10 * mss, max(LEAST_WINDOW_BYTES, 2 * mss))
    receive, send = (min(size, MOST_BUFFER) for size in buffers)
    least, most = _ns(tcp.min_rto, MIN_RTO_NS), _ns(tcp.max_rto, MAX_RTO_NS)
    if least > most:
        raise ScenarioError(
            [(f"{key}.min_rto", f"found {Duration(least)}, expected at most max_rto = {Duration(most)}")]
        )
    if tcp.dsack and not sack:
        raise ScenarioError(
            [(f"{key}.dsack", "found true without sack, expected sack = true (RFC 2883 extends it)")]
        )
    found: run_spec.TcpSpec = {
        "mss_bytes": mss,
        "header_bytes": header_bytes(tcp),
        "initial_window_bytes": (
            tcp.initial_window.in_bytes(mss) if tcp.initial_window is not None else window
        ),
        "initial_rto_ns": _ns(tcp.initial_rto, INITIAL_RTO_NS),
        "min_rto_ns": least,
        "max_rto_ns": most,
        "loss_detection": _loss_detection(tcp, sack, key),
        "sack": sack,
        "dsack": _on(tcp.dsack, sack),
        "adapt_reordering": _on(tcp.adapt_reordering),
        "limited_transmit": _on(tcp.limited_transmit),
        "prr": _on(tcp.prr),
        "frto": _on(tcp.frto),
        "timestamps": _on(tcp.timestamps),
        "window_scaling": _on(tcp.window_scaling),
        "delayed_ack": _delayed_ack(tcp.delayed_ack or DelayedAck()),
        "ack_counting": _counting(tcp.abc if tcp.abc is not None else "unlimited"),
        "ecn": _on(tcp.ecn, False),
        "fast_open": _on(tcp.fast_open, False),
        "pacing": _on(tcp.pacing, False),
        "restart_after_idle": _on(tcp.restart_after_idle),
        "receive_buffer_bytes": tcp.receive_buffer.bytes if tcp.receive_buffer is not None else receive,
        "send_buffer_bytes": tcp.send_buffer.bytes if tcp.send_buffer is not None else send,
    }
    if tcp.rto_estimate == "rfc6298":  # what does not ask for it keeps its resolved run, and so its id
        found["rto_estimate"] = "rfc6298"
    return found


def _loss_detection(tcp: TcpEnd, sack: bool, key: str) -> run_spec.LossDetection:
    """RACK-TLP, or duplicates where there is no SACK, as in Linux."""
    said = tcp.loss_detection
    if said is None:
        return {"kind": "rack_tlp"} if sack else {"kind": "duplicate_acks", "threshold": DUP_THRESH}
    if said.name == "dupacks":
        counted: run_spec.LossDetection = {
            "kind": "duplicate_acks",
            "threshold": said.threshold or DUP_THRESH,
        }
        return counted | {"forward": True} if said.forward else counted  # type: ignore[return-value]
    if not sack:
        raise ScenarioError(
            [
                (
                    f"{key}.loss_detection",
                    'found "rack-tlp" without sack, expected "dupacks", or sack = true (RFC 8985 section 3)',
                )
            ]
        )
    return {"kind": "rack_tlp"}


def _delayed_ack(said: DelayedAck) -> run_spec.DelayedAck | None:
    if said.off:
        return None
    return {"timeout_ns": said.timeout.ns, "every": said.every, "quick": said.quick}


def _counting(said: Literal["unlimited", "off", 1, 2]) -> run_spec.AckCounting:
    if said == "unlimited":
        return {"kind": "unlimited"}
    return {"kind": "per_ack"} if said == "off" else {"kind": "bytes", "limit": said}
