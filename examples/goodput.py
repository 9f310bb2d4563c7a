"""Goodput of three controllers over a lossy GEO link, with Polars: the mean of three seeds."""

import polars as pl

import bentpipe

SCENARIO = {
    "title": "Three controllers on a GEO link that loses 0.1 %",
    "duration": "30 s",
    "seeds": 3,
    "path": {
        "segment": [
            {
                "name": "satellite",
                "delay": "250 ms",
                "both": {"rate": "10 Mbit/s", "queue": "1 BDP"},
                "up": {"loss": "0.1 %"},
            }
        ]
    },
    "flow": [{"name": "bulk", "congestion": "cubic"}],
    "sweep": {"flow.bulk.congestion": ["newreno", "cubic", "bbr"]},
}

if __name__ == "__main__":
    results = bentpipe.run(SCENARIO)
    receiver = results.flow_summary.filter(side="server")
    goodput = receiver.group_by("flow.bulk.congestion", maintain_order=True).agg(
        (pl.col("received_in_order_bytes") * 8 / 30e6).mean().round(2).alias("goodput_Mbit_s")
    )
    for controller, mbit_s in goodput.iter_rows():
        print(f"{controller:10}{mbit_s:6.2f} Mbit/s")
