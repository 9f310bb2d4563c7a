"""Tables 4.1, 4.2 and 5.1, and numbers in the text, beside measured values; tolerances with their reasons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bentpipe.metrics.verdicts import Quantity, Tolerance
from bentpipe_studies.study import Row
from bentpipe_studies.tauran_2018.cells import ACKS, BUFFERS, FITTED_DB, SNR, SNRS, VARIANT, VARIANTS, case
from bentpipe_studies.tauran_2018.runs import Runs

__all__ = ["rows"]

SUCCESS = Tolerance("within 1 point", points=1.0)
"""The thesis's channel is not public: another sample of 600 s of the same model moves the share by as much."""

SHARES = Tolerance("within 5 points", points=5.0)
"""Targets of the design; they are met over the long run of the channel, not in each 600 s."""

BITS = Tolerance("within 5 %", scale=1.05)
"""Speed of the terminal and distance of the code to the bound move it by as much; the thesis states neither."""

LOSSLESS = Tolerance("within 5 %", scale=1.05)
"""Nothing is random; headers, padding and start-up decide."""

GOOD, POOR = Tolerance("within 35 %", scale=1.35), Tolerance("within a factor of 2", scale=2.0)
"""Goodput from 10 dB on, and below, where time-outs decide. Speeds of 30 to 120 km/h move it by as much."""

EVEN = "even intervals"
"""Interpretation of the link's own numbers: packets at even intervals, without congestion control."""

TABLES = {"table_4_1": ("table 4.1", False), "table_4_2": ("table 4.2", True)}
MEASURES = {
    "harq_success_percent": ("decoded, %", "success"),
    "goodput_kbps": ("goodput, kb/s", "goodput_kbps"),
    "rto_percent": ("RTO, %", "rto"),
    "dupack_percent": ("DUPACK, %", "dupack"),
    "spurious_percent": ("spurious, %", "spurious"),
}


def _tolerance(measure: str, snr: int) -> Tolerance | None:
    if measure == "success":
        return SUCCESS
    if measure == "goodput_kbps":
        return GOOD if snr >= 10 else POOR
    return None  # nothing was claimed: it is to be one more run


def _table(
    published: Mapping[str, Any], notes: Mapping[str, str], runs: Runs, name: str, buffer: str
) -> list[Row]:
    source, reordering = TABLES[name]
    found = []
    for key, (label, measure) in MEASURES.items():
        for index, snr in enumerate(SNRS):
            quantities = tuple(
                Quantity(
                    VARIANTS[variant], float(printed[index]),
                    runs.values(case(snr, VARIANTS[variant], reordering=reordering, buffer=buffer), measure),
                    tolerance=_tolerance(measure, snr),
                    fitted=measure in ("success", "goodput_kbps") and snr in FITTED_DB,
                    lower_bound=0.0, upper_bound=math.inf if measure == "goodput_kbps" else 100.0,
                )
                for variant, printed in published[name][key].items()
            )  # fmt: skip
            interpretation = buffer if reordering else "without"
            identifier = f"{source[6:]} {measure}"
            explanation = notes.get(identifier, "")
            found.append(
                Row(identifier, f"{label} at {snr} dB", source, interpretation, quantities, explanation)
            )
    return found


def _probed(published: Mapping[str, Any], notes: Mapping[str, str], probes: Runs) -> list[Row]:
    """Return shares and bits with every instant of the channel weighted alike: TCP sends more while it is good."""
    printed = published["table_4_1"]["harq_success_percent"]
    found = []
    for index, snr in enumerate(SNRS):
        values = probes.values({SNR: f"{snr} dB"}, "success")
        quantities = tuple(
            Quantity(VARIANTS[one], float(printed[one][index]), values, 100.0, SUCCESS, snr in FITTED_DB)
            for one in printed
        )  # fmt: skip
        explanation = notes.get("probe success", "")
        found.append(
            Row("probe success", f"decoded, % at {snr} dB", "table 4.1", EVEN, quantities, explanation)
        )
    return found


def _link(published: Mapping[str, Any], notes: Mapping[str, str], probes: Runs) -> list[Row]:
    """Return numbers in the text about the link alone."""
    setup = published["setup"]
    cell = {SNR: "13 dB"}
    bits = probes.values(cell, "bits")
    found = [
        Row("probe bits", "mean coded bits of a packet at 13 dB", "equation 6.6", EVEN,
            (Quantity("", float(setup["mean_coded_bits_per_packet"]), bits, tolerance=BITS, fitted=True),),
            notes.get("probe bits", "")),
        Row("probe time", "mean airtime of a packet at 13 dB, ms", "equation 6.7", EVEN,
            (Quantity("", float(setup["mean_packet_time_ms"]), tuple(one / 50e3 for one in bits),
                      tolerance=BITS, fitted=True),), notes.get("probe bits", "")),
    ]  # fmt: skip
    for number, percent in enumerate(setup["harq_decoded_after_percent"]):
        share = Quantity(
            "", float(percent), probes.values(cell, f"decoded_{number}"), tolerance=SHARES, fitted=True
        )
        label = f"decoded after {number} retransmissions at 13 dB, %"
        found.append(Row("shares", label, "section 3.3.3", EVEN, (share,), notes.get("shares", "")))
    return found


def _retransmissions(published: Mapping[str, Any], notes: Mapping[str, str], runs: Runs) -> list[Row]:
    found = []
    for index, snr in enumerate(SNRS):
        quantities = tuple(
            Quantity(
                VARIANTS[variant],
                float(printed[index]),
                runs.values(case(snr, VARIANTS[variant], reordering=False, delayed=True), "retransmissions"),
                lower_bound=0.0,
            )
            for variant, printed in published["table_5_1"]["retransmissions"].items()
        )
        label = f"retransmissions at {snr} dB, delayed ACKs"
        found.append(Row("5.1", label, "table 5.1", "without", quantities, notes.get("5.1", "")))
    return found


def _singles(published: Mapping[str, Any], notes: Mapping[str, str], runs: Runs) -> list[Row]:
    """Return numbers of TCP over the link at 13 dB with the buffer."""
    found = []
    printed = {
        "use": ("bits on the link at 13 dB, CUBIC, Mb/s", "p. 69", "use_mbps",
                published["further"]["link_use_13_db_reordering_mbps"], GOOD),
        "bits a packet": ("bits on the link for a TCP packet sent at 13 dB, CUBIC", "p. 69, table 4.2", "bits_a_packet",
                          published["reordering_claims"]["coded_bits_per_tcp_packet"], BITS),
    }  # fmt: skip
    for name, (label, source, measure, number, tolerance) in printed.items():
        for buffer in BUFFERS:
            values = runs.values(case(13, "CUBIC", reordering=True, buffer=buffer), measure)
            quantity = Quantity("", float(number), values, tolerance=tolerance)
            found.append(Row(name, label, source, buffer, (quantity,), notes.get(name, "")))
    return found


def _lossless(published: Mapping[str, Any], notes: Mapping[str, str], runs: Runs) -> Row:
    values = tuple(value / 1e3 for value in runs.values({VARIANT: "CUBIC", ACKS: "true"}, "goodput_kbps"))
    printed = float(published["setup"]["lossless_goodput_mbps"])
    quantity = Quantity("", printed, values, tolerance=LOSSLESS)
    return Row(
        "lossless",
        "goodput without loss, CUBIC, Mb/s",
        "section 4.3",
        "without",
        (quantity,),
        notes.get("lossless", ""),
    )


def rows(
    published: Mapping[str, Any], notes: Mapping[str, str], runs: Runs, probes: Runs, lossless: Runs
) -> tuple[Row, ...]:
    """Return all printed numbers."""
    return (
        *_probed(published, notes, probes),
        *_link(published, notes, probes),
        *_table(published, notes, runs, "table_4_1", BUFFERS[0]),
        *(row for buffer in BUFFERS for row in _table(published, notes, runs, "table_4_2", buffer)),
        *_retransmissions(published, notes, runs),
        *_singles(published, notes, runs),
        _lossless(published, notes, lossless),
    )
