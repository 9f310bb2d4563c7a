"""A path with each kind of stage, by what tests call it."""

from __future__ import annotations

from typing import Any

from traced_runs import DELAY, RATE_10, SLOTS, jitter, loss, outage, points, transmit

__all__ = ["CODEL", "SLOT_DELAY", "SLOT_LOSS", "STAGES", "TIMING"]

CODEL = {"limit": None, "target_ns": 5_000_000, "interval_ns": 100_000_000, "ecn": False}
FQ = {
    "limit_packets": 30,
    "flows": 8,
    "quantum_bytes": 1514,
    "target_ns": 5_000_000,
    "interval_ns": 100_000_000,
}
CHANGES = [
    {"at_ns": 1_000_000_000, "rate_bit_s": 3_000_000},
    {"at_ns": 2_000_000_000, "rate_bit_s": 12_000_000},
]
LOSSES = [{"at_ns": 1_000_000_000, "probability": 0.05}]
DELAYS = [{"at_ns": 1_000_000_000, "delay_ns": 5_000_000}, {"at_ns": 2_000_000_000, "delay_ns": 60_000_000}]

TIMING = {"interval_ns": 700_000_000, "phase_ns": 300_000_000, "jitter_ns": 0}
SLOT_DELAY = {
    "kind": "reconfiguration_delay", "reconfiguration": TIMING, "delay_ns": [10_000_000, 20_000_000, 60_000_000], "jitter_ns": [0, 4_000_000],
    "step_ns": 10_000_000, "correlation": 0.9,
}  # fmt: skip
SLOT_LOSS = loss(
    "reconfiguration",
    reconfiguration=TIMING,
    probability=[0.0, 0.004],
    burst_probability=0.5,
    burst_ns=[5_000_000, 40_000_000],
)

STAGES: dict[str, list[dict[str, Any]]] = {
    "rate that changes": [transmit(service={**RATE_10, "changes": CHANGES}), DELAY],
    "packets": [transmit({"kind": "drop_tail", "limit": {"packets": 20}}), DELAY],
    "drop-head": [transmit({"kind": "drop_head", "limit": {"packets": 20}}), DELAY],
    "drop-head by bytes": [transmit({"kind": "drop_head", "limit": {"bytes": 30_000}}), DELAY],
    "delay that changes": [transmit(), {**DELAY, "changes": DELAYS}],
    "codel": [transmit({"kind": "codel", **CODEL}), DELAY],
    "policer": [
        transmit({"kind": "policer", "limit": None, "rate_bit_s": 6_000_000, "burst_bytes": 20_000}),
        DELAY,
    ],
    "fq-codel": [transmit({"kind": "fq_codel", "ecn": True, **FQ}), DELAY],
    "opportunities": [transmit(service=SLOTS), DELAY],
    "netem": [{"kind": "netem", "rate_bit_s": 10_000_000, "delay_ns": 20_000_000, "limit_packets": 40}],
    "delay trace": [transmit(), points(reorder=False)],
    "delay trace that reorders": [transmit(), points(reorder=True, interpolation="step")],
    "jitter": [transmit(), jitter(False, "uniform", max_ns=3_000_000), DELAY],
    "jitter that reorders": [transmit(), jitter(True, "exponential", mean_ns=1_000_000), DELAY],
    "normal jitter": [transmit(), jitter(False, "normal", mean_ns=5_000_000, deviation_ns=3_000_000), DELAY],
    "slots": [
        transmit(
            service={
                "kind": "reconfiguration",
                "reconfiguration": TIMING,
                "rate_bit_s": [4_000_000, 20_000_000],
            }
        ),
        SLOT_LOSS,
        SLOT_DELAY,
    ],
    "slots whose boundaries jitter": [
        transmit(),
        {
            **SLOT_DELAY,
            "reconfiguration": {**TIMING, "jitter_ns": 200_000_000},
            "jitter_ns": [],
            "correlation": 0.0,
        },
    ],
    "reordering": [transmit(), {"kind": "reorder", "probability": 0.01, "delay_ns": 4_000_000}, DELAY],
    "loss that changes": [transmit(), {**loss("bernoulli", probability=0.01), "changes": LOSSES}, DELAY],
    "two states": [
        transmit(),
        loss("gilbert_elliott", good_to_bad=0.01, bad_to_good=0.3, loss_good=0.0, loss_bad=0.8),
        DELAY,
    ],
    "bursts": [
        transmit(),
        loss("burst", interval_ns=900_000_000, duration_ns=50_000_000, offset_ns=1),
        DELAY,
    ],
    "listed losses": [transmit(), loss("trace", packets=[3, 50, 51, 52, 300]), DELAY],
    "outage": [outage(buffer_packets=False), transmit(), DELAY],
    "outage that holds": [transmit(), outage(buffer_packets=True), DELAY],
}
