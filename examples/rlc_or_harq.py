"""5G over satellites: where RLC alone beats HARQ, over round trip and error rate, for QUIC and TCP.

The script prints the goodput of RLC alone over that of HARQ with 16 or 32 processes, and writes ``rlc-or-harq.svg``.
``rlc_or_harq.py "125 ms"`` runs only this one-way delay.
"""

import sys
from pathlib import Path

import bentpipe
from bentpipe.figures.ratio_map import RatioCell, ratio_map

SCENARIO = Path(__file__).parents[1] / "scenarios" / "rlc-or-harq.toml"
GOODPUT = """
SELECT "flow.download.transport", "path.ntn.delay_s" * 2, "path.ntn.down.nr.block_error_rate", repair,
  avg(received_in_order_bytes)
FROM flow_summary WHERE side = 'client' GROUP BY ALL ORDER BY ALL
"""
PERCENT = "format(100 * datum.value, '.3~g') + ' %'"


def ratios(results):
    """Return RLC's goodput over that of HARQ, by transport and processes, round trip in seconds and error rate."""
    bytes_of = {}
    for transport, rtt, rates, repair, received in results.connect().sql(GOODPUT).fetchall():
        error = float(rates.strip('[]" %')) / 100
        bytes_of[transport, repair, rtt, error] = received
    return {
        (f"{transport.upper()}, {repair} processes", rtt, error): bytes_of[transport, "RLC alone", rtt, error]
        / received
        for (transport, repair, rtt, error), received in bytes_of.items()
        if repair != "RLC alone"
    }


if __name__ == "__main__":
    delays = sys.argv[1:]
    found = ratios(bentpipe.run(SCENARIO, settings={"sweep.path.ntn.delay": delays} if delays else {}))
    cells = [RatioCell(error, rtt, ratio, panel) for (panel, rtt, error), ratio in found.items()]
    for panel in dict.fromkeys(cell.panel for cell in cells):
        print(f"{panel}: RLC alone over HARQ")
        for rtt in sorted({cell.y for cell in cells}):
            row = sorted((cell.x, cell.ratio) for cell in cells if (cell.panel, cell.y) == (panel, rtt))
            print(f"  {1e3 * rtt:6.1f} ms", *(f"{ratio:6.2f} at {error:7.3%}" for error, ratio in row))
    ratio_map(
        cells,
        "rlc-or-harq",
        "Goodput of RLC alone over that of HARQ and RLC, 5G with slots of 1 ms",
        "One flow with CUBIC at 4 Mbit/s, queue 50 ms, 30 s, means of three seeds.",
        above="RLC alone is faster",
        below="HARQ is faster",
        x_title="errors of a block",
        x_labels=PERCENT,
    ).write(Path("rlc-or-harq.svg"))
