//! The boundary between the loop and whoever sends and receives packets: hosts, browsers, splitting proxies.

use std::any::Any;

use cc::CongestionControl;
use units::Time;

use crate::calls::CallSide;
use crate::load::StreamReport;
use crate::web::{LoadReport, RequestReport};
use crate::{Asker, Counters, Event, Gauges, Payload, quic};

/// Sends and receives at its ends, and wakes itself. An end is the near side of a way to another node's end; behind it
/// there may be any number of connections of any transport, and what they tell each other goes through the node.
///
/// Calls come in the order of time. What leaves is pushed to `out`, which has a list an end.
pub trait Node: Send {
    /// A packet arrived at `end`.
    fn receive(&mut self, now: Time, end: usize, payload: Payload, out: &mut [Vec<Payload>]);
    /// Whether it keeps so much that a processor's caches do not: [`Node::expect`] may be called then.
    fn is_crowd(&self) -> bool {
        false
    }
    /// A packet will arrive at `end` after `others`, 2 or fewer: what it needs of memory may be brought.
    fn expect(&self, end: usize, payload: &Payload, others: usize) {
        let _ = (end, payload, others);
    }
    /// Does what is due at `now`.
    fn wake(&mut self, now: Time, out: &mut [Vec<Payload>]);
    /// When [`Node::wake`] is due; [`Time::MAX`]: never.
    fn wake_at(&mut self) -> Time;
    /// Whose wish that is, and at which end.
    fn asker(&mut self) -> (Asker, usize) {
        (Asker::Application, 0)
    }

    /// Connections opened or accepted at `end` so far.
    fn opened(&self, end: usize) -> u32 {
        let _ = end;
        0
    }
    /// Those that were closed by agreement.
    fn completed(&self, end: usize) -> u32 {
        let _ = end;
        0
    }
    /// When the first handshake was done.
    fn connected_at(&self, end: usize) -> Option<Time> {
        let _ = end;
        None
    }
    /// When the last connection to end was closed or lost.
    fn ended_at(&self, end: usize) -> Option<Time> {
        let _ = end;
        None
    }
    /// Counters over all connections at `end` so far.
    fn counters(&self, end: usize) -> Counters {
        let _ = end;
        Counters::default()
    }
    /// State of the newest connection's sender.
    fn gauges(&self, end: usize) -> Gauges {
        let _ = end;
        Gauges::default()
    }
    /// Bytes from another end that wait for this one's send buffers.
    fn waiting_bytes(&self, end: usize) -> u64 {
        let _ = end;
        0
    }
    /// The newest connection's controller.
    fn controller(&self, end: usize) -> Option<&dyn CongestionControl> {
        let _ = end;
        None
    }
    /// What happened since the last call.
    fn take_events(&mut self, end: usize) -> Vec<Event> {
        let _ = end;
        Vec::new()
    }
    /// Streams of every connection, ended or not, in order of (connection, stream).
    fn streams(&self, end: usize) -> Vec<(u32, StreamReport)> {
        let _ = end;
        Vec::new()
    }
    /// The QUIC stack at `end`, for qlog.
    fn quic(&self, end: usize) -> Option<&quic::Endpoint> {
        let _ = end;
        None
    }
    /// Tells what only such a node has to tell.
    fn tell(&self, report: &mut dyn Report) {
        let _ = report;
    }
    /// The node itself, for who knows what kind it is.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}

/// Takes what nodes of some kinds have to tell at the end of a run.
pub trait Report {
    /// What a side of a call has said and heard.
    fn call(&mut self, side: &CallSide) {
        let _ = side;
    }
    /// A page was loaded, or its load began: a browser's, in order.
    fn load(&mut self, load: &LoadReport) {
        let _ = load;
    }
    /// A request of those loads.
    fn request(&mut self, request: &RequestReport) {
        let _ = request;
    }
}
