"""A user-supplied scheduler, compared with three of the engine's: best channel, with a limit of the wait."""

import bentpipe


class Patient:
    """Select the user with the highest rate relative to its average, but first a user that waited for 300 ms."""

    def __init__(self, config):
        self.average = {}

    def choose(self, now, waiting):
        for one in waiting:
            before = self.average.setdefault(one.user, one.rate)
            self.average[one.user] += (one.rate - before) / 1000
        first = max(waiting, key=lambda one: one.waited_ns)
        if first.waited_ns > 300_000_000:
            return first.user
        return max(waiting, key=lambda one: one.rate / max(self.average[one.user], 1e-9)).user


SCENARIO = {
    "title": "A user-supplied scheduler",
    "duration": "20 s",
    "path": {
        "segment": [
            {
                "name": "satellite",
                "delay": "20 ms",
                "up": {"rate": "10 Mbit/s"},
                "down": {
                    "rate": "20 Mbit/s",
                    "queue": "60 packets",
                    "channel": {"model": "rayleigh", "snr": "8 dB", "speed": "3 km/h", "frequency": "2 GHz"},
                    "link_layer": {"scheme": "harq-2", "frame": "1115 B", "code_rate": "3/4"},
                    "scheduler": "mine",
                },
            }
        ]
    },
    "flow": [
        {"name": "web", "count": 8, "congestion": "cubic", "direction": "down", "load": {"time": "20 s"}}
    ],
}

if __name__ == "__main__":
    for name in ("round-robin", "maximum-rate", "proportional-fair", "mine"):
        settings = {"path.satellite.down.scheduler": name}
        results = bentpipe.run(SCENARIO, settings=settings, schedulers={"mine": Patient})
        users = results.sql(
            "SELECT sum(sent_packets) AS packets, max(queueing_max_s) AS max_s, "
            "min(sent_packets) / max(sent_packets) AS share FROM user_queues WHERE link = 'satellite.down'"
        ).row(0, named=True)
        print(
            f"{name:18}{users['packets']} packets, min over max of a user {users['share']:.2f}, "
            f"max queueing delay {users['max_s']:.1f} s"
        )
