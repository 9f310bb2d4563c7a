"""Options of TCP (``TcpSpec``), with all defaults.

Defaults are those of a current Linux; ``docs/reference/tcp.md`` gives the reason of each.
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
INITIAL_WINDOW_BYTES = 14_600  # RFC 6928 section 2
INITIAL_RTO_NS = 10**9  # RFC 6298 section 2
MIN_RTO_NS = 200_000_000  # Linux: TCP_RTO_MIN
MAX_RTO_NS = 120 * 10**9  # Linux: TCP_RTO_MAX
DUP_THRESH = 3  # RFC 5681 section 3.2
TIMESTAMPS_BYTES = 12  # RFC 7323 section 3.2, padded


def mss_bytes(tcp: TcpEnd) -> int:
    """Return the maximum segment size in bytes, TCP options included."""
    return tcp.mss.bytes if tcp.mss is not None else MSS[tcp.ip or 4]


def header_bytes(tcp: TcpEnd) -> int:
    """Return the bytes of IP and TCP headers without options."""
    return HEADERS[tcp.ip or 4]


def payload_bytes(tcp: TcpEnd) -> int:
    """Return the payload of a full segment in bytes."""
    return mss_bytes(tcp) - (TIMESTAMPS_BYTES if _flag(tcp.timestamps) else 0)


def _flag(value: bool | None, default: bool = True) -> bool:
    return default if value is None else value


def _ns(value: Duration | None, default: int) -> int:
    return value.ns if value is not None else default


def tcp_spec(tcp: TcpEnd, buffers: tuple[int, int], key: str) -> run_spec.TcpSpec:
    """Return the ``TcpSpec`` of one endpoint.

    Args:
        tcp: options of the endpoint, merged.
        buffers: default receive and send buffer, bytes.
        key: key of the table, for errors.

    Raises:
        ScenarioError: options that cannot be combined.
    """
    mss = mss_bytes(tcp)
    sack = _flag(tcp.sack)
    window = min(10 * mss, max(INITIAL_WINDOW_BYTES, 2 * mss))
    receive, send = (min(size, MOST_BUFFER) for size in buffers)
    min_rto, max_rto = _ns(tcp.min_rto, MIN_RTO_NS), _ns(tcp.max_rto, MAX_RTO_NS)
    if min_rto > max_rto:
        raise ScenarioError(
            [(f"{key}.min_rto", f"found {Duration(min_rto)}, expected at most max_rto = {Duration(max_rto)}")]
        )
    if tcp.dsack and not sack:
        raise ScenarioError(
            [(f"{key}.dsack", "found true without sack, expected sack = true (RFC 2883 extends it)")]
        )
    spec: run_spec.TcpSpec = {
        "mss_bytes": mss,
        "header_bytes": header_bytes(tcp),
        "initial_window_bytes": (
            tcp.initial_window.in_bytes(mss) if tcp.initial_window is not None else window
        ),
        "initial_rto_ns": _ns(tcp.initial_rto, INITIAL_RTO_NS),
        "min_rto_ns": min_rto,
        "max_rto_ns": max_rto,
        "loss_detection": _loss_detection(tcp, sack, key),
        "sack": sack,
        "dsack": _flag(tcp.dsack, sack),
        "adapt_reordering": _flag(tcp.adapt_reordering),
        "limited_transmit": _flag(tcp.limited_transmit),
        "prr": _flag(tcp.prr),
        "frto": _flag(tcp.frto),
        "timestamps": _flag(tcp.timestamps),
        "window_scaling": _flag(tcp.window_scaling),
        "delayed_ack": _delayed_ack(tcp.delayed_ack or DelayedAck()),
        "ack_counting": _ack_counting(tcp.abc if tcp.abc is not None else "unlimited"),
        "ecn": _flag(tcp.ecn, False),
        "fast_open": _flag(tcp.fast_open, False),
        "pacing": _flag(tcp.pacing, False),
        "restart_after_idle": _flag(tcp.restart_after_idle),
        "receive_buffer_bytes": tcp.receive_buffer.bytes if tcp.receive_buffer is not None else receive,
        "send_buffer_bytes": tcp.send_buffer.bytes if tcp.send_buffer is not None else send,
    }
    if tcp.rto_estimate == "rfc6298":  # other runs keep their ids
        spec["rto_estimate"] = "rfc6298"
    return spec


def _loss_detection(tcp: TcpEnd, sack: bool, key: str) -> run_spec.LossDetection:
    """Return RACK-TLP, or duplicate ACKs without SACK, as in Linux. Raises ScenarioError."""
    config = tcp.loss_detection
    if config is None:
        return {"kind": "rack_tlp"} if sack else {"kind": "duplicate_acks", "threshold": DUP_THRESH}
    if config.name == "dupacks":
        detection: run_spec.LossDetection = {
            "kind": "duplicate_acks",
            "threshold": config.threshold or DUP_THRESH,
        }
        return detection | {"forward": True} if config.forward else detection  # type: ignore[return-value]
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


def _delayed_ack(config: DelayedAck) -> run_spec.DelayedAck | None:
    if config.off:
        return None
    return {"timeout_ns": config.timeout.ns, "segments_per_ack": config.every, "quick_acks": config.quick}


def _ack_counting(config: Literal["unlimited", "off", 1, 2]) -> run_spec.AckCounting:
    if config == "unlimited":
        return {"kind": "unlimited"}
    return {"kind": "per_ack"} if config == "off" else {"kind": "bytes", "limit": config}
