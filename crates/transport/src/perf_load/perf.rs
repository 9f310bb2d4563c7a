//! The perf protocol of picoquic's quic-perf and pico-perf (draft-banks-quic-performance has the same idea). The first
//! 8 bytes of a client's stream, big-endian, are the response size. The server sends that number of bytes after the
//! client's FIN.
//!
//! Time mode: one side sends for a given time. Downwards, the client requests more data than any run can carry. At the
//! end it stops the server (STOP_SENDING, RFC 9000 section 3.5).

use bytes::Bytes;
use units::{Direction, Span, Time};

use super::controller_negotiation::{ControllerRequest, ControllerResponse, NegotiationParser};
use super::{AmountSpec, StreamReport, StreamSpec, zeros};
use crate::{App, AppEvent, ReadStatus, ReceivedRanges, Streams};

/// A response longer than every run: 2^62 - 1, the largest size of a stream.
const ENDLESS: u64 = (1 << 62) - 1;

/// Length of the response size at the start of a client's stream.
const HEADER: u64 = 8;

/// One stream of the client.
#[derive(Debug)]
struct ClientStream {
    spec: StreamSpec,
    /// Index into the reports, once open.
    report: Option<usize>,
    received: ReceivedRanges,
    /// Bytes left to write; `None`: until the deadline.
    remaining: Option<u64>,
    /// End of sending (time mode up) or receiving (time mode down).
    deadline: Time,
    sending: bool,
    done: bool,
    /// The parser of the response's start, until it is decided.
    negotiation: Option<NegotiationParser>,
}

/// The client of the perf protocol. It opens each stream after the end of its predecessor, and closes the connection
/// after the last.
#[derive(Debug)]
pub struct PerfClient {
    streams: Vec<ClientStream>,
    reports: Vec<StreamReport>,
    /// Index of the next writer: streams of equal priority are served round robin.
    next_writer: usize,
    ready: bool,
    closed: bool,
    /// The controller request for the server.
    request: Bytes,
    response: Option<ControllerResponse>,
}

impl PerfClient {
    /// Creates a client that runs `streams`.
    pub fn new(streams: &[StreamSpec]) -> PerfClient {
        let streams = streams
            .iter()
            .map(|spec| ClientStream {
                spec: spec.clone(),
                report: None,
                received: ReceivedRanges::default(),
                remaining: None,
                deadline: Time::MAX,
                sending: false,
                done: false,
                negotiation: None,
            })
            .collect();
        PerfClient {
            streams,
            reports: Vec::new(),
            next_writer: 0,
            ready: false,
            closed: false,
            request: Bytes::new(),
            response: None,
        }
    }

    /// Creates a client that also sends a controller request in its uploads. A shorter upload becomes longer if a
    /// response follows.
    pub fn with_request(streams: &[StreamSpec], request: &ControllerRequest) -> PerfClient {
        PerfClient { request: request.encode(), ..PerfClient::new(streams) }
    }

    /// Returns the bytes of a request: all that a download-only client sends.
    pub fn request_bytes(question: Option<&ControllerRequest>) -> u64 {
        HEADER + question.map_or(0, |question| question.encode().len() as u64)
    }

    fn is_done(&self, id: u64) -> bool {
        self.streams.iter().any(|stream| stream.spec.stream_id == id && stream.done)
    }

    /// Opens every stream that is due.
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
            // The stack numbers streams in the order of opening, which can differ from the list.
            let label = stream.spec.stream_id;
            let mode = match stream.spec.amount {
                AmountSpec::Data { .. } => "data",
                AmountSpec::Time { .. } => "time",
            };
            self.reports.push(StreamReport { label, mode, ..StreamReport::new(id, now) });
            stream.report = Some(report);
            let response = match stream.spec.amount {
                AmountSpec::Data { up_bytes, down_bytes } => {
                    stream.remaining = Some(up_bytes);
                    down_bytes
                }
                AmountSpec::Time { duration_ns, direction: Direction::Up } => {
                    stream.deadline = now + Span(duration_ns);
                    0
                }
                AmountSpec::Time { duration_ns, direction: Direction::Down } => {
                    stream.deadline = now + Span(duration_ns);
                    stream.remaining = Some(HEADER);
                    ENDLESS
                }
            };
            stream.sending = true;
            let length = stream.remaining.unwrap_or(HEADER).min(HEADER) as usize;
            let mut head = response.to_be_bytes()[..length].to_vec();
            let request_end = HEADER + self.request.len() as u64;
            let fits = stream.remaining.is_none_or(|left| left >= request_end);
            if !self.request.is_empty() && length as u64 == HEADER && (fits || response > 0) {
                head.extend_from_slice(&self.request);
                stream.remaining = stream.remaining.map(|left| left.max(request_end));
            }
            // A refusal of the transport comes without a request, also for an upload.
            stream.negotiation = Some(NegotiationParser::default());
            let head = Bytes::from(head);
            let written = streams.write(id, head) as u64;
            stream.remaining = stream.remaining.map(|left| left - written);
            self.reports[report].written += written;
            self.finish_if_written(now, index, streams);
        }
    }

    fn finish_if_written(&mut self, now: Time, index: usize, streams: &mut dyn Streams) {
        let stream = &mut self.streams[index];
        let Some(report) = stream.report else { return };
        let upwards =
            !matches!(stream.spec.amount, AmountSpec::Time { direction: Direction::Down, .. });
        let over = stream.remaining == Some(0) || (upwards && now >= stream.deadline);
        if stream.sending && over {
            stream.sending = false;
            self.reports[report].finished = Some(now);
            streams.finish(self.reports[report].id);
        }
    }

    fn write(&mut self, now: Time, streams: &mut dyn Streams) {
        let share = streams.write_budget() as u64;
        let count = self.streams.len();
        for step in 0..count {
            let index = (self.next_writer + step) % count;
            let stream = &mut self.streams[index];
            let (true, Some(report)) = (stream.sending, stream.report) else { continue };
            if now < stream.deadline || stream.remaining.is_some() {
                let want = stream.remaining.unwrap_or(u64::MAX).min(share);
                let written = streams.write(self.reports[report].id, zeros(want)) as u64;
                stream.remaining = stream.remaining.map(|left| left - written);
                self.reports[report].written += written;
            }
            self.finish_if_written(now, index, streams);
        }
        self.next_writer = (self.next_writer + 1) % count.max(1);
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
        let (received, head) = (&mut stream.received, &mut stream.negotiation);
        let end = streams.read(id, &mut |offset, data| {
            received.insert(offset, offset + data.len() as u64);
            if let Some(head) = head {
                head.take(0, offset, data);
            }
        });
        if let Some(known) = head
            .as_ref()
            .and_then(|head| head.response(received.in_order(), end != ReadStatus::Open))
        {
            *head = None;
            let refused = known.as_ref().is_some_and(|answer| answer.refusal_reason.is_some());
            if refused || self.response.is_none() {
                self.response = known;
            }
            if refused {
                self.closed = true;
                streams.close_now();
            }
        }
        let report = &mut self.reports[stream.report.unwrap_or_default()];
        report.update(now, received);
        if end == ReadStatus::Finished {
            report.fin.get_or_insert(now);
        }
        if end != ReadStatus::Open && !stream.done {
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
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        match event {
            AppEvent::Ready => {
                self.ready = true;
                self.open_due(now, streams);
            }
            AppEvent::Writable => self.write(now, streams),
            AppEvent::Readable(id) => self.read(now, id, streams),
            AppEvent::Timer => {
                for index in 0..self.streams.len() {
                    self.finish_if_written(now, index, streams);
                    let stream = &mut self.streams[index];
                    if now >= stream.deadline {
                        let down = matches!(
                            stream.spec.amount,
                            AmountSpec::Time { direction: Direction::Down, .. }
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
            AppEvent::StreamOpened(_)
            | AppEvent::Finished(_)
            | AppEvent::Stopped(_)
            | AppEvent::DatagramsReceived
            | AppEvent::Closed => {}
        }
    }

    fn poll_at(&self) -> Time {
        if !self.ready || self.closed {
            return Time::MAX;
        }
        let open = self.streams.iter().filter(|stream| !stream.done);
        open.map(|stream| stream.deadline).min().unwrap_or(Time::MAX)
    }

    fn has_data(&self) -> bool {
        self.streams.iter().any(|stream| stream.sending)
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &self.reports
    }

    fn peer_controller(&self) -> Option<&ControllerResponse> {
        self.response.as_ref()
    }
}

/// One stream of the server.
#[derive(Debug, Default)]
struct ServerStream {
    received: ReceivedRanges,
    header: [u8; HEADER as usize],
    /// Bytes left to send after the client's FIN.
    remaining: u64,
    sending: bool,
    /// The parser of the bytes after the header, until it is decided.
    negotiation: Option<NegotiationParser>,
    request: Option<ControllerRequest>,
    /// Bytes before the upload.
    request_bytes: u64,
    /// Bytes at the start of the response.
    response: Bytes,
}

/// The server of the perf protocol: it answers every stream with the requested number of bytes.
#[derive(Debug, Default)]
pub struct PerfServer {
    streams: Vec<ServerStream>,
    reports: Vec<StreamReport>,
    next_writer: usize,
    negotiates: bool,
    peer_controller: Option<ControllerResponse>,
    /// The answer to every stream of a refusing server.
    refusal: Option<ControllerResponse>,
}

impl PerfServer {
    /// Creates a server that installs requested controllers, if its transport supports this.
    pub fn negotiating() -> PerfServer {
        PerfServer { negotiates: true, ..PerfServer::default() }
    }

    /// Creates a server that refuses all traffic over its transport, for this reason.
    pub fn refusing(reason: &str) -> PerfServer {
        PerfServer {
            refusal: Some(ControllerResponse::transport_refusal(reason)),
            ..PerfServer::default()
        }
    }

    fn index(&mut self, now: Time, id: u64) -> usize {
        if let Some(index) = self.reports.iter().position(|report| report.id == id) {
            return index;
        }
        // Most connections have one stream.
        self.reports.reserve_exact(usize::from(self.reports.is_empty()));
        self.streams.reserve_exact(usize::from(self.streams.is_empty()));
        self.reports.push(StreamReport::new(id, now));
        let head = self.negotiates.then(NegotiationParser::default);
        self.streams.push(ServerStream { negotiation: head, ..ServerStream::default() });
        self.reports.len() - 1
    }

    fn read(&mut self, now: Time, id: u64, streams: &mut dyn Streams) {
        let index = self.index(now, id);
        let stream = &mut self.streams[index];
        let (received, header) = (&mut stream.received, &mut stream.header);
        let head = &mut stream.negotiation;
        let end = streams.read(id, &mut |offset, data| {
            received.insert(offset, offset + data.len() as u64);
            for (position, byte) in (offset..HEADER).zip(data) {
                header[position as usize] = *byte;
            }
            if let Some(head) = head {
                head.take(HEADER, offset, data);
            }
        });
        let received_after_header = received.in_order().saturating_sub(HEADER);
        let known = head
            .as_ref()
            .and_then(|head| head.request(received_after_header, end != ReadStatus::Open));
        if let Some(request) = known {
            *head = None;
            stream.request_bytes = PerfClient::request_bytes(request.as_ref());
            stream.request = request;
        }
        // A client without an upload sends no data that its controller governs.
        if self.peer_controller.is_none()
            && received.total() > stream.request_bytes
            && let Some(ControllerRequest {
                client_controller: client_controller @ Some(_), ..
            }) = &stream.request
        {
            self.peer_controller = Some(ControllerResponse {
                controller: client_controller.clone(),
                ..ControllerResponse::default()
            });
        }
        let report = &mut self.reports[index];
        report.update(now, received);
        if let Some(refusal) = &self.refusal {
            if !stream.sending && report.finished.is_none() {
                stream.response = refusal.encode();
                stream.remaining = stream.response.len() as u64;
                stream.sending = true;
            }
            return;
        }
        if end == ReadStatus::Finished && report.fin.is_none() {
            report.fin = Some(now);
            // Fewer than 8 bytes before FIN: no response size, hence no response.
            if received.in_order() >= HEADER {
                stream.remaining = u64::from_be_bytes(stream.header);
            }
            if let (Some(question), true) = (stream.request.take(), stream.remaining > 0) {
                let done = streams.request_controller(question.requested.as_ref());
                let (controller, refusal_reason) =
                    done.map_or_else(|why| (None, Some(why)), |name| (name, None));
                let response = ControllerResponse {
                    controller,
                    refusal_reason,
                    ..ControllerResponse::default()
                };
                let line = response.encode();
                if response.refusal_reason.is_some() {
                    stream.remaining = line.len() as u64;
                }
                // A shorter response carries no line.
                if line.len() as u64 <= stream.remaining {
                    stream.response = line;
                }
            }
            stream.sending = true;
            self.advance(now, index, 0, streams);
        }
    }

    fn advance(&mut self, now: Time, index: usize, max_bytes: u64, streams: &mut dyn Streams) {
        let (stream, report) = (&mut self.streams[index], &mut self.reports[index]);
        if !stream.sending {
            return;
        }
        let want = stream.remaining.min(max_bytes);
        if want > 0 {
            let line = stream.response.len().min(want as usize);
            let data = if line > 0 { stream.response.slice(..line) } else { zeros(want) };
            let mut written = streams.write(report.id, data) as u64;
            let _ = stream.response.split_to(line.min(written as usize));
            if line > 0 && written as usize == line && want > written {
                written += streams.write(report.id, zeros(want - written)) as u64;
            }
            stream.remaining -= written;
            report.written += written;
        }
        if stream.remaining == 0 {
            stream.sending = false;
            report.finished = Some(now);
            streams.finish(report.id);
        }
    }
}

impl App for PerfServer {
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        match event {
            AppEvent::StreamOpened(id) | AppEvent::Readable(id) => self.read(now, id, streams),
            AppEvent::Writable => {
                let share = streams.write_budget() as u64;
                for step in 0..self.streams.len() {
                    self.advance(
                        now,
                        (self.next_writer + step) % self.streams.len(),
                        share,
                        streams,
                    );
                }
                self.next_writer += 1;
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
            | AppEvent::DatagramsReceived
            | AppEvent::Timer
            | AppEvent::Closed => {}
        }
    }

    fn poll_at(&self) -> Time {
        Time::MAX
    }

    fn has_data(&self) -> bool {
        self.streams.iter().any(|stream| stream.sending)
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &self.reports
    }

    /// A client stops an endless response of TCP with a reset.
    fn expects_reset(&self) -> bool {
        self.streams.iter().any(|stream| u64::from_be_bytes(stream.header) >= ENDLESS)
    }

    fn peer_controller(&self) -> Option<&ControllerResponse> {
        self.peer_controller.as_ref()
    }
}
