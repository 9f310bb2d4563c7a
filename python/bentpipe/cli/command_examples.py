"""Examples at the end of each ``--help``."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["EXAMPLES", "format_examples"]

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "run": ("run scenarios/geo.toml", "run geo.toml --set 'duration=20 s' --seeds 10 --out out/short"),
    "check": ("check geo.toml", "check geo.toml --sweep flow.bulk.congestion=cubic,bbr3"),
    "examples": ("examples", "examples geo --out my-study"),
    "presets export": (
        "presets export geo-konnect --format netem > geo-konnect.sh",
        "presets export geo-konnect starlink --format mahimahi --out traces",
    ),
    "presets show": ("presets show nr-ntn-leo", "presets show starlink > my-starlink.toml"),
    "presets schema": ("presets schema", "presets schema > presets.schema.json"),
    "schema": ("schema", "schema > scenario.schema.json"),
    "show": ("show out/geo", "show out/geo --json"),
    "report": ("report out/geo", "report out/geo --figures figures --format pdf --width 88mm"),
    "query": (
        'query out/geo "SELECT * FROM flow_summary LIMIT 5"',
        'query out/geo "SELECT run, avg(smoothed_rtt_ms) FROM flows GROUP BY run" --json',
    ),
    "export": ("export out/geo --format csv --out tables", "export out/geo --format ods"),
    "diff": (
        "diff out/before out/after",
        "diff out/before out/after --metric goodput_bit_s --threshold '5 %'",
    ),
    "users": ("users out/terminals", "users out/terminals --json"),
    "calls": ("calls out/calls", "calls out/calls --codec g729 --playout '60 ms'"),
    "verify": ("verify out/traced", "verify out/traced --json"),
    "pack": ("pack out/geo", "pack out/large"),
    "break-even": (
        "break-even geo-konnect",
        "break-even --down 50Mbit/s --up 6Mbit/s --rtt 620ms --out out/mine",
    ),
    "capacity": (
        "capacity geo-konnect --mos 3.5 --page 8s",
        "capacity --down 50Mbit/s --up 6Mbit/s --rtt 620ms --mix call=0.3,page=0.7",
    ),
    "suite": ("suite --controller bbr3,cubic --quick", "suite --controller mine=cc.py:Mine --only geo-bulk"),
    "link-layer": ("link-layer", "link-layer tauran-lms --seeds 10 --out out/harq"),
    "new": (
        "new mine.toml --down 50Mbit/s --up 6Mbit/s --rtt 620ms --loss 0.1% --load 10MB",
        "new mine.toml --preset geo-konnect --load 30s",
    ),
    "orbit": (
        "orbit Toulouse Lima --constellation iridium --duration '100 min'",
        "orbit Paris 'New York' --constellation starlink-shell-1 --out out/paris",
    ),
    "fit": ("fit pings.txt --out out/dish", "fit pings.txt down.json --up up.json --name dish"),
    "import-har": ("import-har page.har", "import-har page.har --out page.toml"),
    "shell": ("shell geo-konnect", "shell starlink -- curl http://localhost:8000/"),
    "change": ("change down.loss='1 %'", "change satellite.delay='300 ms'"),
    "watch": ("watch", "watch --control /run/bentpipe/control.sock"),
    "time": (
        "time geo-konnect -- curl -s http://localhost:8000/",
        "time adsl geo-konnect --runs 20 -- ./client {server}",
    ),
    "perf server": ("perf server", "perf server --listen 127.0.0.1:4433 --once"),
    "perf client": (
        "perf client 192.168.1.7 --time 10s",
        "perf client 192.168.1.7 --bytes 100MB --direction down --transport tcp",
    ),
    "perf call-server": ("perf call-server", "perf call-server --listen 127.0.0.1:4433 --once"),
    "perf call-client": (
        "perf call-client 192.168.1.7 --codec g729 --time 60s",
        "perf call-client 192.168.1.7 --live 2Mbit/s --direction down",
    ),
    "browse": (
        "browse scenarios/page-geo.toml --sessions 10",
        "browse https://example.org/ --access geo-konnect",
    ),
    "serve": ("serve target-a", "serve page.har --listen 127.0.0.1:4433"),
    "compare-engines": ("compare-engines scenario.toml --seeds 3", "compare-engines scenario.toml --no-run"),
    "compare-builds": (
        "compare-builds geo.toml --before mine=cc.py:Mine --after mine=cc.py:Changed",
        "compare-builds geo-konnect --before old/client --after new/client -- {} http://localhost:8000/",
    ),
    "check-controller": ("check-controller cubic", "check-controller cc.py"),
    "check-scheduler": (
        "check-scheduler deficit-round-robin",
        "check-scheduler scheduler.py --option quantum=3000",
    ),
    "dtn plan": ("dtn plan relay.ionrc", "dtn plan relay.ionrc --out out/relay"),
    "dtn route": ("dtn route relay.ionrc 1 6", "dtn route relay.ionrc 1 6 --at '99.99 s' --size '10 MB'"),
    "dtn bound": ("dtn bound relay.ionrc 1 6", "dtn bound relay.ionrc 1 6 --size '10 MB' --count 5"),
    "dtn gap": ("dtn gap out/mars", "dtn gap out/mars --plan right.toml"),
    "dtn passes": (
        "dtn passes Toulouse Lima --constellation iridium --out iridium.toml",
        "dtn passes Toulouse --constellation iridium --duration '2 h' --out passes.json",
    ),
    "dtn node": ("dtn node one.toml", "dtn node one.toml --store bundles --monitor monitor.csv"),
    "dtn keygen": ("dtn keygen 1 --out keys", "dtn keygen 2 --out keys --days 90"),
    "dtn perf": ("dtn perf one.toml ipn:2.0 -W 4 -D 10M -P 1M", "dtn perf one.toml ipn:2.0 -T 30"),
    "dtn show": ("dtn show out/mars", "dtn show out/mars --json"),
    "dtn schema": ("dtn schema", "dtn schema > node.schema.json"),
    "doctor": ("doctor", "doctor --json"),
    "help": ("help", "help dtn route"),
}
"""Examples of each command, without the name of the program. A test parses each."""


def format_examples(command: str) -> str:
    """Return the examples of a command as the epilogue of its help; empty if it has none."""
    lines = EXAMPLES.get(command, ())
    # The first line keeps the lines from being wrapped.
    return "\n".join(["\b", "Examples:", *(f"  bentpipe {line}" for line in lines)]) if lines else ""
