"""A path over a constellation, its delay, and the goodput of TCP and QUIC: the picture of the README.

The script prints the handovers and the goodput after each, and writes ``constellation.svg``.
"""

from pathlib import Path

import altair as alt

import bentpipe
from bentpipe.figures import time_series
from bentpipe.figures.context import FigureContext
from bentpipe.figures.figure import Figure
from bentpipe.orbit.figures import figures
from bentpipe.orbit.query import parse_query, run_query

ORBIT = {"constellation": "tauran-66", "from": "Toulouse", "to": "Lima"}
SCENARIO = {
    "title": "NewReno over 66 satellites at 800 km, from Toulouse to Lima",
    "duration": "600 s",
    "orbit": ORBIT,
    "path": {
        "segment": [
            {"name": "space", "delay": {"orbit": "before-last-hop"}, "both": {"rate": "50 Mbit/s"}},
            {"name": "down", "delay": {"orbit": "last-hop"}, "both": {"rate": "20 Mbit/s"}},
        ],
        # packets in flight on the last link are lost at each handover
        "handover": [{"segment": "down", "at": "orbit", "in_flight": "drop"}],
    },
    "flow": [{"name": "bulk", "congestion": "newreno", "direction": "up"}],
    "sweep": {"flow.bulk.transport": ["tcp", "quic"]},
}
SECONDS = 10
AROUND = """
SELECT "flow.bulk.transport" AS transport,
  (max(received_in_order_bytes) - min(received_in_order_bytes)) * 8 / (1e6 * (max(time_s) - min(time_s)))
FROM flows WHERE side = 'server' AND time_s BETWEEN {begin} AND {end}
GROUP BY transport ORDER BY transport DESC
"""


def draw(question, found, results) -> Figure:
    """Draw the first route, its delay over time, and goodput."""
    route = {figure.key: figure for figure in figures(question, found)}["map"]
    context = FigureContext(results)
    parts = [route, time_series.propagation_delay(context), time_series.goodput(context)]
    chart = alt.vconcat(*(part.chart for part in parts)).resolve_scale(color="independent")
    title = "Toulouse to Lima over 66 satellites at 800 km: the way at first, delays, goodput"
    return Figure("constellation", title, "", chart, 0)


if __name__ == "__main__":
    question = parse_query({**ORBIT, "to": [ORBIT["to"]]}, SCENARIO["duration"])
    found = run_query(question, frames=2)
    results = bentpipe.run(SCENARIO)
    sql = results.connect()
    for one in found.handovers:
        at = one.at_ns / 1e9
        before, after = one.before_ns / 1e6, one.after_ns / 1e6
        print(f"at {at:.1f} s ({one.size}): {before:.2f} ms one way, then {after:.2f} ms")
        for transport, mbit_s in sql.sql(AROUND.format(begin=at, end=at + SECONDS)).fetchall():
            print(f"  {transport:5}{mbit_s:6.2f} Mbit/s in the {SECONDS} s after it")
    draw(question, found, results).write(Path("constellation.svg"))
