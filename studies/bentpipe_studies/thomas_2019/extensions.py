"""Tables beside the published results: models of the proxy, controllers, start-up, other pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from bentpipe.metrics.format import TextTable
from bentpipe.metrics.intervals import format_significant, median
from bentpipe_studies.page_loads import EXPECTED_S, chosen_loads, opinion, slow_start_s, times
from bentpipe_studies.parts import Measurements
from bentpipe_studies.thomas_2019.cells import (
    CONTROLLERS,
    EVERY,
    HTTP,
    MODELS,
    MORE,
    PAGE,
    SATCOM_RATE,
    SATCOM_RTT,
    SEGMENT,
    TCP,
    TCP_4G,
    WINDOWS,
    WITH,
    WITHOUT,
    end_to_end,
    g4,
    satcom,
)
from bentpipe_studies.thomas_2019.orderings import format_median
from bentpipe_studies.thomas_2019.phases import bulk_start_up, parts_of_load

__all__ = [
    "PROTOTYPE",
    "congested_table",
    "controllers_table",
    "dependent_table",
    "figure_2_11",
    "four_g_table",
    "gallery",
    "head_of_line_table",
    "model_ratios",
    "model_table",
    "rtt_table",
    "satcom_table",
    "start_up_table",
    "tcp_table",
]  # fmt: skip

PROTOTYPE: dict[str, tuple[float, float]] = {
    "no proxy, IW 10": (9.61, 2259),
    "early, IW 10": (9.58, 2258),
    "pooled, IW 10": (8.84, 1510),
    "pooled, IW 100": (6.38, 1513),
    "pooled, IW 1600": (4.08, 1513),
}
"""PLT in s and TTR in ms of a witness: Chromium and Linux TCP over an emulated path of 750 ms, five loads each."""

PROTOTYPE_QUIC = {"10 packets": 9.34, "100 packets": 6.87}
"""PLT in s of the witness's HTTP/3 with CUBIC, by initial window."""


def _row(
    head: dict[str, Any], measurements: Measurements, part: str, cell: dict[str, str], load: int
) -> dict[str, Any] | None:
    rows = chosen_loads(measurements, part, cell, load)
    if not rows.height:
        return None
    plt, ttr = (times(measurements, part, cell, load, column) for column in ("plt_s", "ttr_s"))
    return {
        **head, "load": load, "protocol": ", ".join(sorted(set(rows["protocol"].to_list()))),
        "PLT, s": format_median(plt), "TTR, s": format_median(ttr),
        "finished": f"{int(rows['completed'].sum())} of {rows.height}",
    }  # fmt: skip


def _table(title: str, rows: Sequence[dict[str, Any] | None]) -> TextTable:
    return TextTable(title, tuple(row for row in rows if row is not None))


def satcom_table(measurements: Measurements) -> TextTable:
    """Return times of both targets, both browsers and three loads."""
    rows = [
        _row({"target": page[-1].upper(), "QUIC": known}, measurements, "satcom", satcom(page, http), load)
        for page in ("target-a", "target-b")
        for http, known in ((WITH, "on"), (WITHOUT, "off"))
        for load in (1, 2, 3)
    ]
    return _table("SATCOM: medians over sessions with 95 % confidence intervals", rows)


def four_g_table(measurements: Measurements) -> TextTable:
    """Return times of target A over 4G by controller of TCP."""
    rows = [
        _row({"TCP": tcp, "QUIC": known}, measurements, "4g", g4(http, tcp), load)
        for tcp in TCP_4G
        for http, known in ((WITH, "on"), (WITHOUT, "off"))
        for load in (1, 2, 3)
    ]
    return _table("4G, target A: medians over sessions with 95 % confidence intervals", rows)


def _model_times(
    measurements: Measurements, cell: dict[str, str] | None, column: str = "plt_s"
) -> tuple[float, ...]:
    if cell is None:
        return times(measurements, "end-to-end", end_to_end("2", "cubic", "10 packets"), 1, column)
    return times(measurements, "proxies", cell, 1, column)


def model_ratios(measurements: Measurements) -> list[dict[str, Any]]:
    """Return the ratio of medians QUIC over TCP for each model of the proxy, and for two QUIC variants."""
    found = []
    for quic, controller, window in (
        ("BBRv1, IW 32", "bbr1", "32 packets"),
        ("CUBIC, IW 10", "cubic", "10 packets"),
    ):
        above = times(measurements, "end-to-end", end_to_end("3", controller, window), 1)
        for name, cell in MODELS:
            below = _model_times(measurements, cell)
            if above and below:
                found.append({"model": name, "quic": quic, "ratio": median(above) / median(below)})
    return found


def model_table(measurements: Measurements) -> TextTable:
    """Return PLT of target A over HTTP/2 by model of the proxy, and QUIC's ratio to it."""
    ratios = {(row["model"], row["quic"]): row["ratio"] for row in model_ratios(measurements)}
    quics = list(dict.fromkeys(quic for _, quic in ratios))
    rows = []
    for name, cell in MODELS:
        plt, ttr = _model_times(measurements, cell), _model_times(measurements, cell, "ttr_s")
        if not plt:
            continue
        witness = PROTOTYPE.get(name)
        rows.append(
            {
                "proxy": name, "PLT, s": format_median(plt), "TTR, s": format_median(ttr),
                "witness: PLT, s": witness[0] if witness else "–",
                "witness: TTR, s": witness[1] / 1e3 if witness else "–",
                **{f"QUIC {quic} through it": format_significant(ratios[name, quic], 3) for quic in quics},
            }
        )  # fmt: skip
    return TextTable("Target A over HTTP/2 by proxy model, and PLT of QUIC divided by it", tuple(rows))


def controllers_table(measurements: Measurements) -> TextTable:
    """Return PLT of target A end to end, by controller and initial window."""
    rows = []
    for http, label in (("3", "QUIC"), ("2", "TCP")):
        for name in (*CONTROLLERS, *MORE):
            row: dict[str, Any] = {"transport": label, "controller": name}
            for window in WINDOWS:
                row[f"PLT, s: {window}"] = format_median(
                    times(measurements, "end-to-end", end_to_end(http, name, window), 1), 3
                )
            if any(value != "–" for key, value in row.items() if key.startswith("PLT")):
                rows.append(row)
    if rows:
        witness = {f"PLT, s: {window}": PROTOTYPE_QUIC.get(window, "–") for window in WINDOWS}
        rows.append({"transport": "witness: QUIC", "controller": "cubic", **witness})
    return TextTable("Target A over SATCOM, end to end, by controller and initial window", tuple(rows))


def tcp_table(measurements: Measurements) -> TextTable:
    """Return times over split TCP by controller of the ends."""
    rows = [_row({"TCP": name}, measurements, "tcp", {TCP: name}, 1) for name in CONTROLLERS]
    return _table("Target A over split TCP, by controller of the two endpoints", rows)


def start_up_table(measurements: Measurements) -> TextTable:
    """Return start-up and the rest of a download, beside the model of one doubling each round trip."""
    rows = []
    cases: list[tuple[str, str, dict[str, str], int, int | None]] = [
        (f"QUIC {name}, IW 32", "end-to-end", end_to_end("3", name, "32 packets"), 1, 32)
        for name in CONTROLLERS
    ]
    cases += [("TCP cubic end to end, IW 32", "end-to-end", end_to_end("2", "cubic", "32 packets"), 1, 32)]
    cases += [("split TCP, line rate", "satcom", satcom("target-a", WITHOUT), 2, None)]
    cases += [("QUIC of the browser, load 2", "satcom", satcom("target-a", WITH), 2, 32)]
    for label, part, cell, load, window in cases:
        found = parts_of_load(measurements, part, cell, load)
        if not found:
            continue
        reached = [one for one in found if one.reached]
        model = [
            slow_start_s(SATCOM_RATE, SATCOM_RTT, window * SEGMENT, one_way) if window else 0.0
            for one_way in (True, False)
        ]
        rows.append(
            {
                "connection": label, "reached the rate": f"{len(reached)} of {len(found)}",
                "start-up, s": format_median([one.start_up_s for one in reached], 3),
                "steady state, s": format_median([one.download_s - one.start_up_s for one in reached], 3),
                "download, s": format_median([one.download_s for one in found], 3),
                "log2(BDP/IW) RTT, one-way BDP, s": format_significant(model[0], 3),
                "with the two-way BDP, s": format_significant(model[1], 3),
            }
        )  # fmt: skip
    return TextTable(
        "Start-up (responseStart to 90 % of the rate) and steady state, target A over SATCOM", tuple(rows)
    )


def figure_2_11(measurements: Measurements) -> list[dict[str, Any]]:
    """Return start-up time against RTT, with and without a proxy half way: measured, and by the model."""
    rows = []
    for part, label, split in (("startup", "end to end", 1), ("startup-split", "proxy at half the RTT", 2)):
        for rtt, found in sorted(bulk_start_up(measurements, part).items()):
            one, two = (slow_start_s(SATCOM_RATE, rtt / split, 32 * SEGMENT, way) for way in (True, False))
            rows.append(
                {"path": label, "rtt_ms": rtt * 1e3, "measured": found, "one-way": one, "two-way": two}
            )
    return rows


def rtt_table(measurements: Measurements) -> TextTable:
    """Return figure 2.11 as numbers."""
    found = figure_2_11(measurements)
    whole = {row["rtt_ms"]: row for row in found if row["path"] == "end to end"}
    split = {row["rtt_ms"]: row for row in found if row["path"] != "end to end"}
    rows = []
    for rtt in sorted(set(whole) & set(split)):
        one, two = whole[rtt], split[rtt]
        both = one["measured"] and two["measured"]
        rows.append(
            {
                "RTT, ms": rtt, "measured, s": format_significant(one["measured"], 3),
                "model, one-way BDP": format_significant(one["one-way"], 3),
                "two-way BDP": format_significant(one["two-way"], 3),
                "split, measured, s": format_significant(two["measured"], 3),
                "split, one-way": format_significant(two["one-way"], 3),
                "split, two-way": format_significant(two["two-way"], 3),
                "ratio measured": format_significant(one["measured"] / two["measured"], 3) if both else "–",
            }
        )  # fmt: skip
    return TextTable("Report, figure 2.11: slow start at 25 Mb/s by RTT, initial window 32", tuple(rows))


def congested_table(measurements: Measurements) -> TextTable:
    """Return PLT of target A beside background traffic."""
    share = {"128 ms": "1/4", "64 ms": "1/2", "42.7 ms": "3/4"}
    rows = []
    for every, label in share.items():
        quic, tcp = (times(measurements, "congested", {HTTP: http, EVERY: every}, 1) for http in ("3", "2"))
        if quic and tcp:
            rows.append(
                {
                    "mean background load": label, "QUIC, PLT, s": format_median(quic, 3),
                    "split TCP, PLT, s": format_median(tcp, 3),
                    "ratio of medians": format_significant(median(quic) / median(tcp), 3),
                    "finished": f"{len(quic)} and {len(tcp)}",
                }
            )  # fmt: skip
    return TextTable("Target A over SATCOM with background traffic", tuple(rows))


def dependent_table(measurements: Measurements) -> TextTable:
    """Return PLT of pages with dependencies, and their mean opinion score."""
    rows = []
    for part, split in (("dependent", "split"), ("dependent-unsplit", "end to end")):
        table = measurements.table(part, "pages")
        if not table.height:
            continue
        for page in table[PAGE].unique(maintain_order=True).to_list():
            for http in table[HTTP].unique(maintain_order=True).to_list():
                plt = times(measurements, part, {PAGE: page, HTTP: http}, 1)
                if plt:
                    rows.append(
                        {
                            "page": page, "HTTP": http, "TCP": "–" if http == "3" else split,
                            "PLT, s": format_median(plt, 3),
                            **{
                                f"MOS, {network}": format_significant(opinion(median(plt), most), 2)
                                for network, most in EXPECTED_S.items()
                            },
                        }
                    )  # fmt: skip
    return TextTable(
        "Pages with dependencies over SATCOM; MOS (G.1030) by the expected network",
        tuple(rows),
    )


LOSS = "path.satellite.down.loss"
BROWSER = "flow.browser.load.http"


def gallery(measurements: Measurements) -> list[dict[str, Any]]:
    """Return the arrival of each object of the gallery, with and without a loss, by protocol."""
    table = measurements.table("head-of-line", "requests")
    if not table.height:
        return []
    rows = []
    for (http, loss), group in table.group_by(BROWSER, LOSS, maintain_order=True):
        rows += [
            {"http": http, "lost": loss != "0 %", "object": row["object"], "end_s": row["end_s"]}
            for row in group.sort("object").iter_rows(named=True)
        ]
    return rows


def head_of_line_table(measurements: Measurements) -> TextTable:
    """Return the delay of each object by one lost packet."""
    ends = {(row["http"], row["lost"], row["object"]): row["end_s"] for row in gallery(measurements)}
    rows = []
    for name in dict.fromkeys(name for _, _, name in ends):
        row: dict[str, Any] = {"object": name}
        for http in ("2", "3"):
            calm, lost = ends.get((http, False, name)), ends.get((http, True, name))
            if calm is not None and lost is not None:
                row[f"HTTP/{http}: completed at, s"] = format_significant(calm, 4)
                row[f"HTTP/{http}: delay by the loss, ms"] = format_significant((lost - calm) * 1e3, 3)
        if len(row) > 1:
            rows.append(row)
    return TextTable("One lost packet: completion of each object, and its delay by the loss", tuple(rows))


def lost_packets(measurements: Measurements) -> list[int]:
    """Return the packets that the link lost in each run with a loss: one each, or the page is wrong."""
    table = measurements.table("head-of-line", "link_summary")
    if not table.height:
        return []
    rows = table.filter((pl.col("link") == "satellite.down") & (pl.col(LOSS) != "0 %"))
    return [int(value) for value in rows["dropped_loss_packets"].to_list()]
