"""``bentpipe show``: a store's metrics as the rows of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["summary_rows"]

_SHOWN = (
    ("goodput_bit_s", "goodput Mbit/s", 1e-6),
    ("jain", "Jain", 1.0),
    ("completion_p50_s", "completion s", 1.0),
    ("retransmission_ratio", "sent again %", 100.0),
    ("largest_cwnd_bytes", "largest cwnd kB", 1e-3),
    ("queueing_p95_ms", "queueing p95 ms", 1.0),
)


def summary_rows(directory: Path, *, numbers: bool = False) -> tuple[str, list[dict[str, Any]]]:
    """Title and rows: one a cell, flow and direction; ``numbers`` gives all metrics unrounded, one a row.

    Raises:
        bentpipe.store.StoreError: not a store, or no finished run.
    """
    from bentpipe.reading import read_store
    from bentpipe.stats import cell_summary, run_metrics

    store = read_store(directory)
    metrics = run_metrics(store)
    cells = cell_summary(metrics, store.keys)
    if numbers:
        return store.title, cells.to_dicts()
    rows: dict[tuple[object, ...], dict[str, Any]] = {}
    by = [*store.keys, "flow", "direction"]
    shown = {name for name, _, _ in _SHOWN}
    present = [item for item in _SHOWN if item[0] in set(cells["metric"].to_list())]
    for entry in cells.iter_rows(named=True):
        key = tuple(entry[name] for name in by)
        row = rows.setdefault(
            key,
            {name.split(".")[-1] if _plain(name, store.keys) else name: entry[name] for name in by}
            | {"controller": entry["congestion"], "seeds": entry["n"]}
            | {heading: None for _, heading, _ in present},
        )
        if entry["metric"] in shown:
            heading, factor = next((h, f) for name, h, f in _SHOWN if name == entry["metric"])
            row[heading] = _with_spread(entry, factor)
            row["seeds"] = max(row["seeds"], entry["n"])
    finished = f"{store.runs.height} of {store.planned} runs"
    return f"{store.title} ({finished}; ± is half of the 95 % interval of the mean)", list(rows.values())


def _plain(name: str, keys: tuple[str, ...]) -> bool:
    """Whether the last word of a key says enough."""
    last = name.rsplit(".", maxsplit=1)[-1]
    return [key.split(".")[-1] for key in keys].count(last) <= 1 and last not in (
        "flow",
        "direction",
        "controller",
    )


def _with_spread(entry: dict[str, Any], factor: float) -> str:
    mean = entry["mean"] * factor
    low, high = entry["mean_low"], entry["mean_high"]
    if low is None or high is None or high == low:
        return f"{mean:.4g}"
    half = (high - low) / 2 * factor
    return f"{mean:.4g} ± {half:.2g}"
