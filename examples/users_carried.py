"""Number of users that a link carries: calls of MOS 3.5 and pages of 3 s, by scheduler, from a preset.

Half of the users have a telephone call, half load one page after the other. The script prints medians over the users
and the number of users up to which they are sufficient, and writes ``users-carried.svg``. ``users_carried.py 3`` runs
three seeds: means with half of their 95 % interval. ``users_carried.py 1 codes m-lwdf`` runs only these schedulers.
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

# the users divide the preset's queue; HARQ's receiver restores the order of packets
SETTINGS = {f"{DOWN}.queue": "953 packets/n", f"{DOWN}.reordering_buffer": 125}

# an unfinished load takes longer than every finished one
LOADS = """
SELECT seed, "path.mobile.down.scheduler", share::INT, median(coalesce(plt_s, ?)) FROM pages
WHERE start_s < ? GROUP BY ALL ORDER BY ALL
"""


def calls(results):
    """Return the median MOS of calls in their worse direction, by scheduler and users, a value a seed."""
    ratings = results.rate_calls(playout="adaptive").rename({f"{DOWN}.scheduler": "scheduler"})
    worse = ratings.group_by("seed", "scheduler", pl.col("share").cast(pl.Int64), "flow").agg(
        pl.col("mos").min()
    )
    median = worse.group_by("seed", "scheduler", "share").agg(pl.col("mos").median()).sort("seed")
    return by_cell(median)


def by_cell(rows):
    """Return values by scheduler and users, from rows of seed, scheduler, number of users and value."""
    found = {}
    for _, name, users, value in rows.rows():
        found.setdefault((name, users), []).append(value)
    return found


def format_values(values):
    """Format a mean over seeds with half of its interval."""
    return f"{values[0]:6.2f}" if len(values) == 1 else f"{format_mean(mean_ci(values)):>12}"


def carried(values, margin):
    """Return the number of users up to which a median is sufficient; None: also with the maximum.

    ``values`` is the median by users, ``margin`` computes its distance from the bound. Between two counts the
    number is interpolated linearly.
    """
    before = None
    for users, value in sorted(values.items()):
        if margin(value) < 0:
            if before is None:
                return 0
            low, high = margin(values[before]), margin(value)
            return int(before + (users - before) * low / (low - high))
        before = users
    return None


def picture(rows):
    """Draw bars of users by scheduler, calls above pages."""
    limit = 1.15 * max(row["high"] for row in rows)  # with space for the numbers
    base = altair.Chart(pl.DataFrame(rows)).encode(
        x=altair.X(
            "users:Q", title="users, half in a call, half with pages", scale=altair.Scale(domain=[0, limit])
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
    """Return a row of the figure, from the number of users of each seed."""
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
        print("  calls, MOS  ", *(format_values(mos[name, users]) for users in COUNTS))
        print("  pages, s    ", *(format_values(load[name, users]) for users in COUNTS))
        for what, found, margin in (
            (f"calls of MOS {MOS}", mos, lambda one: one - MOS),
            (f"pages of {PAGE_S:.0f} s", load, lambda one: PAGE_S - one),
        ):
            each = [carried({n: found[name, n][seed] for n in COUNTS}, margin) for seed in range(SEEDS)]
            rows.append(row(name, what, each))
            print(f"  {what:18}{rows[-1]['text']} users")
    picture(rows).write(Path("users-carried.svg"))
