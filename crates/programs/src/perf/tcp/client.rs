//! The measuring client over TCP: one connection per stream of the load.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::epoll::EpollFlags;
use runtime::tcp::{ByteStream, TcpInfoLayout};
use runtime::tls::{self, Fingerprint, PresentedCertificate};
use runtime::{Clock, Poller, sleep_until_ready};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};
use transport::StreamSpec;
use transport::perf_load::{AmountSpec, ControllerRequest, PerfClient, StreamReport};
use transport::quic::CloseReason;
use units::{Span, Time, TimerQueue};

use super::PerfTcpOptions;
use super::connection::{PerfTcpConnection, TLS_RECORD};
use crate::ProgramError;
use crate::perf::frames::FrameWriter;
use crate::perf::peer::{describe_certificate, pin_mismatch, resolve_host, server_verification};
use crate::perf::report::{ConnectionSample, ReportScope};
use crate::perf::summary::{SummaryInput, cpu_seconds};
use crate::perf::{PerfClientPlan, PerfSummary, PerfTransport, Reporter, SenderReport};

/// The interval of checks for a stop.
const POLL_INTERVAL: Span = Span(10_000_000);

/// The length of the read buffer in bytes.
const READ_BUFFER_BYTES: usize = 256 << 10;

/// A connection and its poll flags.
struct ClientEntry {
    connection: PerfTcpConnection,
    registered_flags: Option<EpollFlags>,
    /// The handshake was reported.
    is_announced: bool,
    /// The close was reported.
    is_reported: bool,
}

/// A client, ready to connect.
pub struct TcpMeasuringClient {
    plan: PerfClientPlan,
    remote: SocketAddr,
    options: PerfTcpOptions,
    controller_request: Option<ControllerRequest>,
    info_layout: TcpInfoLayout,
    tls: Option<Arc<ClientConfig>>,
    presented: PresentedCertificate,
    pinned: Option<Fingerprint>,
    clock: Clock,
    poller: Poller,
    /// Connections by index in the load, `None` before their start.
    entries: Vec<Option<ClientEntry>>,
    timers: TimerQueue,
    /// Connections that have changed since the last report.
    changed: BTreeSet<usize>,
    /// The number of closed connections.
    closed_count: usize,
    /// Load indices that can start, and those that wait for the end of a stream.
    due: Vec<usize>,
    dependents: BTreeMap<u64, Vec<usize>>,
    scratch: Vec<u8>,
}

impl TcpMeasuringClient {
    /// Resolves the server's address and validates the options.
    ///
    /// # Errors
    /// The defect of the plan.
    pub fn start(plan: PerfClientPlan) -> Result<TcpMeasuringClient, ProgramError> {
        let options = PerfTcpOptions::new(&plan.tcp, &plan.congestion)?;
        let question = plan.build_controller_request(options.congestion())?;
        let kernel = TcpInfoLayout::detect().map_err(ProgramError::Input)?;
        for stream in &plan.load {
            check_size(stream)?;
        }
        let remote = resolve_host(&plan.host, plan.port)?;
        let (mut config, mut shown, mut pinned) = (None, PresentedCertificate::default(), None);
        if plan.transport == PerfTransport::Tls {
            let (trust, wanted) = server_verification(&plan, remote)?;
            let (made, certificate) =
                tls::client_config(&plan.alpn, trust).map_err(ProgramError::Input)?;
            (config, shown, pinned) = (Some(Arc::new(made)), certificate, wanted);
        }
        let slots = plan.load.iter().map(|_| None).collect();
        let (mut next, mut waiting) = (Vec::new(), BTreeMap::<u64, Vec<usize>>::new());
        for (index, stream) in plan.load.iter().enumerate() {
            match stream.after {
                None => next.push(index),
                Some(id) => waiting.entry(id).or_default().push(index),
            }
        }
        Ok(TcpMeasuringClient {
            plan,
            remote,
            options,
            controller_request: question,
            info_layout: kernel,
            tls: config,
            presented: shown,
            pinned,
            clock: Clock::start(),
            poller: Poller::new()?,
            entries: slots,
            timers: TimerQueue::default(),
            changed: BTreeSet::new(),
            closed_count: 0,
            due: next,
            dependents: waiting,
            scratch: vec![0; READ_BUFFER_BYTES],
        })
    }

    /// Runs the load. Returns whether it was stopped before its end.
    ///
    /// # Errors
    /// The reason why the result is missing or incomplete.
    pub fn run(mut self, stop: &AtomicBool, screen: Box<dyn Write>) -> Result<bool, ProgramError> {
        let mut reporter = Reporter::new(&self.plan.report, screen, false)?;
        let mut frames = FrameWriter::new(self.plan.report.frames.as_ref(), self.clock)?;
        let cpu = cpu_seconds();
        let began = self.clock.now();
        let (name, kernel) = (&self.plan.congestion.name, Some(self.options.congestion()));
        frames.write_begin(began, "client", self.plan.transport.name(), name, kernel)?;
        let done = self.measure(began, stop, &mut reporter, &mut frames, cpu);
        let end = match &done {
            Ok(false) => "done".to_owned(),
            Ok(true) => "interrupted".to_owned(),
            Err(failure) => format!("failed: {failure}"),
        };
        frames.write_end(&end, cpu_seconds() - cpu);
        if frames.is_incomplete() || reporter.is_incomplete() {
            done.and(Err(ProgramError::IncompleteResults))
        } else {
            done
        }
    }

    fn measure(
        &mut self,
        began: Time,
        stop: &AtomicBool,
        reporter: &mut Reporter,
        frames: &mut FrameWriter,
        cpu: f64,
    ) -> Result<bool, ProgramError> {
        self.connect_due(began)?;
        let mut greeted = false;
        let (lost, stopped) = loop {
            let now = self.clock.now();
            let worked = std::mem::take(&mut self.changed);
            self.report_connected(&worked, now, began, &mut greeted, reporter, frames)?;
            if greeted && reporter.is_due(now) {
                self.update_reports();
                reporter.write_due(now, &[self.report_scope(began)])?;
            }
            if frames.is_due(now) {
                self.update_reports();
                for (number, slot) in self.open_entries() {
                    let connection = &slot.connection;
                    if connection.connected_at().is_some() {
                        frames.write_sample(
                            now,
                            number,
                            &connection.last_report(),
                            connection.stream_reports(),
                        );
                    }
                }
                frames.flush();
            }
            if let Some(lost) = self.report_closed(&worked, now, frames)? {
                break (Some(lost), false);
            }
            if self.closed_count == self.entries.len() {
                break (None, false);
            }
            if stop.load(Ordering::Relaxed) {
                break (None, true);
            }
            self.check_timeouts(&worked, now)?;
            let mut until = frames.poll_at().min(now + POLL_INTERVAL).min(self.timers.earliest().0);
            if greeted {
                until = until.min(reporter.poll_at());
            }
            self.poll_once(until)?;
        };
        let now = self.clock.now();
        if !greeted && !stopped {
            let why = lost.unwrap_or_else(|| "closed at once".to_owned());
            return Err(self.handshake_error(&why));
        }
        for index in 0..self.entries.len() {
            if let Some(slot) = &mut self.entries[index]
                && !slot.is_reported
            {
                slot.connection.abort(now);
                if !slot.is_announced {
                    continue;
                }
                let connection = &slot.connection;
                let (sender, streams) = (connection.last_report(), connection.stream_reports());
                frames.write_end_connection(
                    now,
                    index as u32,
                    None,
                    &sender,
                    streams,
                    connection.controllers(),
                );
            }
        }
        let mut refused =
            self.entries.iter().flatten().filter_map(|slot| slot.connection.refused_response());
        if let Some(answer) = refused.next() {
            return Err(self.plan.refusal_error(answer));
        }
        self.report_result(now, began, lost.as_deref(), stopped, reporter, cpu)?;
        match lost {
            Some(why) => Err(ProgramError::Run(self.describe_failure(&why))),
            None => Ok(stopped),
        }
    }

    fn report_result(
        &self,
        now: Time,
        began: Time,
        lost: Option<&str>,
        stopped: bool,
        reporter: &mut Reporter,
        cpu: f64,
    ) -> Result<(), ProgramError> {
        let view = self.report_scope(began);
        reporter.write_totals(now, &view)?;
        let first = self.entries.iter().flatten().find_map(|slot| slot.connection.connected_at());
        let end = lost.map_or(CloseReason::Local, |why| CloseReason::Lost(why.to_owned()));
        let streams: Vec<&StreamReport> =
            view.samples.iter().flat_map(|part| part.streams).collect();
        let alpn = self.entries.iter().flatten().find_map(|slot| slot.connection.alpn());
        let closing = SummaryInput {
            role: "client",
            peer: self.remote.to_string(),
            close_reason: (!stopped).then_some(&end),
            transport: self.plan.transport.name(),
            connections: self.entries.iter().flatten().count(),
            alpn: alpn.as_deref().unwrap_or_default(),
            controllers: view.controllers(),
            mtu: self.entries.iter().flatten().map(|slot| slot.connection.mss()).max().unwrap_or(0),
            handshake: first.map(|at| at.since(began)),
            sender: SenderReport::aggregate(view.samples.iter().map(|part| &part.sender)),
            streams,
            cpu_s: cpu_seconds() - cpu,
        };
        let summary = PerfSummary::new(now, &closing);
        reporter.print(&summary.to_string())?;
        if let Some(text) =
            self.plan.missing_response_note(summary.down_bytes, view.controllers().peer.is_some())
        {
            reporter.print(&text)?;
        }
        if reporter.is_json() {
            reporter
                .print_json(&serde_json::to_string_pretty(&summary).map_err(io::Error::from)?)?;
        }
        Ok(())
    }

    fn open_entries(&self) -> impl Iterator<Item = (u32, &ClientEntry)> {
        let numbered = self.entries.iter().enumerate();
        let opened = numbered.filter_map(|(index, slot)| Some((index as u32, slot.as_ref()?)));
        opened.filter(|(_, slot)| !slot.is_reported)
    }

    fn update_reports(&mut self) {
        for slot in self.entries.iter_mut().flatten().filter(|slot| !slot.is_reported) {
            slot.connection.update_report();
        }
    }

    fn report_scope(&self, began: Time) -> ReportScope<'_> {
        let slots = self.entries.iter().flatten();
        let part = |slot: &'_ ClientEntry| slot.connection.last_report();
        let parts = slots.map(|slot| ConnectionSample {
            streams: slot.connection.stream_reports(),
            sender: part(slot),
            controllers: slot.connection.controllers(),
        });
        ReportScope { connection: 0, samples: parts.collect(), started_at: began }
    }

    /// Opens the connections of due streams.
    fn connect_due(&mut self, now: Time) -> Result<(), ProgramError> {
        self.due.sort_unstable();
        for index in std::mem::take(&mut self.due) {
            let stream = &self.plan.load[index];
            let alone = [StreamSpec { after: None, ..stream.clone() }];
            let app = Box::new(match &self.controller_request {
                Some(question) => PerfClient::with_request(&alone, question),
                None => PerfClient::new(&alone),
            });
            let wire = match &self.tls {
                None => ByteStream::Plain,
                Some(config) => {
                    let name = ServerName::try_from(self.plan.host.clone())
                        .unwrap_or_else(|_| ServerName::IpAddress(self.remote.ip().into()));
                    let made = ClientConnection::new(config.clone(), name)
                        .map_err(|error| ProgramError::Input(error.to_string()))?;
                    ByteStream::TlsClient(Box::new(made))
                }
            };
            let idle = Span(self.plan.tcp.idle_timeout_ns);
            let socket = self.options.connect(self.remote)?;
            let mut connection = PerfTcpConnection::connect(
                now,
                socket,
                self.remote,
                wire,
                app,
                self.info_layout,
                idle,
            )?;
            connection
                .set_request_bytes(PerfClient::request_bytes(self.controller_request.as_ref()));
            let flags = connection.interest();
            if let Some(socket) = connection.socket() {
                self.poller.add(socket, index as u64, flags)?;
            }
            self.entries[index] = Some(ClientEntry {
                connection,
                registered_flags: Some(flags),
                is_announced: false,
                is_reported: false,
            });
            self.mark_changed(index);
        }
        Ok(())
    }

    /// Updates the timer of the connection at `index` and marks it as changed.
    fn mark_changed(&mut self, index: usize) {
        let Some(Some(slot)) = self.entries.get(index) else { return };
        let connection = &slot.connection;
        let waits = connection.closed().is_none() && connection.connected_at().is_none();
        let patience = Span(self.plan.timeout_ns);
        let answer = if waits { connection.started_at() + patience } else { Time::MAX };
        self.timers.set_deadline(index, connection.poll_at().min(answer));
        self.changed.insert(index);
    }

    /// Reports new connections.
    fn report_connected(
        &mut self,
        worked: &BTreeSet<usize>,
        now: Time,
        began: Time,
        greeted: &mut bool,
        reporter: &mut Reporter,
        frames: &mut FrameWriter,
    ) -> Result<(), ProgramError> {
        for &index in worked {
            let Some(slot) = &mut self.entries[index] else { continue };
            let Some(connected) = slot.connection.connected_at() else { continue };
            if std::mem::replace(&mut slot.is_announced, true) {
                continue;
            }
            slot.connection.update_report();
            let connection = &slot.connection;
            let opening = connection.connection_frame(index as u32, connected);
            frames.write_connection(now, &opening);
            if std::mem::replace(greeted, true) {
                continue;
            }
            reporter.start_intervals(now);
            let took = connected.since(began).millis();
            let over = match connection.alpn() {
                Some(alpn) => format!("TLS, ALPN {alpn}"),
                None => connection.transport().to_uppercase(),
            };
            let mut text = format!(
                "connected to {} in {took:.2} ms, {over}, UP with {}, mss {}",
                self.remote,
                self.options.congestion(),
                connection.mss()
            );
            if self.tls.is_some() {
                text += &format!(
                    "; {}",
                    describe_certificate(&self.plan.server_verification, &self.presented)
                );
            }
            reporter.print(&text)?;
        }
        Ok(())
    }

    /// Removes closed connections from the poller. Returns the reason if one was lost.
    fn report_closed(
        &mut self,
        worked: &BTreeSet<usize>,
        now: Time,
        frames: &mut FrameWriter,
    ) -> Result<Option<String>, ProgramError> {
        for &index in worked {
            let Some(slot) = &mut self.entries[index] else { continue };
            let Some((end, at)) = slot.connection.closed() else { continue };
            if std::mem::replace(&mut slot.is_reported, true) {
                continue;
            }
            self.closed_count += 1;
            let (sender, streams) =
                (slot.connection.last_report(), slot.connection.stream_reports());
            let end = match end {
                _ if slot.connection.refused_response().is_some() => {
                    CloseReason::Lost("refused a wish".to_owned())
                }
                CloseReason::Lost(_) => end.clone(),
                _ => describe_shortfall(&self.plan.load[index], streams)
                    .map_or(CloseReason::Local, CloseReason::Lost),
            };
            if slot.is_announced {
                let names = slot.connection.controllers();
                frames.write_end_connection(at, index as u32, Some(&end), &sender, streams, names);
            }
            if let CloseReason::Lost(why) = end {
                return Ok(Some(why));
            }
            // The kernel removes a closed socket from the poller.
            slot.registered_flags = None;
            slot.connection.release_socket();
            let id = self.plan.load[index].stream_id;
            self.due.extend(self.dependents.remove(&id).unwrap_or_default());
        }
        self.connect_due(now)?;
        Ok(None)
    }

    fn poll_once(&mut self, until: Time) -> Result<(), ProgramError> {
        let now = self.clock.now();
        if until > now {
            sleep_until_ready(&[(&self.poller, false)], until.since(now))?;
        }
        let ready = self.poller.poll_events()?;
        // After the events, and before any output of this poll.
        let now = self.clock.now();
        let mut due: Vec<u64> = Vec::new();
        while let Some(index) = self.timers.pop_due(now) {
            due.push(index as u64);
        }
        due.sort_unstable();
        due.retain(|number| ready.iter().all(|ready| ready.token != *number));
        let ready_count = ready.len();
        let numbers = ready.into_iter().map(|ready| (ready.token, ready.readable));
        let numbers = numbers.chain(due.into_iter().map(|number| (number, false)));
        for (at, (number, readable)) in numbers.enumerate() {
            let Some(Some(slot)) = self.entries.get_mut(number as usize) else { continue };
            if at < ready_count || slot.connection.run_at() <= now {
                slot.connection.run(now, readable, &mut self.scratch);
            } else {
                slot.connection.check(now);
            }
            let flags = slot.connection.interest();
            if let (None, Some(socket)) = (slot.connection.closed(), slot.connection.socket())
                && slot.registered_flags != Some(flags)
            {
                self.poller.modify(socket, number, flags)?;
                slot.registered_flags = Some(flags);
            }
            self.mark_changed(number as usize);
        }
        Ok(())
    }

    /// Fails when the handshake timeout of a connection has expired.
    fn check_timeouts(&self, worked: &BTreeSet<usize>, now: Time) -> Result<(), ProgramError> {
        let timeout = Span(self.plan.timeout_ns);
        for slot in worked.iter().filter_map(|index| self.entries[*index].as_ref()) {
            let connection = &slot.connection;
            if slot.is_reported
                || connection.connected_at().is_some()
                || now.since(connection.started_at()) < timeout
            {
                continue;
            }
            let asked = if connection.is_tcp_established() {
                "the port is open, but no answer to TLS came; does the server speak it there?"
            } else {
                "is the server running, and does TCP pass?"
            };
            let (remote, seconds) = (self.remote, timeout.seconds());
            return Err(ProgramError::Run(format!(
                "{remote}: no answer within {seconds} s; {asked}"
            )));
        }
        Ok(())
    }

    /// Converts a failed handshake to an error.
    fn handshake_error(&self, why: &str) -> ProgramError {
        pin_mismatch(self.remote, self.pinned, &self.presented)
            .unwrap_or_else(|| ProgramError::Run(self.describe_failure(why)))
    }

    fn describe_failure(&self, why: &str) -> String {
        let (remote, idle) = (self.remote, Span(self.plan.tcp.idle_timeout_ns).seconds());
        match why {
            "timed out" => format!("{remote}: the connection is lost: nothing moved for {idle} s"),
            "refused" => format!(
                "{remote}: nothing listens there (TCP port closed); is `bentpipe perf server` running?"
            ),
            // RFC 7301 section 3.2.
            _ if why.contains("NoApplicationProtocol") => {
                format!("{remote}: the server does not speak ALPN {}", self.plan.alpn)
            }
            _ if why.contains("reset") => {
                format!("{remote}: {why}; it may take no more connections, or be gone")
            }
            _ => format!("{remote}: {why}"),
        }
    }
}

/// Describes missing parts of a response: TCP closes a complete and an incomplete one alike.
fn describe_shortfall(asked: &StreamSpec, streams: &[StreamReport]) -> Option<String> {
    let stream = streams.first()?;
    let received_bytes = stream.received_in_order;
    match asked.amount {
        AmountSpec::Data { down_bytes, .. } if received_bytes != down_bytes => {
            Some(format!("the server answered {received_bytes} bytes, expected {down_bytes}"))
        }
        _ if stream.finished.is_none() => {
            Some("the server has ended the stream before all was sent".to_owned())
        }
        _ => None,
    }
}

/// Checks that a server cannot interpret the first byte of a size as TLS.
fn check_size(stream: &StreamSpec) -> Result<(), ProgramError> {
    match stream.amount {
        AmountSpec::Data { down_bytes, .. } if down_bytes.to_be_bytes()[0] == TLS_RECORD => {
            Err(ProgramError::Input(format!(
                "LOAD: found a response of {down_bytes} bytes, expected less than 1.5e18 over TCP"
            )))
        }
        _ => Ok(()),
    }
}
