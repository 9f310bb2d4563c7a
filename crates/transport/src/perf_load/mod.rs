//! Loads of flows: the perf protocol's client and server, and on-off sources.

mod controller_negotiation;
mod on_off;
mod perf;
mod periods;
mod spec;

pub use controller_negotiation::{
    ControllerRequest, ControllerResponse, MAX_NEGOTIATION_BYTES, RequestedController,
};
pub use on_off::OnOffSource;
pub use perf::{PerfClient, PerfServer};
pub use periods::{PeriodDistribution, PeriodsSpec};
pub use spec::*;

use bytes::Bytes;
use units::Time;

/// Report of one side about one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamReport {
    /// Stream id on the wire.
    pub id: u64,
    /// Stream id in the load, as later streams reference it.
    pub label: u64,
    /// Kind of load: `data`, `time`, `on_off`, `datagrams`, or `pages` for all data in TLS. `data` if this side does
    /// not know it.
    pub mode: &'static str,
    /// Time at which this side opened it, or first received a frame of it.
    pub opened: Time,
    /// Bytes received so far, in any order.
    pub received: u64,
    /// Bytes received in order.
    pub received_in_order: u64,
    /// Bytes written to the transport.
    pub written: u64,
    /// Time at which all bytes and FIN had arrived.
    pub fin: Option<Time>,
    /// Time of the first byte received.
    pub first_byte: Option<Time>,
    /// Time of the last growth of the bytes received in order.
    pub last_byte: Option<Time>,
    /// Time at which this side wrote its last byte and FIN to the transport.
    pub finished: Option<Time>,
}

impl StreamReport {
    pub(crate) fn new(id: u64, opened: Time) -> StreamReport {
        StreamReport {
            id,
            label: id,
            mode: "data",
            opened,
            received: 0,
            received_in_order: 0,
            written: 0,
            fin: None,
            first_byte: None,
            last_byte: None,
            finished: None,
        }
    }

    /// Updates the report with the ranges received by `now`.
    pub(crate) fn update(&mut self, now: Time, received: &crate::ReceivedRanges) {
        if received.total() > 0 {
            self.first_byte.get_or_insert(now);
        }
        if received.in_order() > self.received_in_order {
            self.last_byte = Some(now);
        }
        self.received = received.total();
        self.received_in_order = received.in_order();
    }
}

/// Zero bytes that all writers share: the content has no effect, and sending costs no memory.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Returns `length` zero bytes, at most 1 MiB.
pub(crate) fn zeros(length: u64) -> Bytes {
    Bytes::from_static(&ZEROS[..(length as usize).min(ZEROS.len())])
}
