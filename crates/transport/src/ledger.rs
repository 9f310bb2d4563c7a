//! What an endpoint remembers beyond its live connections.

use units::Time;

use crate::calls::CallSide;
use crate::load::StreamReport;
use crate::{Counters, Event, EventKind, Gauges};

/// Connections opened and ended, and what they did.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Connections opened or accepted.
    pub opened: u32,
    /// Connections closed by agreement.
    pub completed: u32,
    /// When the first handshake was done.
    pub connected_at: Option<Time>,
    /// When the last connection to end was closed or lost.
    pub ended_at: Option<Time>,
    /// Counters of ended connections.
    pub counters: Counters,
    /// State of the last connection's sender when it ended.
    pub gauges: Gauges,
    /// Events since they were last taken.
    pub events: Vec<Event>,
    /// What the last call to end has said and heard.
    pub call: Option<Box<CallSide>>,
    /// Streams of ended connections, by connection.
    streams: Vec<(u32, Vec<StreamReport>)>,
}

impl Ledger {
    /// Enters a connection that has ended.
    pub fn end(
        &mut self,
        index: u32,
        counters: &Counters,
        gauges: Gauges,
        streams: &[StreamReport],
    ) {
        self.enter(index, counters, streams);
        self.last(gauges);
    }

    /// State of the sender of the connection that was the last to end.
    pub fn last(&mut self, gauges: Gauges) {
        self.gauges = Gauges { in_flight: 0, ..gauges };
    }

    /// What a connection has done that ends.
    pub fn enter(&mut self, index: u32, counters: &Counters, streams: &[StreamReport]) {
        self.counters.add(counters);
        if !streams.is_empty() {
            self.streams.push((index, streams.to_vec()));
        }
    }

    /// Events since the last call.
    pub fn take_events(&mut self) -> Vec<Event> {
        self.enter_events();
        std::mem::take(&mut self.events)
    }

    /// Forgets events, where nobody will ask for them.
    pub fn forget_events(&mut self) {
        self.enter_events();
        self.events.clear();
    }

    fn enter_events(&mut self) {
        for event in &self.events {
            match event.kind {
                EventKind::Connected => {
                    self.connected_at.get_or_insert(event.time);
                }
                EventKind::Closed | EventKind::Lost => {
                    self.ended_at = Some(event.time);
                    self.completed += u32::from(event.kind == EventKind::Closed);
                }
                _ => {}
            }
        }
    }

    /// Streams of ended and of `live` connections, in order of (connection, stream).
    pub fn streams<'a>(
        &'a self,
        live: impl Iterator<Item = (u32, &'a [StreamReport])>,
    ) -> Vec<(u32, StreamReport)> {
        let ended = self.streams.iter().map(|(index, streams)| (*index, streams.as_slice()));
        let mut all: Vec<_> = ended
            .chain(live)
            .flat_map(|(index, streams)| streams.iter().map(move |stream| (index, stream.clone())))
            .collect();
        all.sort_by_key(|(index, stream)| (*index, stream.id));
        all
    }
}
