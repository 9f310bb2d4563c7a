//! What the library's futures and the transport's events share on one connection. Both run in the one
//! thread of the driver, never at the same time; the lock is there because applications may move between
//! threads.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use bytes::Bytes;
use transport::{ReadEnd, Streams};
use units::Time;

use crate::http::log::Record;

/// A stream's futures are asked for more when it has no more than this to write, bytes.
pub(super) const LOW: usize = 1 << 16;

/// A stream gets this much of its turn, bytes, as in the simulated server.
const TURN: usize = 1 << 14;

/// Bytes a client may send on its control stream and the two of QPACK (RFC 9204 section 4.2) over a
/// connection's life: a table of size 0 needs none, and a PRIORITY_UPDATE (RFC 9218) some 20 a request.
const MOST_CONTROL: u64 = 1 << 20;

/// Bytes of a stream that may be here and unread: the stream's flow-control window.
pub(super) const WINDOW: u64 = 1 << 16;

/// Requests that a client may take back unanswered, beside two for each answered one (rapid reset,
/// CVE-2023-44487). A browser that leaves a page resets what is under way: at most all streams.
const MOST_RESETS: u64 = 200;

/// Error codes of RFC 9114 section 8.1.
pub(super) const H3_NO_ERROR: u64 = 0x100;
pub(super) const H3_INTERNAL_ERROR: u64 = 0x102;
pub(super) const H3_EXCESSIVE_LOAD: u64 = 0x107;
pub(super) const H3_REQUEST_CANCELLED: u64 = 0x10c;

/// Whether a stream goes one way.
fn is_uni(id: u64) -> bool {
    id & 2 != 0
}

/// One stream.
#[derive(Default)]
pub(super) struct Stream {
    /// What came beyond a gap, by its offset, and the offset that is handed on next.
    beyond: BTreeMap<u64, Bytes>,
    next: u64,
    pub(super) ready: VecDeque<Bytes>,
    received: u64,
    /// All has come.
    pub(super) fin: bool,
    /// The peer reset it, or it is not to be read (any more).
    pub(super) cut: bool,
    /// Code of a STOP_SENDING to send.
    pub(super) stop: Option<u64>,
    pub(super) reader: Option<Waker>,
    pub(super) has_reader: bool,

    queue: VecDeque<Bytes>,
    pub(super) queued: usize,
    /// It ends after what is queued.
    pub(super) finish: bool,
    /// It is finished, reset, stopped, or none that we send on.
    pub(super) sent: bool,
    /// Code of a RESET_STREAM to send.
    pub(super) reset: Option<u64>,
    /// The peer asked to stop.
    pub(super) stopped: bool,
    pub(super) writer: Option<Waker>,
    pub(super) has_writer: bool,
    /// The log's entry, until all is acknowledged.
    pub(super) record: Option<Record>,
}

impl Stream {
    pub(super) fn push(&mut self, data: Bytes) {
        self.queued += data.len();
        self.queue.push_back(data);
    }

    fn has_work(&self) -> bool {
        !self.sent && (self.queued > 0 || self.finish)
    }

    fn is_over(&self) -> bool {
        (self.fin || self.cut)
            && self.stop.is_none()
            && self.sent
            && !self.has_reader
            && !self.has_writer
            && self.record.is_none()
    }

    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }

    /// What has come in order, for the reader.
    fn take_in(&mut self, offset: u64, data: &[u8]) {
        self.received += data.len() as u64;
        self.beyond.insert(offset, Bytes::copy_from_slice(data));
        while let Some(entry) = self.beyond.first_entry() {
            if *entry.key() > self.next {
                break;
            }
            let (start, mut data) = entry.remove_entry();
            let known = usize::try_from(self.next - start).unwrap_or(usize::MAX).min(data.len());
            let data = data.split_off(known);
            if !data.is_empty() {
                self.next += data.len() as u64;
                self.ready.push_back(data);
            }
        }
    }
}

/// One connection.
#[derive(Default)]
pub(super) struct State {
    pub(super) now: Time,
    pub(super) streams: BTreeMap<u64, Stream>,
    pub(super) requests: VecDeque<u64>,
    pub(super) unidirectional: VecDeque<u64>,
    /// Streams of ours that are open and not taken yet.
    pub(super) own: VecDeque<u64>,
    accepting: Vec<Waker>,
    pub(super) sleepers: BTreeMap<(Time, u64), Waker>,
    pub(super) next_sleeper: u64,
    /// Close with this code.
    pub(super) close: Option<u64>,
    /// It is over.
    pub(super) closed: bool,
    /// Log entries that are ready.
    pub(super) done: Vec<Record>,
    /// Most bytes of a request.
    pub(super) most_request: u64,
    answered: u64,
    resets: u64,
    turn: u64,
}

impl State {
    /// The peer opened a stream.
    pub(super) fn accept(&mut self, id: u64) {
        let stream = self.streams.entry(id).or_default();
        stream.sent = is_uni(id);
        if is_uni(id) { &mut self.unidirectional } else { &mut self.requests }.push_back(id);
        self.wake_accepting();
    }

    /// Opens the streams that a server has of its own: control and QPACK's two.
    pub(super) fn open_own(&mut self, streams: &mut dyn Streams) {
        for _ in 0..3 {
            let Some(id) = streams.open_uni() else { break };
            self.streams.insert(id, Stream { cut: true, ..Stream::default() });
            self.own.push_back(id);
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

    /// Takes what has come on a stream.
    pub(super) fn read(&mut self, id: u64, streams: &mut dyn Streams) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if stream.fin || stream.cut {
            return;
        }
        let end = streams.read(id, &mut |offset, data| stream.take_in(offset, data));
        match end {
            ReadEnd::Open => {}
            ReadEnd::Finished => stream.fin = true,
            ReadEnd::Reset => {
                stream.cut = true;
                if !is_uni(id) && !stream.sent {
                    self.resets += 1;
                }
            }
        }
        let most = if is_uni(id) { MOST_CONTROL } else { self.most_request };
        let unread: usize = stream.ready.iter().map(Bytes::len).sum();
        let excessive = stream.received > most
            || (is_uni(id) && unread as u64 > WINDOW)
            || self.resets > MOST_RESETS + 2 * self.answered;
        if excessive {
            self.close.get_or_insert(H3_EXCESSIVE_LOAD);
        }
        if let Some(reader) = stream.reader.take() {
            reader.wake();
        }
    }

    /// The peer wants no more of a stream.
    pub(super) fn stopped(&mut self, id: u64, streams: &mut dyn Streams) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        // Also where all was written: finishing came to nothing if the stop was there before it, and the
        // stream would stay open for ever (RFC 9000 section 3.5).
        if !is_uni(id) {
            streams.reset_with(id, H3_REQUEST_CANCELLED);
        }
        if let Some(record) = &mut stream.record {
            record.bytes = record.bytes.saturating_sub(stream.queued as u64);
        }
        stream.stopped = true;
        stream.sent = true;
        stream.queue.clear();
        stream.queued = 0;
        stream.wake();
        self.done.extend(stream.record.take());
    }

    /// Everything on a stream has been acknowledged.
    pub(super) fn acknowledged(&mut self, id: u64, monotonic_ns: u64) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        if let Some(mut record) = stream.record.take() {
            record.acked_ns = Some(monotonic_ns);
            self.done.push(record);
        }
    }

    /// The connection is over.
    pub(super) fn over(&mut self) {
        self.closed = true;
        for stream in self.streams.values_mut() {
            stream.wake();
            if let Some(mut record) = stream.record.take() {
                record.bytes = record.bytes.saturating_sub(stream.queued as u64);
                self.done.push(record);
            }
        }
        self.wake_accepting();
        std::mem::take(&mut self.sleepers).into_values().for_each(Waker::wake);
    }

    /// Wakes who slept until now.
    pub(super) fn ring(&mut self) {
        while let Some(first) = self.sleepers.first_entry() {
            if first.key().0 > self.now {
                break;
            }
            first.remove().wake();
        }
    }

    /// Most bytes that are kept of a stream, in order or not.
    pub(super) fn largest_unread(&self) -> u64 {
        let kept = |stream: &Stream| {
            stream.ready.iter().chain(stream.beyond.values()).map(|data| data.len() as u64).sum()
        };
        self.streams.values().map(kept).max().unwrap_or(0)
    }

    pub(super) fn has_data(&self) -> bool {
        !self.closed && self.streams.values().any(Stream::has_work)
    }

    /// Gives the transport at most `budget` bytes, and everything that is no data.
    pub(super) fn pump(
        &mut self,
        monotonic_ns: u64,
        budget: &mut usize,
        streams: &mut dyn Streams,
    ) {
        if let Some(code) = self.close.take()
            && !self.closed
        {
            self.over();
            streams.close_with(code);
        }
        if self.closed {
            return;
        }
        for (&id, stream) in &mut self.streams {
            if let Some(code) = stream.stop.take()
                && !stream.fin
                && !stream.cut
            {
                stream.cut = true;
                stream.ready.clear();
                streams.stop_with(id, code);
            }
            if let Some(code) = stream.reset.take()
                && !stream.sent
            {
                stream.sent = true;
                stream.queue.clear();
                stream.queued = 0;
                streams.reset_with(id, code);
                self.done.extend(stream.record.take());
            }
        }
        self.write(monotonic_ns, budget, streams);
        self.streams.retain(|_, stream| !stream.is_over());
    }

    /// Streams of our own first, then requests in turn.
    fn write(&mut self, monotonic_ns: u64, budget: &mut usize, streams: &mut dyn Streams) {
        let working: Vec<u64> = self
            .streams
            .iter()
            .filter(|(_, stream)| stream.has_work())
            .map(|(&id, _)| id)
            .collect();
        let (mut own, mut requests): (Vec<u64>, Vec<u64>) =
            working.into_iter().partition(|&id| is_uni(id));
        own.retain(|&id| self.write_one(id, monotonic_ns, &mut usize::MAX.clone(), streams));
        let from = requests.partition_point(|&id| id <= self.turn);
        requests.rotate_left(from);
        while !requests.is_empty() {
            requests.retain(|&id| {
                let mut most = TURN.min(*budget);
                let before = most;
                let more = self.write_one(id, monotonic_ns, &mut most, streams);
                *budget -= before - most;
                if before > most {
                    self.turn = id;
                }
                more
            });
            if *budget == 0 {
                break;
            }
        }
    }

    /// Writes at most `most` bytes of a stream; whether it would take more at once.
    fn write_one(
        &mut self,
        id: u64,
        monotonic_ns: u64,
        most: &mut usize,
        streams: &mut dyn Streams,
    ) -> bool {
        let Some(stream) = self.streams.get_mut(&id) else { return false };
        let mut blocked = false;
        while *most > 0
            && !blocked
            && let Some(mut data) = stream.queue.pop_front()
        {
            let part = data.split_to(data.len().min(*most));
            let wanted = part.len();
            let taken = streams.write(id, part.clone());
            if taken > 0
                && let Some(record) = &mut stream.record
            {
                record.first_byte_ns.get_or_insert(monotonic_ns);
            }
            stream.queued -= taken;
            *most -= taken;
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
        if stream.queued <= LOW
            && let Some(writer) = stream.writer.take()
        {
            writer.wake();
        }
        !blocked && stream.queued > 0
    }
}

/// A connection's state, shared.
#[derive(Clone, Default)]
pub(super) struct Shared(Arc<Mutex<State>>);

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
