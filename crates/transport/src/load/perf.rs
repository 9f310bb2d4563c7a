//! The perf protocol of picoquic's quic-perf and pico-perf (draft-banks-quic-performance has the
//! same idea): the first 8 bytes of a client's stream, big-endian, say how many bytes the server
//! is to send back once the client's FIN has come.
//!
//! Time mode: one side sends for a given time. Downwards the client asks for more than any run can
//! carry and stops the server (STOP_SENDING, RFC 9000 section 3.5) when the time is over.

use bytes::Bytes;
use units::{Direction, Span, Time};

use super::asking::{Answer, Head, Question};
use super::{AmountSpec, StreamReport, StreamSpec, zeros};
use crate::{App, AppEvent, ReadEnd, Received, Streams};

/// A response that outlasts every run: 2^62 - 1, the largest size of a stream.
const ENDLESS: u64 = (1 << 62) - 1;

/// Length of the response size at the head of a client's stream.
const HEADER: u64 = 8;

/// One stream as the client runs it.
#[derive(Debug)]
struct ClientStream {
    spec: StreamSpec,
    /// Index into the reports, once open.
    report: Option<usize>,
    received: Received,
    /// Bytes still to write; none: until the deadline.
    left: Option<u64>,
    /// When sending (time mode up) or receiving (time mode down) ends.
    deadline: Time,
    sending: bool,
    done: bool,
    /// The head of the response, until it is known what it says.
    head: Option<Head>,
}

/// The client: opens the streams of its list, each when the one it waits for has ended, and closes
/// the connection after the last.
#[derive(Debug)]
pub struct PerfClient {
    streams: Vec<ClientStream>,
    reports: Vec<StreamReport>,
    /// Turn of the next writer, so that streams of equal priority are served round robin.
    turn: usize,
    ready: bool,
    closed: bool,
    /// What the server is told and asked.
    question: Bytes,
    answer: Option<Answer>,
}

impl PerfClient {
    /// A client that will run `streams`.
    pub fn new(streams: &[StreamSpec]) -> PerfClient {
        let streams = streams
            .iter()
            .map(|spec| ClientStream {
                spec: spec.clone(),
                report: None,
                received: Received::default(),
                left: None,
                deadline: Time::MAX,
                sending: false,
                done: false,
                head: None,
            })
            .collect();
        PerfClient {
            streams,
            reports: Vec::new(),
            turn: 0,
            ready: false,
            closed: false,
            question: Bytes::new(),
            answer: None,
        }
    }

    /// The same, and tells and asks the server of controllers: in the upload, which becomes longer where it is
    /// shorter than that and a response is to come.
    pub fn asking(streams: &[StreamSpec], question: &Question) -> PerfClient {
        PerfClient { question: question.encode(), ..PerfClient::new(streams) }
    }

    /// Bytes of requests so far: what a client sends that only receives.
    pub fn request_bytes(question: Option<&Question>) -> u64 {
        HEADER + question.map_or(0, |question| question.encode().len() as u64)
    }

    fn is_done(&self, id: u64) -> bool {
        self.streams.iter().any(|stream| stream.spec.stream_id == id && stream.done)
    }

    /// Opens every stream whose turn has come.
    fn open_due(&mut self, now: Time, streams: &mut dyn Streams) {
        for index in 0..self.streams.len() {
            let spec = &self.streams[index].spec;
            let waits = spec.after.is_some_and(|id| !self.is_done(id));
            if self.streams[index].report.is_some() || waits {
                continue;
            }
            let Some(id) = streams.open() else { return };
            let report = self.reports.len();
            let stream = &mut self.streams[index];
            // The stack numbers streams in the order of opening, which the list need not follow.
            let label = stream.spec.stream_id;
            let mode = match stream.spec.amount {
                AmountSpec::Data { .. } => "data",
                AmountSpec::Time { .. } => "time",
            };
            self.reports.push(StreamReport { label, mode, ..StreamReport::new(id, now) });
            stream.report = Some(report);
            let response = match stream.spec.amount {
                AmountSpec::Data { up_bytes, down_bytes } => {
                    stream.left = Some(up_bytes);
                    down_bytes
                }
                AmountSpec::Time { duration_ns, send: Direction::Up } => {
                    stream.deadline = now + Span(duration_ns);
                    0
                }
                AmountSpec::Time { duration_ns, send: Direction::Down } => {
                    stream.deadline = now + Span(duration_ns);
                    stream.left = Some(HEADER);
                    ENDLESS
                }
            };
            stream.sending = true;
            let length = stream.left.unwrap_or(HEADER).min(HEADER) as usize;
            let mut head = response.to_be_bytes()[..length].to_vec();
            let asked = HEADER + self.question.len() as u64;
            let fits = stream.left.is_none_or(|left| left >= asked);
            if !self.question.is_empty() && length as u64 == HEADER && (fits || response > 0) {
                head.extend_from_slice(&self.question);
                stream.left = stream.left.map(|left| left.max(asked));
            }
            // A refusal of the transport comes unasked, and of an upload too.
            stream.head = Some(Head::default());
            let head = Bytes::from(head);
            let written = streams.write(id, head) as u64;
            stream.left = stream.left.map(|left| left - written);
            self.reports[report].written += written;
            self.finish_if_written(now, index, streams);
        }
    }

    fn finish_if_written(&mut self, now: Time, index: usize, streams: &mut dyn Streams) {
        let stream = &mut self.streams[index];
        let Some(report) = stream.report else { return };
        let upwards = !matches!(stream.spec.amount, AmountSpec::Time { send: Direction::Down, .. });
        let over = stream.left == Some(0) || (upwards && now >= stream.deadline);
        if stream.sending && over {
            stream.sending = false;
            self.reports[report].finished = Some(now);
            streams.finish(self.reports[report].id);
        }
    }

    fn write(&mut self, now: Time, streams: &mut dyn Streams) {
        let share = streams.appetite() as u64;
        let count = self.streams.len();
        for step in 0..count {
            let index = (self.turn + step) % count;
            let stream = &mut self.streams[index];
            let (true, Some(report)) = (stream.sending, stream.report) else { continue };
            if now < stream.deadline || stream.left.is_some() {
                let want = stream.left.unwrap_or(u64::MAX).min(share);
                let written = streams.write(self.reports[report].id, zeros(want)) as u64;
                stream.left = stream.left.map(|left| left - written);
                self.reports[report].written += written;
            }
            self.finish_if_written(now, index, streams);
        }
        self.turn = (self.turn + 1) % count.max(1);
    }

    fn read(&mut self, now: Time, id: u64, streams: &mut dyn Streams) {
        let reports = &self.reports;
        let Some(stream) = self
            .streams
            .iter_mut()
            .find(|stream| stream.report.is_some_and(|report| reports[report].id == id))
        else {
            return;
        };
        let (received, head) = (&mut stream.received, &mut stream.head);
        let end = streams.read(id, &mut |offset, data| {
            received.insert(offset, offset + data.len() as u64);
            if let Some(head) = head {
                head.take(0, offset, data);
            }
        });
        if let Some(known) =
            head.as_ref().and_then(|head| head.answer(received.in_order(), end != ReadEnd::Open))
        {
            *head = None;
            let refused = known.as_ref().is_some_and(|answer| answer.refused.is_some());
            if refused || self.answer.is_none() {
                self.answer = known;
            }
            if refused {
                self.closed = true;
                streams.close_now();
            }
        }
        let report = &mut self.reports[stream.report.unwrap_or_default()];
        report.update(now, received);
        if end == ReadEnd::Finished {
            report.fin.get_or_insert(now);
        }
        if end != ReadEnd::Open && !stream.done {
            stream.done = true;
            self.open_due(now, streams);
            self.close_if_done(streams);
        }
    }

    fn close_if_done(&mut self, streams: &mut dyn Streams) {
        if !self.closed && self.streams.iter().all(|stream| stream.done) {
            self.closed = true;
            streams.close();
        }
    }
}

impl App for PerfClient {
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        match event {
            AppEvent::Ready => {
                self.ready = true;
                self.open_due(now, streams);
            }
            AppEvent::WantData => self.write(now, streams),
            AppEvent::Readable(id) => self.read(now, id, streams),
            AppEvent::Timer => {
                for index in 0..self.streams.len() {
                    self.finish_if_written(now, index, streams);
                    let stream = &mut self.streams[index];
                    if now >= stream.deadline {
                        let down = matches!(
                            stream.spec.amount,
                            AmountSpec::Time { send: Direction::Down, .. }
                        );
                        stream.deadline = Time::MAX;
                        if let (true, Some(report)) = (down, stream.report) {
                            let id = self.reports[report].id;
                            self.reports[report].fin.get_or_insert(now);
                            self.streams[index].done = true;
                            streams.stop(id);
                        }
                    }
                }
                self.open_due(now, streams);
                self.close_if_done(streams);
            }
            AppEvent::Opened(_)
            | AppEvent::Finished(_)
            | AppEvent::Stopped(_)
            | AppEvent::Datagrams
            | AppEvent::Closed => {}
        }
    }

    fn wake_at(&self) -> Time {
        if !self.ready || self.closed {
            return Time::MAX;
        }
        let open = self.streams.iter().filter(|stream| !stream.done);
        open.map(|stream| stream.deadline).min().unwrap_or(Time::MAX)
    }

    fn has_data(&self) -> bool {
        self.streams.iter().any(|stream| stream.sending)
    }

    fn streams(&self) -> &[StreamReport] {
        &self.reports
    }

    fn told(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }
}

/// One stream as the server sees it.
#[derive(Debug, Default)]
struct ServerStream {
    received: Received,
    header: [u8; HEADER as usize],
    /// Bytes still to send, once the client's FIN has come.
    left: u64,
    sending: bool,
    /// What stands behind the header, until it is known what it says.
    head: Option<Head>,
    question: Option<Question>,
    /// Bytes that are no upload.
    request: u64,
    /// What goes before the response's other bytes.
    answer: Bytes,
}

/// The server: answers every stream with as many bytes as its head asks for.
#[derive(Debug, Default)]
pub struct PerfServer {
    streams: Vec<ServerStream>,
    reports: Vec<StreamReport>,
    turn: usize,
    listens: bool,
    peer: Option<Answer>,
    /// Every stream has this answer and no other.
    refusal: Option<Answer>,
}

impl PerfServer {
    /// A server that does what clients ask for of its controller, as far as its transport does.
    pub fn listening() -> PerfServer {
        PerfServer { listens: true, ..PerfServer::default() }
    }

    /// A server that takes nothing over its transport, for this reason.
    pub fn refusing(why: &str) -> PerfServer {
        PerfServer { refusal: Some(Answer::refusal_of_transport(why)), ..PerfServer::default() }
    }

    fn index(&mut self, now: Time, id: u64) -> usize {
        if let Some(index) = self.reports.iter().position(|report| report.id == id) {
            return index;
        }
        // Most connections have one.
        self.reports.reserve_exact(usize::from(self.reports.is_empty()));
        self.streams.reserve_exact(usize::from(self.streams.is_empty()));
        self.reports.push(StreamReport::new(id, now));
        let head = self.listens.then(Head::default);
        self.streams.push(ServerStream { head, ..ServerStream::default() });
        self.reports.len() - 1
    }

    fn read(&mut self, now: Time, id: u64, streams: &mut dyn Streams) {
        let index = self.index(now, id);
        let stream = &mut self.streams[index];
        let (received, header) = (&mut stream.received, &mut stream.header);
        let head = &mut stream.head;
        let end = streams.read(id, &mut |offset, data| {
            received.insert(offset, offset + data.len() as u64);
            for (place, byte) in (offset..HEADER).zip(data) {
                header[place as usize] = *byte;
            }
            if let Some(head) = head {
                head.take(HEADER, offset, data);
            }
        });
        let there = received.in_order().saturating_sub(HEADER);
        let known = head.as_ref().and_then(|head| head.question(there, end != ReadEnd::Open));
        if let Some(question) = known {
            *head = None;
            stream.request = PerfClient::request_bytes(question.as_ref());
            stream.question = question;
        }
        // Who only asks sends nothing that a controller has a part in.
        if self.peer.is_none()
            && received.total() > stream.request
            && let Some(Question { own: own @ Some(_), .. }) = &stream.question
        {
            self.peer = Some(Answer { own: own.clone(), ..Answer::default() });
        }
        let report = &mut self.reports[index];
        report.update(now, received);
        if let Some(refusal) = &self.refusal {
            if !stream.sending && report.finished.is_none() {
                stream.answer = refusal.encode();
                stream.left = stream.answer.len() as u64;
                stream.sending = true;
            }
            return;
        }
        if end == ReadEnd::Finished && report.fin.is_none() {
            report.fin = Some(now);
            // Fewer than 8 bytes before FIN: no response size, hence no response.
            if received.in_order() >= HEADER {
                stream.left = u64::from_be_bytes(stream.header);
            }
            if let (Some(question), true) = (stream.question.take(), stream.left > 0) {
                let done = streams.controller(question.wish.as_ref());
                let (own, refused) = done.map_or_else(|why| (None, Some(why)), |own| (own, None));
                let answer = Answer { own, refused, ..Answer::default() };
                let line = answer.encode();
                if answer.refused.is_some() {
                    stream.left = line.len() as u64;
                }
                // A response that is shorter says nothing.
                if line.len() as u64 <= stream.left {
                    stream.answer = line;
                }
            }
            stream.sending = true;
            self.advance(now, index, 0, streams);
        }
    }

    fn advance(&mut self, now: Time, index: usize, most: u64, streams: &mut dyn Streams) {
        let (stream, report) = (&mut self.streams[index], &mut self.reports[index]);
        if !stream.sending {
            return;
        }
        let want = stream.left.min(most);
        if want > 0 {
            let line = stream.answer.len().min(want as usize);
            let data = if line > 0 { stream.answer.slice(..line) } else { zeros(want) };
            let mut written = streams.write(report.id, data) as u64;
            let _ = stream.answer.split_to(line.min(written as usize));
            if line > 0 && written as usize == line && want > written {
                written += streams.write(report.id, zeros(want - written)) as u64;
            }
            stream.left -= written;
            report.written += written;
        }
        if stream.left == 0 {
            stream.sending = false;
            report.finished = Some(now);
            streams.finish(report.id);
        }
    }
}

impl App for PerfServer {
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        match event {
            AppEvent::Opened(id) | AppEvent::Readable(id) => self.read(now, id, streams),
            AppEvent::WantData => {
                let share = streams.appetite() as u64;
                for step in 0..self.streams.len() {
                    self.advance(now, (self.turn + step) % self.streams.len(), share, streams);
                }
                self.turn += 1;
            }
            AppEvent::Stopped(id) => {
                let index = self.index(now, id);
                if std::mem::take(&mut self.streams[index].sending) {
                    self.reports[index].finished = Some(now);
                    streams.reset(id);
                }
            }
            AppEvent::Ready
            | AppEvent::Finished(_)
            | AppEvent::Datagrams
            | AppEvent::Timer
            | AppEvent::Closed => {}
        }
    }

    fn wake_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        self.streams.iter().any(|stream| stream.sending)
    }

    fn streams(&self) -> &[StreamReport] {
        &self.reports
    }

    fn told(&self) -> Option<&Answer> {
        self.peer.as_ref()
    }
}
