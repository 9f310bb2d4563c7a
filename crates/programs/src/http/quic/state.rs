//! State of one connection, shared by the futures of the library and the events of the transport. Both run in the
//! thread of the driver, never concurrently. The lock exists because applications can move between threads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use transport::{ReadStatus, Streams};
use units::Time;

use crate::http::access_log::AccessRecord;

/// The number of queued bytes at or below which the futures of a stream have to provide more.
pub const LOW_WATERMARK: usize = 1 << 16;

/// The bytes per stream in one round, as in the simulated server.
const QUANTUM_BYTES: usize = 1 << 14;

/// The maximum of bytes on the client's control stream and its two QPACK streams (RFC 9204 section 4.2) over the
/// lifetime of a connection. A table of size 0 needs none; PRIORITY_UPDATE (RFC 9218) needs about 20 per request.
const MAX_CONTROL_BYTES: u64 = 1 << 20;

/// The maximum of unread bytes of a stream: its flow-control window.
pub const STREAM_WINDOW: u64 = 1 << 16;

/// The maximum of requests that a client can cancel unanswered, in addition to two per answered request (rapid reset,
/// CVE-2023-44487). A browser that closes a page resets at most all open streams.
const MAX_RESETS: u64 = 200;

/// Error codes of RFC 9114 section 8.1.
pub(super) const H3_NO_ERROR: u64 = 0x100;
pub(super) const H3_INTERNAL_ERROR: u64 = 0x102;
pub(super) const H3_EXCESSIVE_LOAD: u64 = 0x107;
pub(super) const H3_REQUEST_CANCELLED: u64 = 0x10c;

/// Returns whether a stream is unidirectional.
fn is_uni(id: u64) -> bool {
    id & 2 != 0
}

/// One stream.
#[derive(Default)]
pub struct H3StreamState {
    /// Data after a gap by offset, and the next offset in sequence.
    out_of_order: BTreeMap<u64, Bytes>,
    next_offset: u64,
    pub(super) ready: VecDeque<Bytes>,
    received: u64,
    /// The peer has finished, and all data has arrived.
    pub(super) fin: bool,
    /// The peer has reset the stream, or it is not read (any more).
    pub(super) is_read_closed: bool,
    /// The code of a STOP_SENDING to send.
    pub(super) stop: Option<u64>,
    pub(super) reader: Option<Waker>,
    pub(super) has_reader: bool,

    queue: VecDeque<Bytes>,
    /// The number of queued bytes.
    pub queued: usize,
    /// The stream finishes after the queued data.
    pub(super) finish: bool,
    /// The stream is finished, reset or stopped, or receives only.
    pub(super) sent: bool,
    /// The code of a RESET_STREAM to send.
    pub(super) reset: Option<u64>,
    /// The peer has sent STOP_SENDING.
    pub(super) stopped: bool,
    pub(super) writer: Option<Waker>,
    pub(super) has_writer: bool,
    /// The log entry, until all data is acknowledged.
    pub(super) record: Option<AccessRecord>,
}

impl H3StreamState {
    pub(super) fn push(&mut self, data: Bytes) {
        self.queued += data.len();
        self.queue.push_back(data);
    }

    fn has_work(&self) -> bool {
        !self.sent && (self.queued > 0 || self.finish)
    }

    fn is_finished(&self) -> bool {
        (self.fin || self.is_read_closed)
            && self.stop.is_none()
            && self.sent
            && !self.has_reader
            && !self.has_writer
            && self.record.is_none()
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }

    /// Stores received data and moves data in sequence to the reader.
    fn receive(&mut self, offset: u64, data: &[u8]) {
        self.received += data.len() as u64;
        self.out_of_order.insert(offset, Bytes::copy_from_slice(data));
        while let Some(entry) = self.out_of_order.first_entry() {
            if *entry.key() > self.next_offset {
                break;
            }
            let (start, mut data) = entry.remove_entry();
            let known =
                usize::try_from(self.next_offset - start).unwrap_or(usize::MAX).min(data.len());
            let data = data.split_off(known);
            if !data.is_empty() {
                self.next_offset += data.len() as u64;
                self.ready.push_back(data);
            }
        }
    }
}

/// One connection.
#[derive(Default)]
pub struct H3ConnectionState {
    pub(super) now: Time,
    /// The open streams.
    pub streams: BTreeMap<u64, H3StreamState>,
    pub(super) requests: VecDeque<u64>,
    pub(super) unidirectional: VecDeque<u64>,
    /// Local streams that are open and not yet taken.
    pub(super) local_streams: VecDeque<u64>,
    accepting: Vec<Waker>,
    pub(super) timers: BTreeMap<(Time, u64), Waker>,
    pub(super) next_timer_id: u64,
    /// The code of a close to send.
    pub(super) close: Option<u64>,
    /// The connection is closed.
    pub closed: bool,
    /// Complete log entries.
    pub(super) finished_records: Vec<AccessRecord>,
    /// The maximum of bytes per request.
    pub(super) max_request_bytes: u64,
    answered: u64,
    resets: u64,
    last_served: u64,
}

impl H3ConnectionState {
    /// Handles a stream that the peer has opened.
    pub(super) fn accept(&mut self, id: u64) {
        let stream = self.streams.entry(id).or_default();
        stream.sent = is_uni(id);
        if is_uni(id) { &mut self.unidirectional } else { &mut self.requests }.push_back(id);
        self.wake_accepting();
    }

    /// Opens the streams of a server: the control stream and the two of QPACK.
    pub(super) fn open_local_streams(&mut self, streams: &mut dyn Streams) {
        for _ in 0..3 {
            let Some(id) = streams.open_uni() else { break };
            self.streams
                .insert(id, H3StreamState { is_read_closed: true, ..H3StreamState::default() });
            self.local_streams.push_back(id);
        }
        self.wake_accepting();
    }

    /// Wakes `waker` when there are new streams.
    pub(super) fn wait_for_streams(&mut self, waker: &Waker) {
        if !self.accepting.iter().any(|known| known.will_wake(waker)) {
            self.accepting.push(waker.clone());
        }
    }

    fn wake_accepting(&mut self) {
        self.accepting.drain(..).for_each(Waker::wake);
    }

    /// Reads the received data of a stream.
    pub(super) fn read(&mut self, id: u64, streams: &mut dyn Streams) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.fin || stream.is_read_closed {
            return;
        }
        let end = streams.read(id, &mut |offset, data| stream.receive(offset, data));
        match end {
            ReadStatus::Open => {}
            ReadStatus::Finished => stream.fin = true,
            ReadStatus::Reset => {
                stream.is_read_closed = true;
                if !is_uni(id) && !stream.sent {
                    self.resets += 1;
                }
            }
        }
        let max_bytes = if is_uni(id) { MAX_CONTROL_BYTES } else { self.max_request_bytes };
        let unread: usize = stream.ready.iter().map(Bytes::len).sum();
        let excessive = stream.received > max_bytes
            || (is_uni(id) && unread as u64 > STREAM_WINDOW)
            || self.resets > MAX_RESETS + 2 * self.answered;
        if excessive {
            self.close.get_or_insert(H3_EXCESSIVE_LOAD);
        }
        if let Some(reader) = stream.reader.take() {
            reader.wake();
        }
    }

    /// Handles STOP_SENDING of the peer.
    pub(super) fn on_stopped(&mut self, id: u64, streams: &mut dyn Streams) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        // Also after all data was written: a finish after STOP_SENDING has no effect, and the stream would stay open
        // forever (RFC 9000 section 3.5).
        if !is_uni(id) {
            streams.reset_with_code(id, H3_REQUEST_CANCELLED);
        }
        if let Some(record) = &mut stream.record {
            record.bytes = record.bytes.saturating_sub(stream.queued as u64);
        }
        stream.stopped = true;
        stream.sent = true;
        stream.queue.clear();
        stream.queued = 0;
        stream.wake();
        self.finished_records.extend(stream.record.take());
    }

    /// Completes the log entry of a stream with all data acknowledged.
    pub(super) fn on_acknowledged(&mut self, id: u64, monotonic_ns: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if let Some(mut record) = stream.record.take() {
            record.acked_ns = Some(monotonic_ns);
            self.finished_records.push(record);
        }
    }

    /// Handles the close of the connection.
    pub(super) fn on_closed(&mut self) {
        self.closed = true;
        for stream in self.streams.values_mut() {
            stream.wake();
            if let Some(mut record) = stream.record.take() {
                record.bytes = record.bytes.saturating_sub(stream.queued as u64);
                self.finished_records.push(record);
            }
        }
        self.wake_accepting();
        std::mem::take(&mut self.timers).into_values().for_each(Waker::wake);
    }

    /// Wakes the futures with expired timers.
    pub(super) fn fire_timers(&mut self) {
        while let Some(first) = self.timers.first_entry() {
            if first.key().0 > self.now {
                break;
            }
            first.remove().wake();
        }
    }

    /// Returns the maximum of unread bytes per stream, in sequence or not.
    #[cfg(feature = "test-support")]
    pub fn max_unread(&self) -> u64 {
        let unread = |stream: &H3StreamState| {
            stream
                .ready
                .iter()
                .chain(stream.out_of_order.values())
                .map(|data| data.len() as u64)
                .sum()
        };
        self.streams.values().map(unread).max().unwrap_or(0)
    }

    pub(super) fn has_data(&self) -> bool {
        !self.closed && self.streams.values().any(H3StreamState::has_work)
    }

    /// Passes resets, stops and at most `budget` data bytes to the transport.
    pub(super) fn transmit(
        &mut self,
        monotonic_ns: u64,
        budget: &mut usize,
        streams: &mut dyn Streams,
    ) {
        if let Some(code) = self.close.take()
            && !self.closed
        {
            self.on_closed();
            streams.close_with_code(code);
        }
        if self.closed {
            return;
        }
        for (&id, stream) in &mut self.streams {
            if let Some(code) = stream.stop.take()
                && !stream.fin
                && !stream.is_read_closed
            {
                stream.is_read_closed = true;
                stream.ready.clear();
                streams.stop_with_code(id, code);
            }
            if let Some(code) = stream.reset.take()
                && !stream.sent
            {
                stream.sent = true;
                stream.queue.clear();
                stream.queued = 0;
                streams.reset_with_code(id, code);
                self.finished_records.extend(stream.record.take());
            }
        }
        self.write(monotonic_ns, budget, streams);
        self.streams.retain(|_, stream| !stream.is_finished());
    }

    /// Writes local streams first, then requests in rotation.
    fn write(&mut self, monotonic_ns: u64, budget: &mut usize, streams: &mut dyn Streams) {
        let working: Vec<u64> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.has_work())
            .map(|(&id, _)| id)
            .collect();
        let (mut unidirectional, mut requests): (Vec<u64>, Vec<u64>) =
            working.into_iter().partition(|&id| is_uni(id));
        unidirectional
            .retain(|&id| self.write_stream(id, monotonic_ns, &mut usize::MAX.clone(), streams));
        let from = requests.partition_point(|&id| id <= self.last_served);
        requests.rotate_left(from);
        while !requests.is_empty() {
            requests.retain(|&id| {
                let mut left = QUANTUM_BYTES.min(*budget);
                let before = left;
                let more = self.write_stream(id, monotonic_ns, &mut left, streams);
                *budget -= before - left;
                if before > left {
                    self.last_served = id;
                }
                more
            });
            if *budget == 0 {
                break;
            }
        }
    }

    /// Writes at most `budget` bytes of a stream. Returns whether it can write more now.
    fn write_stream(
        &mut self,
        id: u64,
        monotonic_ns: u64,
        budget: &mut usize,
        streams: &mut dyn Streams,
    ) -> bool {
        let Some(stream) = self.streams.get_mut(&id) else { return false };
        let mut blocked = false;
        while *budget > 0
            && !blocked
            && let Some(mut data) = stream.queue.pop_front()
        {
            let part = data.split_to(data.len().min(*budget));
            let wanted = part.len();
            let taken = streams.write(id, part.clone());
            if taken > 0
                && let Some(record) = &mut stream.record
            {
                record.first_byte_ns.get_or_insert(monotonic_ns);
            }
            stream.queued -= taken;
            *budget -= taken;
            if !data.is_empty() {
                stream.queue.push_front(data);
            }
            if taken < wanted {
                stream.queue.push_front(part.slice(taken..));
                blocked = true;
            }
        }
        if stream.queue.is_empty() && stream.finish {
            stream.sent = true;
            streams.finish(id);
            self.answered += 1;
            if let Some(record) = &mut stream.record {
                record.last_byte_ns = Some(monotonic_ns);
                record.complete = true;
            }
        }
        if stream.queued <= LOW_WATERMARK
            && let Some(writer) = stream.writer.take()
        {
            writer.wake();
        }
        !blocked && stream.queued > 0
    }
}

/// The shared state of a connection.
#[derive(Clone, Default)]
pub struct SharedH3State(Arc<Mutex<H3ConnectionState>>);

impl SharedH3State {
    /// Locks the state.
    pub fn lock(&self) -> MutexGuard<'_, H3ConnectionState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
