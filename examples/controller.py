"""A user-supplied congestion controller and the engine's controller with the same rules give the same run."""

import bentpipe


class Aimd:
    """Grow by one packet a round trip, and halve on congestion (docs/how-to/controllers.md)."""

    def __init__(self, config):
        self.mss, self.cwnd, self.ssthresh, self.credit = config.mss, config.initial_window, None, 0

    def on_event(self, now, event):
        if event.kind == "mss":
            self.mss = event.mss
        elif event.kind == "timeout" or event.persistent:
            self.cut(collapse=True)
        elif event.congestion:
            self.cut(collapse=False)
        elif event.kind == "ack":
            self.grow(event.credited)
        return self.cwnd

    def cut(self, *, collapse):
        self.ssthresh, self.credit = max(self.cwnd // 2, 2 * self.mss), 0
        self.cwnd = 2 * self.mss if collapse else self.ssthresh

    def grow(self, acked):
        if self.ssthresh is None or self.cwnd < self.ssthresh:
            self.cwnd += acked
            return
        self.credit += acked
        if self.credit >= self.cwnd:
            self.credit -= self.cwnd
            self.cwnd += self.mss


SCENARIO = {
    "title": "AIMD, twice",
    "duration": "20 s",
    "path": {
        "segment": [
            {
                "name": "satellite",
                "delay": "50 ms",
                "both": {"rate": "10 Mbit/s", "queue": "1 BDP"},
                "up": {"loss": "0.1 %"},
            }
        ]
    },
    "flow": [{"name": "bulk", "congestion": "mine"}],
}

if __name__ == "__main__":
    mine = bentpipe.run(SCENARIO, controllers={"mine": Aimd})
    theirs = bentpipe.run(SCENARIO, settings={"flow.bulk.congestion": "aimd"})

    for name, results in (("mine", mine), ("theirs", theirs)):
        sender = results.flow_summary.filter(side="client").row(0, named=True)
        print(
            f"{name:8}{sender['sent_packets']} packets, {sender['lost_packets']} lost, "
            f"{sender['congestion_events']} reductions, window at most {sender['cwnd_max_bytes']} B"
        )

    columns = ["time_s", "side", "cwnd_bytes", "sent_bytes", "lost_bytes"]
    same = mine.flows.select(columns).equals(theirs.flows.select(columns))
    print("the same at every sample" if same else "they differ")
