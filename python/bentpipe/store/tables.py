"""The tables of a store as properties: each a frame with the run's id, seed and cell in front."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Frames"]


class Frames(ABC):
    """What has tables by name; columns and their units are in docs/manual/results.md.

    Each property is read when it is asked for, and raises StoreError as :meth:`table` does.
    """

    @abstractmethod
    def table(self, name: str) -> pl.DataFrame:
        """Table ``name`` of all finished runs."""

    @property
    def summary(self) -> pl.DataFrame:
        """One row per run, flow and side: counters at the end, instants of its data in seconds."""
        return self.table("summary")

    @property
    def link_summary(self) -> pl.DataFrame:
        """One row per run and direction of a link: what was queued, sent, delivered, dropped; queueing delays in ms."""
        return self.table("link_summary")

    @property
    def pages(self) -> pl.DataFrame:
        """One row per load of a page: its instants in seconds, time to response and page load time."""
        return self.table("pages")

    @property
    def requests(self) -> pl.DataFrame:
        """One row per request of a load of a page."""
        return self.table("requests")

    @property
    def flows(self) -> pl.DataFrame:
        """One row per sample (``time_s``), flow and side: windows, round-trip times, counters since the start."""
        return self.table("flows")

    @property
    def internals(self) -> pl.DataFrame:
        """What controllers say of themselves: one row per sample, flow, side and ``name``."""
        return self.table("internals")

    @property
    def links(self) -> pl.DataFrame:
        """One row per sample and direction of a link: its queue, and counters since the start."""
        return self.table("links")

    @property
    def proxies(self) -> pl.DataFrame:
        """One row per sample, proxy and socket."""
        return self.table("proxies")

    @property
    def holds(self) -> pl.DataFrame:
        """What nodes hold until a way leads on."""
        return self.table("holds")

    @property
    def users(self) -> pl.DataFrame:
        """What each user had of a radio link: one row per sample, link and ``user``, counters since the start."""
        return self.table("users")

    @property
    def tcp(self) -> pl.DataFrame:
        """What only TCP counts, where the scenario has ``[trace] tcp = true``: one row per sample, flow and side."""
        return self.table("tcp")

    @property
    def calls(self) -> pl.DataFrame:
        """What became of datagrams of calls, live streams and on-off sources: one row per flow, direction and 10 s."""
        return self.table("calls")

    @property
    def call_delays(self) -> pl.DataFrame:
        """How long they took: one row per flow, direction, 10 s and whole millisecond of delay."""
        return self.table("call_delays")

    @property
    def bundles(self) -> pl.DataFrame:
        """What happened to bundles: one row per event and node."""
        return self.table("bundles")

    @property
    def routes(self) -> pl.DataFrame:
        """What bundle nodes decided: one row per decision and next hop."""
        return self.table("routes")

    @property
    def reports(self) -> pl.DataFrame:
        """Status reports that came to a monitor."""
        return self.table("reports")

    @property
    def stored(self) -> pl.DataFrame:
        """Bundles that nodes have at the end."""
        return self.table("stored")

    @property
    def user_queues(self) -> pl.DataFrame:
        """What became of each user's packets in the queue of a scheduler: one row per link and ``user``."""
        return self.table("user_queues")

    @property
    def streams(self) -> pl.DataFrame:
        """One row per stream: bytes and instants of both directions."""
        return self.table("streams")

    @property
    def events(self) -> pl.DataFrame:
        """What happened and when: handshakes, congestion events, timeouts."""
        return self.table("events")

    @property
    def packets(self) -> pl.DataFrame:
        """One row per packet and leg, where the scenario has ``[trace] packets = true``."""
        return self.table("packets")

    @property
    def stages(self) -> pl.DataFrame:
        """One row per packet and stage of a path, where the scenario has ``[trace] stages = true``."""
        return self.table("stages")

    @property
    def attempts(self) -> pl.DataFrame:
        """One row per attempt of a radio link at a packet, where the scenario has ``[trace] stages = true``."""
        return self.table("attempts")
