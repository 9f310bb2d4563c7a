//! Lines while a measurement runs: every interval and at every end of a stream, on the screen and in a
//! CSV file. UP is what this side sends; rates are averages since the start of what they speak of.

use std::collections::BTreeSet;
use std::io::{self, Write};

use transport::load::{Answer, StreamReport};
use units::{Span, Time};

use super::{Failure, ReportPlan, Sender};
use crate::Kept;

/// How often ends of streams are looked for: a look costs a step for every stream.
const LOOK: Span = Span(10_000_000);

/// Streams that get a line of their own on the screen at every interval; the file has all.
const SHOWN: usize = 8;

/// Header of the file; docs/manual/perf.md explains the columns.
const COLUMNS: &str = "time_s,connection,stream,event,up_bytes,up_mbit_s,down_bytes,down_mbit_s,\
                       rtt_ms,cwnd_bytes,lost_packets,min_rtt_ms,in_flight_bytes,pacing_rate_bit_s,\
                       sent_packets,sent_bytes,retransmitted_bytes,acked_bytes,delivery_rate_bit_s,\
                       congestion,peer_congestion";

/// What is looked at as one: a connection, or all TCP connections of a client.
pub struct View<'a> {
    /// Its number.
    pub connection: u32,
    /// Its connections, by age.
    pub parts: Vec<Part<'a>>,
    /// When times begin to count: the client began to connect, or the server accepted.
    pub began: Time,
}

/// A connection as it stands.
pub struct Part<'a> {
    /// Its streams.
    pub streams: &'a [StreamReport],
    /// Its sender.
    pub sender: Sender,
    /// Its controllers.
    pub names: Names<'a>,
}

/// The controllers of a connection's two directions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Names<'a> {
    /// Of what this side sends.
    pub own: &'a str,
    /// Of what the other one sends, if it has said so.
    pub peer: Option<&'a str>,
}

impl<'a> Names<'a> {
    /// Of a side that sends with `own` and was told `told`.
    pub fn new(own: &'a str, told: Option<&'a Answer>) -> Names<'a> {
        Names { own, peer: told.and_then(|told| told.own.as_deref()) }
    }

    /// The controller of what this side has sent; none if that was nothing but requests.
    pub fn sent_with(&self, sender: &Sender) -> Option<&'a str> {
        sender.cwnd_bytes.map(|_| self.own)
    }
}

impl<'a> View<'a> {
    /// One connection.
    pub fn one(
        connection: u32,
        began: Time,
        streams: &'a [StreamReport],
        sender: Sender,
        names: Names<'a>,
    ) -> View<'a> {
        View { connection, parts: vec![Part { streams, sender, names }], began }
    }

    /// Every stream, with the sender of its connection.
    fn streams(&self) -> impl Iterator<Item = (&'a StreamReport, &Part<'a>)> {
        self.parts.iter().flat_map(|part| part.streams.iter().map(move |one| (one, part)))
    }

    /// Its controllers: of several connections those of the first that sends, and of the first that was told.
    pub fn names(&self) -> Names<'a> {
        let sends = self.parts.iter().find(|part| part.sender.cwnd_bytes.is_some());
        let own = sends.or(self.parts.first()).map_or("", |part| part.names.own);
        Names { own, peer: self.parts.iter().find_map(|part| part.names.peer) }
    }

    fn moved(&self, now: Time) -> Moved {
        Moved::all(self.streams().map(|(stream, _)| stream), now)
    }

    fn sender(&self) -> Sender {
        Sender::all(self.parts.iter().map(|part| &part.sender))
    }
}

/// Colours of a terminal (ECMA-48 section 8.3.117).
const DIM: &str = "\x1b[2m";
const BOLD: &str = "\x1b[1m";
const GREEN: &str = "\x1b[32m";
const CYAN: &str = "\x1b[1;36m";

/// A line.
struct Line<'a> {
    at: Time,
    stream: Option<u64>,
    kind: Kind,
    moved: Moved,
    sender: &'a Sender,
    names: Names<'a>,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Interval,
    Fin,
    Total,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Interval => "interval",
            Kind::Fin => "fin",
            Kind::Total => "total",
        }
    }
}

/// Bytes both ways over a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moved {
    /// Sent by this side.
    pub up: u64,
    /// Received.
    pub down: u64,
    /// How long it took.
    pub over: Span,
}

impl Moved {
    /// Mbit/s of a number of bytes.
    fn rate(&self, bytes: u64) -> f64 {
        if self.over <= Span::ZERO { 0.0 } else { bytes as f64 * 8e-6 / self.over.seconds() }
    }

    /// Mbit/s sent.
    pub fn up_rate(&self) -> f64 {
        self.rate(self.up)
    }

    /// Mbit/s received.
    pub fn down_rate(&self) -> f64 {
        self.rate(self.down)
    }

    /// One stream, from its opening to its end or `now`.
    pub fn of(stream: &StreamReport, now: Time) -> Moved {
        let end = done(stream).unwrap_or(now);
        Moved { up: stream.written, down: stream.received, over: end.since(stream.opened) }
    }

    /// All streams, from the first opening to the last end or `now`.
    pub fn all<'a>(streams: impl Iterator<Item = &'a StreamReport>, now: Time) -> Moved {
        let (mut begin, mut end) = (Time::MAX, Time::ZERO);
        let mut moved = Moved::default();
        for stream in streams {
            moved.up += stream.written;
            moved.down += stream.received;
            begin = begin.min(stream.opened);
            end = end.max(done(stream).unwrap_or(now));
        }
        moved.over = if begin == Time::MAX { Span::ZERO } else { end.since(begin) };
        moved
    }
}

/// When both directions of a stream had ended, as far as this side knows.
pub fn done(stream: &StreamReport) -> Option<Time> {
    Some(stream.fin?.max(stream.finished?))
}

/// Writes the lines.
pub struct Reporter {
    screen: Box<dyn Write>,
    quiet: bool,
    colour: bool,
    /// Lines carry the number of their connection.
    numbered: bool,
    interval: Option<Span>,
    next: Time,
    file: Option<Kept>,
    file_interval: Span,
    file_next: Time,
    look: Time,
    headed: bool,
    done: BTreeSet<(u32, u64)>,
}

impl Reporter {
    /// A reporter that writes to `screen`, and to the plan's file.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn new(
        plan: &ReportPlan,
        screen: Box<dyn Write>,
        numbered: bool,
    ) -> Result<Reporter, Failure> {
        let mut file = None;
        if let Some(csv) = &plan.csv {
            let mut made = Kept::create("csv", &csv.file).map_err(Failure::Input)?;
            made.begin(format!("{COLUMNS}\n").as_bytes()).map_err(Failure::Input)?;
            file = Some(made);
        }
        let file_interval =
            Span(plan.csv.as_ref().map_or(u64::MAX / 2, |csv| csv.interval_ns) as _);
        let interval = plan.interval_ns.map(|nanos| Span(nanos as _));
        Ok(Reporter {
            screen,
            quiet: plan.json,
            colour: plan.colour && !plan.json,
            numbered,
            interval,
            next: Time::MAX,
            file,
            file_interval,
            file_next: Time::MAX,
            look: Time::ZERO,
            headed: false,
            done: BTreeSet::new(),
        })
    }

    /// Begins to count intervals, unless it has.
    pub fn begin(&mut self, now: Time) {
        if self.next == Time::MAX && self.file_next == Time::MAX {
            self.next = self.interval.map_or(Time::MAX, |interval| now + interval);
            self.file_next = now + self.file_interval;
        }
    }

    /// When the next line is due.
    pub fn wake_at(&self) -> Time {
        self.next.min(self.file_next).min(self.look)
    }

    /// Whether [`Reporter::tick`] has something to do.
    pub fn is_due(&self, now: Time) -> bool {
        self.wake_at() <= now
    }

    /// Whether it writes a line of every connection; otherwise it tells of ends alone.
    pub fn is_line_due(&self, now: Time) -> bool {
        self.next.min(self.file_next) <= now
    }

    /// Something for people to read.
    ///
    /// # Errors
    /// The screen's.
    pub fn say(&mut self, text: &str) -> io::Result<()> {
        if self.quiet {
            return Ok(());
        }
        writeln!(self.screen, "{text}")?;
        self.screen.flush()
    }

    /// The result, when JSON is wanted.
    ///
    /// # Errors
    /// The screen's.
    pub fn json(&mut self, text: &str) -> io::Result<()> {
        if self.quiet {
            writeln!(self.screen, "{text}")?;
            self.screen.flush()?;
        }
        Ok(())
    }

    /// Whether the result is wanted as JSON.
    pub fn is_json(&self) -> bool {
        self.quiet
    }

    /// Writes what is due at `now`; `views` are of those that have done something since the last look, of all if a
    /// line is due.
    ///
    /// # Errors
    /// The screen's.
    pub fn tick(&mut self, now: Time, views: &[View<'_>]) -> io::Result<()> {
        self.look = now + LOOK;
        for view in views {
            self.ends(now, view)?;
        }
        let (screen, file) = (now >= self.next, now >= self.file_next);
        if !screen && !file {
            return Ok(());
        }
        for view in views {
            let live = view.streams().filter(|(stream, _)| done(stream).is_none());
            for (place, (stream, part)) in live.enumerate() {
                let line = Line {
                    at: now,
                    stream: Some(stream.label),
                    kind: Kind::Interval,
                    moved: Moved::of(stream, now),
                    sender: &part.sender,
                    names: part.names,
                };
                self.line(view, &line, screen && place < SHOWN, file)?;
            }
            let (sender, moved) = (view.sender(), view.moved(now));
            let (kind, names) = (Kind::Interval, view.names());
            let line = Line { at: now, stream: None, kind, moved, sender: &sender, names };
            self.line(view, &line, screen, file)?;
        }
        if let (true, Some(interval)) = (screen, self.interval) {
            self.next = next(self.next, interval, now);
        }
        if file {
            self.file_next = next(self.file_next, self.file_interval, now);
            self.flush();
        }
        Ok(())
    }

    /// Streams that have ended since the last look, in the order of their ends.
    fn ends(&mut self, now: Time, view: &View<'_>) -> io::Result<()> {
        let mut ended: Vec<(Time, &StreamReport, &Part<'_>)> = view
            .streams()
            .filter_map(|(stream, part)| Some((done(stream)?, stream, part)))
            .filter(|(_, stream, _)| !self.done.contains(&(view.connection, stream.label)))
            .collect();
        ended.sort_by_key(|(at, stream, _)| (*at, stream.label));
        for (at, stream, part) in ended {
            self.done.insert((view.connection, stream.label));
            let (label, moved) = (Some(stream.label), Moved::of(stream, now));
            let (kind, sender, names) = (Kind::Fin, &part.sender, part.names);
            let line = Line { at, stream: label, kind, moved, sender, names };
            self.line(view, &line, true, true)?;
        }
        Ok(())
    }

    /// The last lines of a connection.
    ///
    /// # Errors
    /// The screen's.
    pub fn end(&mut self, now: Time, view: &View<'_>) -> io::Result<Moved> {
        self.ends(now, view)?;
        let (sender, moved) = (view.sender(), view.moved(now));
        let (kind, names) = (Kind::Total, view.names());
        let line = Line { at: now, stream: None, kind, moved, sender: &sender, names };
        self.line(view, &line, true, true)?;
        self.done.retain(|(connection, _)| *connection != view.connection);
        self.flush();
        Ok(moved)
    }

    /// Sequences before and after a text in a colour; empty where there is none.
    fn paint(&self, colour: &'static str) -> (&'static str, &'static str) {
        if self.colour && !colour.is_empty() { (colour, "\x1b[0m") } else { ("", "") }
    }

    fn flush(&mut self) {
        if let Some(file) = &mut self.file {
            file.flush();
        }
    }

    /// Whether lines are missing in the file, because the disk was full.
    pub fn is_cut(&self) -> bool {
        self.file.as_ref().is_some_and(Kept::is_cut)
    }

    fn line(
        &mut self,
        view: &View<'_>,
        line: &Line<'_>,
        screen: bool,
        file: bool,
    ) -> io::Result<()> {
        let Line { at, stream, kind, moved, sender, names } = line;
        let time = at.since(view.began).seconds();
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
                sender.retransmitted_bytes,
                known(sender.acked_bytes),
                known(sender.delivery_rate_bit_s),
                names.sent_with(sender).unwrap_or_default(),
                names.peer.unwrap_or_default(),
            );
            out.put(row.as_bytes());
        }
        if !screen || self.quiet {
            return Ok(());
        }
        if !std::mem::replace(&mut self.headed, true) {
            let number = if self.numbered { " conn" } else { "" };
            let (dim, plain) = self.paint(DIM);
            writeln!(
                self.screen,
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
            Kind::Interval if stream.is_some() => ("", ""),
            Kind::Interval => (BOLD, ""),
            Kind::Fin => (GREEN, "  FIN"),
            Kind::Total => (CYAN, "  total"),
        };
        let (begin, end) = self.paint(colour);
        writeln!(
            self.screen,
            "{begin}{time:>9.3}{number} {name:>7} {:>14} {:>11.2} {:>14} {:>11.2} {:>9} {:>11} {lost:>7}{mark}{end}",
            moved.up,
            moved.up_rate(),
            moved.down,
            moved.down_rate(),
            sender.smoothed_rtt_ms.map_or("-".to_owned(), |rtt| format!("{rtt:.2}")),
            sender.cwnd_bytes.map_or("-".to_owned(), |bytes| bytes.to_string()),
        )?;
        self.screen.flush()
    }
}

/// The next instant of a grid after `now`.
fn next(last: Time, interval: Span, now: Time) -> Time {
    let next = last + interval;
    if next > now { next } else { now + interval }
}
