"""SQL over the measurements: the effect of an outage of two seconds on a flow, second by second."""

import bentpipe

SCENARIO = {
    "title": "A tunnel of two seconds on a LEO path",
    "duration": "12 s",
    "path": {
        "segment": [
            {
                "name": "satellite",
                "delay": "15 ms",
                "both": {
                    "rate": "20 Mbit/s",
                    "queue": "2 BDP",
                    "outages": [{"at": "5 s", "duration": "2 s"}],
                },
            }
        ]
    },
    "flow": [{"name": "bulk", "congestion": "cubic"}],
}

QUERY = """
SELECT CAST(ceil(time_s) - 1 AS INTEGER) AS second, max(received_bytes) AS received, max(sender.ptos) AS ptos
FROM flows JOIN (SELECT time_s, ptos FROM flows WHERE side = 'client') AS sender USING (time_s)
WHERE side = 'server' AND time_s > 0 GROUP BY second ORDER BY second
"""

if __name__ == "__main__":
    results = bentpipe.run(SCENARIO)
    before = 0
    for second, received, ptos in results.connect().sql(QUERY).fetchall():
        print(f"{second:3} s  {(received - before) * 8 / 1e6:6.2f} Mbit/s  {ptos or 0} probe timeouts so far")
        before = received
