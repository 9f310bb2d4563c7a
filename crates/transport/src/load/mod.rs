//! What flows send: the perf protocol's client and server, and on-off sources.

mod asking;
mod on_off;
mod perf;
mod periods;
mod spec;

pub use asking::{Answer, MOST as MOST_ASKED, Question, Wish};
pub use on_off::OnOff;
pub use perf::{PerfClient, PerfServer};
pub use periods::{DrawSpec, PeriodsSpec};
pub use spec::*;

use bytes::Bytes;
use units::Time;

/// What one side has seen of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamReport {
    /// Stream id on the wire.
    pub id: u64,
    /// Stream id in the load, which later streams refer to.
    pub label: u64,
    /// What it carries: `data`, `time`, `on_off`, `datagrams`, or `pages` for all that TLS carries; `data` where
    /// this side does not know.
    pub mode: &'static str,
    /// When this side opened it or first heard of it.
    pub opened: Time,
    /// Bytes received so far, in any order.
    pub received: u64,
    /// Bytes received in order.
    pub received_in_order: u64,
    /// Bytes given to the transport.
    pub written: u64,
    /// When all bytes and FIN had arrived.
    pub fin: Option<Time>,
    /// When the first byte arrived.
    pub first_byte: Option<Time>,
    /// When the bytes received in order last grew.
    pub last_byte: Option<Time>,
    /// When this side gave its last byte and FIN to the transport.
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

    /// Takes over what has been received by `now`.
    pub(crate) fn update(&mut self, now: Time, received: &crate::Received) {
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

/// Zero bytes to send, shared by every writer: the content does not matter and costs no memory.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// `length` zero bytes, at most 1 MiB.
pub(crate) fn zeros(length: u64) -> Bytes {
    Bytes::from_static(&ZEROS[..(length as usize).min(ZEROS.len())])
}
