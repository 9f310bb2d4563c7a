//! Lines while a measurement runs: every interval and at every end of a stream, on the screen and in a
//! CSV file. UP is what this side sends; rates are averages since the start of what they speak of.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufWriter, Write};

use transport::load::StreamReport;
use transport::{Counters, Gauges};
use units::{Span, Time};

use super::{Failure, ReportPlan};

/// How often ends of streams are looked for: a look costs a step for every stream.
const LOOK: Span = Span(10_000_000);

/// Streams that get a line of their own on the screen at every interval; the file has all.
const SHOWN: usize = 8;

/// Header of the file; docs/manual/perf.md explains the columns.
const COLUMNS: &str = "time_s,connection,stream,event,up_bytes,up_mbit_s,down_bytes,down_mbit_s,\
                       rtt_ms,cwnd_bytes,lost_packets";

/// A connection as it stands.
pub struct View<'a> {
    /// Its number.
    pub connection: u32,
    /// Its streams.
    pub streams: &'a [StreamReport],
    /// Its sender.
    pub gauges: Gauges,
    /// Its counts.
    pub counters: Counters,
    /// When times begin to count: the client began to connect, or the server accepted.
    pub began: Time,
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
    pub fn all(streams: &[StreamReport], now: Time) -> Moved {
        let begin = streams.iter().map(|stream| stream.opened).min().unwrap_or(now);
        let end = streams.iter().map(|stream| done(stream).unwrap_or(now)).max().unwrap_or(now);
        Moved {
            up: streams.iter().map(|stream| stream.written).sum(),
            down: streams.iter().map(|stream| stream.received).sum(),
            over: end.since(begin),
        }
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
    /// Lines carry the number of their connection.
    numbered: bool,
    interval: Option<Span>,
    next: Time,
    file: Option<BufWriter<File>>,
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
            let made = File::create(&csv.file)
                .map_err(|error| Failure::Input(format!("csv: {}: {error}", csv.file.display())))?;
            let mut made = BufWriter::new(made);
            writeln!(made, "{COLUMNS}")?;
            file = Some(made);
        }
        let file_interval =
            Span(plan.csv.as_ref().map_or(u64::MAX / 2, |csv| csv.interval_ns) as _);
        let interval = plan.interval_ns.map(|nanos| Span(nanos as _));
        Ok(Reporter {
            screen,
            quiet: plan.json,
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

    /// Writes what is due at `now`.
    ///
    /// # Errors
    /// The screen's or the file's.
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
            let kind = Kind::Interval;
            let live = view.streams.iter().filter(|stream| done(stream).is_none());
            for (place, stream) in live.enumerate() {
                let id = Some(stream.label);
                self.line(
                    now,
                    view,
                    id,
                    kind,
                    Moved::of(stream, now),
                    screen && place < SHOWN,
                    file,
                )?;
            }
            self.line(now, view, None, kind, Moved::all(view.streams, now), screen, file)?;
        }
        if let (true, Some(interval)) = (screen, self.interval) {
            self.next = next(self.next, interval, now);
        }
        if file {
            self.file_next = next(self.file_next, self.file_interval, now);
            self.flush()?;
        }
        Ok(())
    }

    /// Streams that have ended since the last look, in the order of their ends.
    fn ends(&mut self, now: Time, view: &View<'_>) -> io::Result<()> {
        let mut ended: Vec<(Time, &StreamReport)> = view
            .streams
            .iter()
            .filter_map(|stream| Some((done(stream)?, stream)))
            .filter(|(_, stream)| !self.done.contains(&(view.connection, stream.id)))
            .collect();
        ended.sort_by_key(|(at, stream)| (*at, stream.id));
        for (at, stream) in ended {
            self.done.insert((view.connection, stream.id));
            self.line(at, view, Some(stream.label), Kind::Fin, Moved::of(stream, now), true, true)?;
        }
        Ok(())
    }

    /// The last lines of a connection.
    ///
    /// # Errors
    /// The screen's or the file's.
    pub fn end(&mut self, now: Time, view: &View<'_>) -> io::Result<Moved> {
        self.ends(now, view)?;
        let moved = Moved::all(view.streams, now);
        self.line(now, view, None, Kind::Total, moved, true, true)?;
        self.done.retain(|(connection, _)| *connection != view.connection);
        self.flush()?;
        Ok(moved)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }

    #[expect(clippy::too_many_arguments, reason = "a line of a table")]
    fn line(
        &mut self,
        at: Time,
        view: &View<'_>,
        stream: Option<u64>,
        kind: Kind,
        moved: Moved,
        screen: bool,
        file: bool,
    ) -> io::Result<()> {
        let time = at.since(view.began).seconds();
        let rtt = view.gauges.smoothed_rtt.map(|rtt| rtt.millis());
        let name = stream.map_or("all".to_owned(), |id| id.to_string());
        let (lost, cwnd) = (view.counters.lost_packets, view.gauges.cwnd);
        if let (true, Some(out)) = (file, self.file.as_mut()) {
            writeln!(
                out,
                "{time:.6},{},{name},{},{},{:.6},{},{:.6},{},{cwnd},{lost}",
                view.connection,
                kind.name(),
                moved.up,
                moved.up_rate(),
                moved.down,
                moved.down_rate(),
                rtt.map_or(String::new(), |rtt| format!("{rtt:.3}")),
            )?;
        }
        if !screen || self.quiet {
            return Ok(());
        }
        if !std::mem::replace(&mut self.headed, true) {
            let number = if self.numbered { " conn" } else { "" };
            writeln!(
                self.screen,
                "{:>9}{number} {:>7} {:>14} {:>11} {:>14} {:>11} {:>9} {:>11} {:>7}",
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
        let mark = match kind {
            Kind::Interval => "",
            Kind::Fin => "  FIN",
            Kind::Total => "  total",
        };
        writeln!(
            self.screen,
            "{time:>9.3}{number} {name:>7} {:>14} {:>11.2} {:>14} {:>11.2} {:>9} {cwnd:>11} {lost:>7}{mark}",
            moved.up,
            moved.up_rate(),
            moved.down,
            moved.down_rate(),
            rtt.map_or("-".to_owned(), |rtt| format!("{rtt:.2}")),
        )?;
        self.screen.flush()
    }
}

/// The next instant of a grid after `now`.
fn next(last: Time, interval: Span, now: Time) -> Time {
    let next = last + interval;
    if next > now { next } else { now + interval }
}
