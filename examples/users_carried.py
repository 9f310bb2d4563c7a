"""How many users a link carries: calls of MOS 3.5 and pages of 3 s, by scheduler, from a preset.

Half of the users are in a telephone call, half look at one page after the other. Prints medians over the users and
up to how many they are good enough, and writes ``users-carried.svg``. ``users_carried.py 3`` runs three seeds: means
with half of their 95 % interval; ``users_carried.py 1 codes m-lwdf`` is about these schedulers alone.
"""

import sys
from pathlib import Path

import altair
import polars as pl

import bentpipe
from bentpipe.figures.figure import Figure
from bentpipe.figures.style import BLUE, GREY, RED
from bentpipe.metrics.format import format_mean
from bentpipe.metrics.intervals import mean_ci

MOS, PAGE_S = 3.5, 3.0
COUNTS = [10, 20, 40, 60, 80, 120]
SCHEDULERS = sys.argv[2:] or ["drop-tail", "round-robin", "proportional-fair", "codes", "m-lwdf"]
DURATION_S, COUNTED_S = 24, 8
SEEDS = int(sys.argv[1]) if sys.argv[1:] else 1
DOWN = "path.mobile.down"

# 390 kB, a light page (the 10th percentile of 2019 has 397 KiB), of one host
INDEX = {"name": "index", "size": "30 kB"}
PICTURES = [{"name": f"picture-{n}", "size": "30 kB", "after": ["index"]} for n in range(12)]
SCENARIO = {
    "title": "How many users does my link carry?",
    "duration": f"{DURATION_S} s",
    "path": {"preset": "tauran-lms"},
    "flow": [
        {"name": "call", "count": 1, "transport": "udp", "load": {"call": "g711"}},
        {
            "name": "page",
            "count": 1,
            "congestion": "cubic",
            "start_jitter": "5 s",
            "load": {"page": "news", "http": "3", "loads": 100, "pause": ["3 s", "9 s"]},
        },
    ],
    "page": {"news": {"object": [INDEX, *PICTURES]}},
    "sweep": {
        f"{DOWN}.scheduler": SCHEDULERS,
        "share": [
            {"label": str(users), "flow.call.count": users // 2, "flow.page.count": users // 2}
            for users in COUNTS
        ],
    },
}

# of the preset's queue each user has its part; HARQ's receiver puts packets in order again
SETTINGS = {f"{DOWN}.queue": "953 packets/n", f"{DOWN}.reordering_buffer": 125}

# a load that is not done yet takes longer than any that is
LOADS = """
SELECT seed, "path.mobile.down.scheduler", share::INT, median(coalesce(plt_s, ?)) FROM pages
WHERE start_s < ? GROUP BY ALL ORDER BY ALL
"""


def calls(results):
    """Median over the calls, by scheduler and users, a value a seed: of each call that of its worse direction."""
    judged = results.rate_calls(playout="adaptive").rename({f"{DOWN}.scheduler": "scheduler"})
    worse = judged.group_by("seed", "scheduler", pl.col("share").cast(pl.Int64), "flow").agg(
        pl.col("mos").min()
    )
    median = worse.group_by("seed", "scheduler", "share").agg(pl.col("mos").median()).sort("seed")
    return by_cell(median)


def by_cell(rows):
    """Values by scheduler and users, of rows of a seed, a scheduler, a number of users and a value."""
    found = {}
    for _, name, users, value in rows.rows():
        found.setdefault((name, users), []).append(value)
    return found


def said(values):
    """A mean over seeds with half of its interval."""
    return f"{values[0]:6.2f}" if len(values) == 1 else f"{format_mean(mean_ci(values)):>12}"


def carried(values, enough):
    """Users up to which all is good enough, between two counts by a straight line; None: with the most too.

    ``values`` is the median by users, ``enough`` how far above the bound one is.
    """
    before = None
    for users, value in sorted(values.items()):
        if enough(value) < 0:
            if before is None:
                return 0
            low, high = enough(values[before]), enough(value)
            return int(before + (users - before) * low / (low - high))
        before = users
    return None


def picture(rows):
    """Bars of users by scheduler, calls above pages."""
    most = 1.15 * max(row["high"] for row in rows)  # with room for the numbers
    base = altair.Chart(pl.DataFrame(rows)).encode(
        x=altair.X(
            "users:Q", title="users, half in a call, half with pages", scale=altair.Scale(domain=[0, most])
        ),
        y=altair.Y("what:N", title=None, sort=None, axis=altair.Axis(labels=False, ticks=False)),
    )
    colour = altair.Color("what:N", title=None, sort=None, scale=altair.Scale(range=[BLUE, RED])).legend(
        orient="top"
    )
    whole = base.encode(x=altair.X("low:Q"), x2="high:Q")
    texts = base.mark_text(align="left", dx=4).encode(x="high:Q", text="text:N")
    header = altair.Header(labelAngle=0, labelAlign="left", labelPadding=24)
    chart = (
        (base.mark_bar().encode(color=colour) + whole.mark_rule(color=GREY) + texts)
        .properties(width=520, height=44)
        .facet(row=altair.Row("scheduler:N", sort=SCHEDULERS, title=None, header=header))
    )
    return Figure("users-carried", SCENARIO["title"], "", chart, len(rows))


def row(name, what, each):
    """What is drawn and printed of users carried, one a seed."""
    if None in each:
        text, found = f"{COUNTS[-1]} or more", mean_ci([COUNTS[-1]])
    else:
        found = mean_ci(each)
        text = format_mean(found)
    low, high = (found.low, found.high) if found.known else (found.estimate, found.estimate)
    return {
        "scheduler": name,
        "what": what,
        "users": found.estimate,
        "low": max(low, 0),
        "high": high,
        "text": text,
    }


if __name__ == "__main__":
    results = bentpipe.run(SCENARIO, settings=SETTINGS, seeds=SEEDS)
    mos, load = calls(results), by_cell(results.sql(LOADS, [DURATION_S, DURATION_S - COUNTED_S]))
    rows = []
    for name in SCHEDULERS:
        print(name)
        print("  calls, MOS  ", *(said(mos[name, users]) for users in COUNTS))
        print("  pages, s    ", *(said(load[name, users]) for users in COUNTS))
        for what, found, enough in (
            (f"calls of MOS {MOS}", mos, lambda one: one - MOS),
            (f"pages of {PAGE_S:.0f} s", load, lambda one: PAGE_S - one),
        ):
            each = [carried({n: found[name, n][seed] for n in COUNTS}, enough) for seed in range(SEEDS)]
            rows.append(row(name, what, each))
            print(f"  {what:18}{rows[-1]['text']} users")
    picture(rows).write(Path("users-carried.svg"))
