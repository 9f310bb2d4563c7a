//! Statistics of an endpoint beyond its live connections.

use units::Time;

use crate::media::MediaReport;
use crate::perf_load::StreamReport;
use crate::{FlowCounters, FlowEvent, FlowEventKind, SenderGauges};

/// Statistics of opened and ended connections.
#[derive(Debug, Default)]
pub(crate) struct EndpointStats {
    /// Connections opened or accepted.
    pub opened: u32,
    /// Connections closed by agreement.
    pub completed: u32,
    /// Time of the first completed handshake.
    pub connected_at: Option<Time>,
    /// Time at which the last connection to end was closed or lost.
    pub ended_at: Option<Time>,
    /// Counters of ended connections.
    pub counters: FlowCounters,
    /// State of the last connection's sender when it ended.
    pub gauges: SenderGauges,
    /// Events that were not taken yet.
    pub events: Vec<FlowEvent>,
    /// Media statistics of the last call to end.
    pub media_report: Option<Box<MediaReport>>,
    /// Streams of ended connections, by connection.
    closed_streams: Vec<(u32, Vec<StreamReport>)>,
}

impl EndpointStats {
    /// Adds a connection that has ended.
    pub fn on_connection_closed(
        &mut self,
        index: u32,
        counters: &FlowCounters,
        gauges: SenderGauges,
        streams: &[StreamReport],
    ) {
        self.add_closed(index, counters, streams);
        self.set_last_gauges(gauges);
    }

    /// Sets the sender state of the last connection to end.
    pub fn set_last_gauges(&mut self, gauges: SenderGauges) {
        self.gauges = SenderGauges { in_flight: 0, ..gauges };
    }

    /// Adds the counters and streams of a connection that has ended.
    pub fn add_closed(&mut self, index: u32, counters: &FlowCounters, streams: &[StreamReport]) {
        self.counters.add(counters);
        if !streams.is_empty() {
            self.closed_streams.push((index, streams.to_vec()));
        }
    }

    /// Takes the events since the last call.
    pub fn take_events(&mut self) -> Vec<FlowEvent> {
        self.count_events();
        std::mem::take(&mut self.events)
    }

    /// Discards events that no caller will take.
    pub fn discard_events(&mut self) {
        self.count_events();
        self.events.clear();
    }

    fn count_events(&mut self) {
        for event in &self.events {
            match event.kind {
                FlowEventKind::Connected => {
                    self.connected_at.get_or_insert(event.time);
                }
                FlowEventKind::Closed | FlowEventKind::Lost => {
                    self.ended_at = Some(event.time);
                    self.completed += u32::from(event.kind == FlowEventKind::Closed);
                }
                _ => {}
            }
        }
    }

    /// Returns the streams of ended and of `live` connections, in order of (connection, stream).
    pub fn stream_reports<'a>(
        &'a self,
        live: impl Iterator<Item = (u32, &'a [StreamReport])>,
    ) -> Vec<(u32, StreamReport)> {
        let ended = self.closed_streams.iter().map(|(index, streams)| (*index, streams.as_slice()));
        let mut all: Vec<_> = ended
            .chain(live)
            .flat_map(|(index, streams)| streams.iter().map(move |stream| (index, stream.clone())))
            .collect();
        all.sort_by_key(|(index, stream)| (*index, stream.id));
        all
    }
}
