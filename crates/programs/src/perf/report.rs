//! Lines of a running measurement: per interval and per finished stream, on the screen and in a CSV file. UP is the
//! sent data. Rates are averages since the start of their stream or connection.

use std::collections::BTreeSet;
use std::io::{self, Write};

use runtime::ResultFile;
use transport::perf_load::{ControllerResponse, StreamReport};
use units::{Span, Time};

use super::{ReportPlan, SenderReport};
use crate::ProgramError;

/// The interval of checks for finished streams. A check costs one step per stream.
const STREAM_CHECK_INTERVAL: Span = Span(10_000_000);

/// The maximum of streams with a separate line on the screen per interval; the file contains all.
const MAX_SHOWN_STREAMS: usize = 8;

/// The header of the file; docs/how-to/perf.md explains the columns.
const COLUMNS: &str = "time_s,connection,stream,event,up_bytes,up_mbit_s,down_bytes,down_mbit_s,\
                       rtt_ms,cwnd_bytes,lost_packets,min_rtt_ms,in_flight_bytes,pacing_rate_bit_s,\
                       sent_packets,sent_bytes,retransmitted_bytes,acked_bytes,delivery_rate_bit_s,\
                       congestion,peer_congestion";

/// The scope of a report: one connection, or all TCP connections of a client.
pub struct ReportScope<'a> {
    /// The number of the scope.
    pub connection: u32,
    /// The connections, oldest first.
    pub samples: Vec<ConnectionSample<'a>>,
    /// The start of all durations: the connect call of a client, or the accept of a server.
    pub started_at: Time,
}

/// The current state of a connection.
pub struct ConnectionSample<'a> {
    /// The streams.
    pub streams: &'a [StreamReport],
    /// The sender statistics.
    pub sender: SenderReport,
    /// The controllers.
    pub controllers: ControllerNames<'a>,
}

/// The controllers of both directions of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct ControllerNames<'a> {
    /// The controller of the data sent by this side.
    pub local: &'a str,
    /// The controller of the data sent by the peer, if it has named one.
    pub peer: Option<&'a str>,
}

impl<'a> ControllerNames<'a> {
    /// Creates the names from the local controller and the response of the peer.
    pub fn new(local: &'a str, response: Option<&'a ControllerResponse>) -> ControllerNames<'a> {
        ControllerNames {
            local,
            peer: response.and_then(|response| response.controller.as_deref()),
        }
    }

    /// Returns the controller of the data sent by this side, `None` if it sent only requests.
    pub fn local_if_sending(&self, sender: &SenderReport) -> Option<&'a str> {
        sender.cwnd_bytes.map(|_| self.local)
    }
}

impl<'a> ReportScope<'a> {
    /// Creates the scope of one connection.
    pub fn single(
        connection: u32,
        began: Time,
        streams: &'a [StreamReport],
        sender: SenderReport,
        names: ControllerNames<'a>,
    ) -> ReportScope<'a> {
        ReportScope {
            connection,
            samples: vec![ConnectionSample { streams, sender, controllers: names }],
            started_at: began,
        }
    }

    /// Returns every stream with its connection.
    fn streams(&self) -> impl Iterator<Item = (&'a StreamReport, &ConnectionSample<'a>)> {
        self.samples.iter().flat_map(|part| part.streams.iter().map(move |one| (one, part)))
    }

    /// Returns the controllers. Several connections give the first sending controller, and the first named by a peer.
    pub fn controllers(&self) -> ControllerNames<'a> {
        let sends = self.samples.iter().find(|part| part.sender.cwnd_bytes.is_some());
        let local = sends.or(self.samples.first()).map_or("", |part| part.controllers.local);
        ControllerNames { local, peer: self.samples.iter().find_map(|part| part.controllers.peer) }
    }

    fn byte_totals(&self, now: Time) -> ByteTotals {
        ByteTotals::from_streams(self.streams().map(|(stream, _)| stream), now)
    }

    fn sender(&self) -> SenderReport {
        SenderReport::aggregate(self.samples.iter().map(|part| &part.sender))
    }
}

/// Colours of a terminal (ECMA-48 section 8.3.117).
const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";
const GREEN: &str = "\x1b[32m";
const CYAN: &str = "\x1b[1;36m";

/// A line.
struct ReportLine<'a> {
    at: Time,
    stream: Option<u64>,
    kind: ReportLineKind,
    totals: ByteTotals,
    sender: &'a SenderReport,
    controllers: ControllerNames<'a>,
}

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportLineKind {
    Interval,
    Fin,
    Total,
}

impl ReportLineKind {
    fn name(self) -> &'static str {
        match self {
            ReportLineKind::Interval => "interval",
            ReportLineKind::Fin => "fin",
            ReportLineKind::Total => "total",
        }
    }
}

/// Bytes in both directions during a time span.
#[derive(Clone, Copy, Debug, Default)]
pub struct ByteTotals {
    /// Bytes sent by this side.
    pub up: u64,
    /// Bytes received.
    pub down: u64,
    /// The length of the time span.
    pub duration: Span,
}

impl ByteTotals {
    /// Returns the rate of `bytes` in Mbit/s.
    fn rate(&self, bytes: u64) -> f64 {
        if self.duration <= Span::ZERO {
            0.0
        } else {
            bytes as f64 * 8e-6 / self.duration.seconds()
        }
    }

    /// Returns the sent rate in Mbit/s.
    pub fn up_rate(&self) -> f64 {
        self.rate(self.up)
    }

    /// Returns the received rate in Mbit/s.
    pub fn down_rate(&self) -> f64 {
        self.rate(self.down)
    }

    /// Returns the totals of one stream, from its opening to its end or `now`.
    pub fn from_stream(stream: &StreamReport, now: Time) -> ByteTotals {
        let end = completed_at(stream).unwrap_or(now);
        ByteTotals { up: stream.written, down: stream.received, duration: end.since(stream.opened) }
    }

    /// Returns the totals of all streams, from the first opening to the last end or `now`.
    pub fn from_streams<'a>(
        streams: impl Iterator<Item = &'a StreamReport>,
        now: Time,
    ) -> ByteTotals {
        let (mut begin, mut end) = (Time::MAX, Time::ZERO);
        let mut moved = ByteTotals::default();
        for stream in streams {
            moved.up += stream.written;
            moved.down += stream.received;
            begin = begin.min(stream.opened);
            end = end.max(completed_at(stream).unwrap_or(now));
        }
        moved.duration = if begin == Time::MAX { Span::ZERO } else { end.since(begin) };
        moved
    }
}

/// Returns the time when both directions of a stream had finished, as known by this side.
pub fn completed_at(stream: &StreamReport) -> Option<Time> {
    Some(stream.fin?.max(stream.finished?))
}

/// Writes the lines.
pub struct Reporter {
    stdout: Box<dyn Write>,
    quiet: bool,
    colour: bool,
    /// Whether lines contain the number of their connection.
    numbered: bool,
    interval: Option<Span>,
    next_line_at: Time,
    file: Option<ResultFile>,
    file_interval: Span,
    next_row_at: Time,
    next_check_at: Time,
    has_header: bool,
    reported_streams: BTreeSet<(u32, u64)>,
}

impl Reporter {
    /// Creates a reporter that writes to `screen` and to the file of the plan.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(
        plan: &ReportPlan,
        screen: Box<dyn Write>,
        numbered: bool,
    ) -> Result<Reporter, ProgramError> {
        let mut file = None;
        if let Some(csv) = &plan.csv {
            let mut made = ResultFile::create("csv", &csv.file).map_err(ProgramError::Input)?;
            made.write_header(format!("{COLUMNS}\n").as_bytes()).map_err(ProgramError::Input)?;
            file = Some(made);
        }
        let file_interval =
            Span(plan.csv.as_ref().map_or(u64::MAX / 2, |csv| csv.interval_ns) as _);
        let interval = plan.interval_ns.map(|nanos| Span(nanos as _));
        Ok(Reporter {
            stdout: screen,
            quiet: plan.json,
            colour: plan.colour && !plan.json,
            numbered,
            interval,
            next_line_at: Time::MAX,
            file,
            file_interval,
            next_row_at: Time::MAX,
            next_check_at: Time::ZERO,
            has_header: false,
            reported_streams: BTreeSet::new(),
        })
    }

    /// Starts the intervals, unless they have started.
    pub fn start_intervals(&mut self, now: Time) {
        if self.next_line_at == Time::MAX && self.next_row_at == Time::MAX {
            self.next_line_at = self.interval.map_or(Time::MAX, |interval| now + interval);
            self.next_row_at = now + self.file_interval;
        }
    }

    /// Returns the time of the next due work.
    pub fn poll_at(&self) -> Time {
        self.next_line_at.min(self.next_row_at).min(self.next_check_at)
    }

    /// Returns whether [`Reporter::write_due`] has due work.
    pub fn is_due(&self, now: Time) -> bool {
        self.poll_at() <= now
    }

    /// Returns whether a line of every connection is due; otherwise only finished streams are reported.
    pub fn is_line_due(&self, now: Time) -> bool {
        self.next_line_at.min(self.next_row_at) <= now
    }

    /// Prints a text for the user.
    ///
    /// # Errors
    /// An error of the screen.
    pub fn print(&mut self, text: &str) -> io::Result<()> {
        if self.quiet {
            return Ok(());
        }
        writeln!(self.stdout, "{text}")?;
        self.stdout.flush()
    }

    /// Prints the result if it is requested as JSON.
    ///
    /// # Errors
    /// An error of the screen.
    pub fn print_json(&mut self, text: &str) -> io::Result<()> {
        if self.quiet {
            writeln!(self.stdout, "{text}")?;
            self.stdout.flush()?;
        }
        Ok(())
    }

    /// Returns whether the result is requested as JSON.
    pub fn is_json(&self) -> bool {
        self.quiet
    }

    /// Writes the lines due at `now`. `views` contains the scopes that have changed since the last check, and all if a
    /// line is due.
    ///
    /// # Errors
    /// An error of the screen.
    pub fn write_due(&mut self, now: Time, views: &[ReportScope<'_>]) -> io::Result<()> {
        self.next_check_at = now + STREAM_CHECK_INTERVAL;
        for view in views {
            self.write_finished_streams(now, view)?;
        }
        let (screen, file) = (now >= self.next_line_at, now >= self.next_row_at);
        if !screen && !file {
            return Ok(());
        }
        for view in views {
            let live = view.streams().filter(|(stream, _)| completed_at(stream).is_none());
            for (index, (stream, part)) in live.enumerate() {
                let line = ReportLine {
                    at: now,
                    stream: Some(stream.label),
                    kind: ReportLineKind::Interval,
                    totals: ByteTotals::from_stream(stream, now),
                    sender: &part.sender,
                    controllers: part.controllers,
                };
                self.write_line(view, &line, screen && index < MAX_SHOWN_STREAMS, file)?;
            }
            let (sender, moved) = (view.sender(), view.byte_totals(now));
            let (kind, names) = (ReportLineKind::Interval, view.controllers());
            let line = ReportLine {
                at: now,
                stream: None,
                kind,
                totals: moved,
                sender: &sender,
                controllers: names,
            };
            self.write_line(view, &line, screen, file)?;
        }
        if let (true, Some(interval)) = (screen, self.interval) {
            self.next_line_at = next_grid_instant(self.next_line_at, interval, now);
        }
        if file {
            self.next_row_at = next_grid_instant(self.next_row_at, self.file_interval, now);
            self.flush();
        }
        Ok(())
    }

    /// Writes the streams that have finished since the last check, by finish time.
    fn write_finished_streams(&mut self, now: Time, view: &ReportScope<'_>) -> io::Result<()> {
        let mut ended: Vec<(Time, &StreamReport, &ConnectionSample<'_>)> = view
            .streams()
            .filter_map(|(stream, part)| Some((completed_at(stream)?, stream, part)))
            .filter(|(_, stream, _)| {
                !self.reported_streams.contains(&(view.connection, stream.label))
            })
            .collect();
        ended.sort_by_key(|(at, stream, _)| (*at, stream.label));
        for (at, stream, part) in ended {
            self.reported_streams.insert((view.connection, stream.label));
            let (label, moved) = (Some(stream.label), ByteTotals::from_stream(stream, now));
            let (kind, sender, names) = (ReportLineKind::Fin, &part.sender, part.controllers);
            let line =
                ReportLine { at, stream: label, kind, totals: moved, sender, controllers: names };
            self.write_line(view, &line, true, true)?;
        }
        Ok(())
    }

    /// Writes the last lines of a connection.
    ///
    /// # Errors
    /// An error of the screen.
    pub fn write_totals(&mut self, now: Time, view: &ReportScope<'_>) -> io::Result<ByteTotals> {
        self.write_finished_streams(now, view)?;
        let (sender, moved) = (view.sender(), view.byte_totals(now));
        let (kind, names) = (ReportLineKind::Total, view.controllers());
        let line = ReportLine {
            at: now,
            stream: None,
            kind,
            totals: moved,
            sender: &sender,
            controllers: names,
        };
        self.write_line(view, &line, true, true)?;
        self.reported_streams.retain(|(connection, _)| *connection != view.connection);
        self.flush();
        Ok(moved)
    }

    /// Returns the control sequences before and after a coloured text, empty without colours.
    fn colour_codes(&self, colour: &'static str) -> (&'static str, &'static str) {
        if self.colour && !colour.is_empty() { (colour, "\x1b[0m") } else { ("", "") }
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            file.flush();
        }
    }

    /// Returns whether lines are missing in the file because the disk was full.
    pub fn is_incomplete(&self) -> bool {
        self.file.as_ref().is_some_and(ResultFile::is_incomplete)
    }

    fn write_line(
        &mut self,
        view: &ReportScope<'_>,
        line: &ReportLine<'_>,
        screen: bool,
        file: bool,
    ) -> io::Result<()> {
        let ReportLine { at, stream, kind, totals: moved, sender, controllers: names } = line;
        let time = at.since(view.started_at).seconds();
        let name = stream.map_or("all".to_owned(), |id| id.to_string());
        let lost = sender.lost_packets;
        if let (true, Some(out)) = (file, self.file.as_mut()) {
            let ms = |value: Option<f64>| value.map_or(String::new(), |ms| format!("{ms:.3}"));
            let known = |value: Option<u64>| value.map_or(String::new(), |n| n.to_string());
            let row = format!(
                "{time:.6},{},{name},{},{},{:.6},{},{:.6},{},{},{lost},{},{},{},{},{},{},{},{},{},{}\n",
                view.connection,
                kind.name(),
                moved.up,
                moved.up_rate(),
                moved.down,
                moved.down_rate(),
                ms(sender.smoothed_rtt_ms),
                known(sender.cwnd_bytes),
                ms(sender.min_rtt_ms),
                sender.in_flight_bytes,
                sender.pacing_rate_bit_s,
                sender.sent_packets,
                sender.sent_bytes,
                known(sender.retransmitted_bytes),
                known(sender.acked_bytes),
                known(sender.delivery_rate_bit_s),
                names.local_if_sending(sender).unwrap_or_default(),
                names.peer.unwrap_or_default(),
            );
            out.append_line(row.as_bytes());
        }
        if !screen || self.quiet {
            return Ok(());
        }
        if !std::mem::replace(&mut self.has_header, true) {
            let number = if self.numbered { " conn" } else { "" };
            let (dim, plain) = self.colour_codes(DIM);
            writeln!(
                self.stdout,
                "{dim}{:>9}{number} {:>7} {:>14} {:>11} {:>14} {:>11} {:>9} {:>11} {:>7}{plain}",
                "time s",
                "stream",
                "UP bytes",
                "UP Mbit/s",
                "DOWN bytes",
                "DOWN Mbit/s",
                "RTT ms",
                "cwnd bytes",
                "lost",
            )?;
        }
        let number = if self.numbered { format!(" {:>4}", view.connection) } else { String::new() };
        let (colour, mark) = match kind {
            ReportLineKind::Interval if stream.is_some() => ("", ""),
            ReportLineKind::Interval => (BOLD, ""),
            ReportLineKind::Fin => (GREEN, "  FIN"),
            ReportLineKind::Total => (CYAN, "  total"),
        };
        let (begin, end) = self.colour_codes(colour);
        writeln!(
            self.stdout,
            "{begin}{time:>9.3}{number} {name:>7} {:>14} {:>11.2} {:>14} {:>11.2} {:>9} {:>11} {lost:>7}{mark}{end}",
            moved.up,
            moved.up_rate(),
            moved.down,
            moved.down_rate(),
            sender.smoothed_rtt_ms.map_or("-".to_owned(), |rtt| format!("{rtt:.2}")),
            sender.cwnd_bytes.map_or("-".to_owned(), |bytes| bytes.to_string()),
        )?;
        self.stdout.flush()
    }
}

/// Returns the next instant of a grid after `now`.
fn next_grid_instant(last: Time, interval: Span, now: Time) -> Time {
    let next = last + interval;
    if next > now { next } else { now + interval }
}
