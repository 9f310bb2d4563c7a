"""Tables of a store as properties: each is a frame that begins with run id, seed and cell."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Frames"]


class Frames(ABC):
    """Tables by name; columns and their units are in docs/reference/results.md.

    Each property reads its table at access, and raises StoreError as :meth:`table` does.
    """

    @abstractmethod
    def table(self, name: str) -> pl.DataFrame:
        """Return table ``name`` of all finished runs."""

    @property
    def flow_summary(self) -> pl.DataFrame:
        """One row per run, flow and side: final counters, and instants of the data in seconds."""
        return self.table("flow_summary")

    @property
    def link_summary(self) -> pl.DataFrame:
        """One row per run and link direction: packets queued, sent, delivered and dropped; queueing delays in ms."""
        return self.table("link_summary")

    @property
    def pages(self) -> pl.DataFrame:
        """One row per page load: instants in seconds, time to response and page load time."""
        return self.table("pages")

    @property
    def requests(self) -> pl.DataFrame:
        """One row per request of a page load."""
        return self.table("requests")

    @property
    def flows(self) -> pl.DataFrame:
        """One row per sample (``time_s``), flow and side: windows, round-trip times, cumulative counters."""
        return self.table("flows")

    @property
    def controller_state(self) -> pl.DataFrame:
        """State of controllers: one row per sample, flow, side and ``name``."""
        return self.table("controller_state")

    @property
    def links(self) -> pl.DataFrame:
        """One row per sample and link direction: queue and cumulative counters."""
        return self.table("links")

    @property
    def proxies(self) -> pl.DataFrame:
        """One row per sample, proxy and socket."""
        return self.table("proxies")

    @property
    def node_buffers(self) -> pl.DataFrame:
        """Packets that nodes store while no route exists."""
        return self.table("node_buffers")

    @property
    def radio_users(self) -> pl.DataFrame:
        """Service of each user of a radio link: one row per sample, link and ``user``, with cumulative counters."""
        return self.table("radio_users")

    @property
    def tcp_counters(self) -> pl.DataFrame:
        """Counters of TCP only, with ``[trace] tcp = true``: one row per sample, flow and side."""
        return self.table("tcp_counters")

    @property
    def calls(self) -> pl.DataFrame:
        """Datagrams of calls, live streams and on-off sources: one row per flow, direction and 10 s."""
        return self.table("calls")

    @property
    def call_delays(self) -> pl.DataFrame:
        """Delays of datagrams: one row per flow, direction, 10 s and whole millisecond of delay."""
        return self.table("call_delays")

    @property
    def bundles(self) -> pl.DataFrame:
        """Events of bundles: one row per event and node."""
        return self.table("bundles")

    @property
    def bundle_routes(self) -> pl.DataFrame:
        """Routing decisions of bundle nodes: one row per decision and next hop."""
        return self.table("bundle_routes")

    @property
    def bundle_status_reports(self) -> pl.DataFrame:
        """Status reports that a monitor received."""
        return self.table("bundle_status_reports")

    @property
    def bundle_store(self) -> pl.DataFrame:
        """Bundles that nodes store at the end."""
        return self.table("bundle_store")

    @property
    def user_queues(self) -> pl.DataFrame:
        """Packets of each user in the queue of a scheduler: one row per link and ``user``."""
        return self.table("user_queues")

    @property
    def streams(self) -> pl.DataFrame:
        """One row per stream: bytes and instants of both directions."""
        return self.table("streams")

    @property
    def events(self) -> pl.DataFrame:
        """Handshakes, congestion events and timeouts with their instants."""
        return self.table("events")

    @property
    def packets(self) -> pl.DataFrame:
        """One row per packet and connection, with ``[trace] packets = true``."""
        return self.table("packets")

    @property
    def packet_steps(self) -> pl.DataFrame:
        """One row per packet and stage of a path, with ``[trace] stages = true``."""
        return self.table("packet_steps")

    @property
    def radio_attempts(self) -> pl.DataFrame:
        """One row per attempt of a radio link at a packet, with ``[trace] stages = true``."""
        return self.table("radio_attempts")
