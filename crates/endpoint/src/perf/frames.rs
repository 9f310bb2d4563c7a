//! What was measured, for programs: one JSON value a line (docs/manual/perf.md). Instants are those of
//! CLOCK_MONOTONIC, so that both sides on one machine, in whatever namespaces, have one time.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Value, json};
use transport::load::StreamReport;
use transport::quic::End;
use units::{Span, Time};

use super::report::{Names, done};
use super::{Failure, FramesPlan, Sender};
use crate::{Clock, Kept};

/// Version of the form; from 2 on samples tell when they were due.
const VERSION: u32 = 2;

/// A connection whose handshake is done.
#[derive(Clone, Debug)]
pub struct Opening<'a> {
    /// Its number.
    pub connection: u32,
    /// `quic`, `tcp` or `tls`.
    pub transport: &'static str,
    /// This side's address.
    pub local: String,
    /// The other one's.
    pub remote: String,
    /// Controller of what this side sends.
    pub congestion: &'a str,
    /// Its first packet.
    pub start: Time,
    /// Its handshake was done.
    pub connected: Time,
    /// Bytes of data in a full packet: QUIC's UDP payload, TCP's segment.
    pub mss_bytes: u64,
}

/// Writes frames to a file; without one it does nothing.
pub struct Frames {
    out: Option<Kept>,
    clock: Clock,
    interval: Span,
    next: Time,
    /// Tick of the samples that are being written.
    due: Option<Time>,
    /// Whether the process waits without ticks.
    resting: bool,
    told: BTreeSet<(u32, u64)>,
    /// Of the last frame.
    stamped: u64,
}

impl Frames {
    /// Frames as the plan wants them.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn new(plan: Option<&FramesPlan>, clock: Clock) -> Result<Frames, Failure> {
        let mut frames = Frames {
            out: None,
            clock,
            interval: Span(u64::MAX / 2),
            next: Time::MAX,
            due: None,
            resting: false,
            told: BTreeSet::new(),
            stamped: 0,
        };
        if let Some(plan) = plan {
            let made = Kept::create("frames", &plan.file).map_err(Failure::Input)?;
            frames.out = Some(made);
            frames.interval = Span(plan.interval_ns.max(1));
            frames.next = frames.after(clock.now());
        }
        Ok(frames)
    }

    /// The next whole multiple of the interval after `now`.
    fn after(&self, now: Time) -> Time {
        let interval = self.interval.nanos();
        now + Span(interval - self.clock.monotonic_ns(now) % interval)
    }

    fn instant(&self, time: Time) -> u64 {
        self.clock.monotonic_ns(time)
    }

    /// The time of a frame: `now`, or that of the frame above it, since what has happened before may be told later.
    fn stamp(&mut self, now: Time) -> u64 {
        self.stamped = self.stamped.max(self.instant(now));
        self.stamped
    }

    /// When a sample is due.
    pub fn wake_at(&self) -> Time {
        self.next
    }

    /// Whether samples are due at `now`; the next ones are then at the next tick. The samples carry the first tick that
    /// is due: those after it, up to `now`, were missed.
    pub fn is_due(&mut self, now: Time) -> bool {
        if self.resting {
            self.resting = false;
            self.next = self.after(now);
        }
        let due = now >= self.next;
        if due {
            self.due = Some(self.next);
            self.next = self.after(now);
        }
        due
    }

    /// The process waits for whoever comes, however long: ticks begin again when it wakes.
    pub fn rest(&mut self) {
        self.resting = true;
    }

    fn put(&mut self, value: &impl Serialize) {
        if let Some(out) = &mut self.out {
            out.put(&line(value));
        }
    }

    /// Writes what has been gathered to the file.
    pub fn flush(&mut self) {
        if let Some(out) = &mut self.out {
            out.flush();
        }
    }

    /// Whether frames are missing, because the disk was full.
    pub fn is_cut(&self) -> bool {
        self.out.as_ref().is_some_and(Kept::is_cut)
    }

    /// The first frame: who measures.
    ///
    /// # Errors
    /// A file that takes nothing.
    pub fn begin(
        &mut self,
        now: Time,
        role: &str,
        transport: &str,
        congestion: &str,
        kernel: Option<&str>,
    ) -> Result<(), Failure> {
        let value = json!({
            "frame": "begin", "version": VERSION, "time_ns": self.stamp(now), "role": role,
            "transport": transport, "congestion": congestion, "kernel_congestion": kernel,
            "interval_ns": self.interval.nanos(), "program": env!("CARGO_PKG_VERSION"),
        });
        match &mut self.out {
            Some(out) => out.begin(&line(&value)).map_err(Failure::Input),
            None => Ok(()),
        }
    }

    /// A connection's handshake is done.
    pub fn connection(&mut self, now: Time, opening: &Opening<'_>) {
        let value = json!({
            "frame": "connection", "time_ns": self.stamp(now), "connection": opening.connection,
            "transport": opening.transport, "local": opening.local, "remote": opening.remote,
            "congestion": opening.congestion, "start_ns": self.instant(opening.start),
            "connected_ns": self.instant(opening.connected), "mss_bytes": opening.mss_bytes,
        });
        self.put(&value);
    }

    /// A connection at a tick, and its streams that have ended.
    pub fn sample(
        &mut self,
        now: Time,
        connection: u32,
        sender: &Sender,
        streams: &[StreamReport],
    ) {
        if self.out.is_none() {
            return;
        }
        self.streams(now, connection, streams, false);
        let (time_ns, due_ns) = (self.stamp(now), self.due.map(|due| self.instant(due)));
        self.put(&Sample { frame: "sample", time_ns, due_ns, connection, sender });
    }

    fn streams(&mut self, now: Time, connection: u32, streams: &[StreamReport], all: bool) {
        for stream in streams {
            let over = done(stream).is_some();
            if !(over || all) || !self.told.insert((connection, stream.id)) {
                continue;
            }
            let time_ns = self.stamp(now);
            let instant = |time: Option<Time>| time.map(|time| self.instant(time));
            let value = json!({
                "frame": "stream", "time_ns": time_ns, "connection": connection,
                "stream_id": stream.id, "label": stream.label, "mode": stream.mode,
                "opened_ns": self.instant(stream.opened), "first_byte_ns": instant(stream.first_byte),
                "last_byte_ns": instant(stream.last_byte), "fin_ns": instant(stream.fin),
                "finished_ns": instant(stream.finished), "written_bytes": stream.written,
                "received_bytes": stream.received,
                "received_in_order_bytes": stream.received_in_order, "done": over,
            });
            self.put(&value);
        }
    }

    /// A connection has ended, at `ended`; `end` is none if it was interrupted.
    pub fn end_connection(
        &mut self,
        ended: Time,
        connection: u32,
        end: Option<&End>,
        sender: &Sender,
        streams: &[StreamReport],
        names: Names<'_>,
    ) {
        if self.out.is_none() {
            return;
        }
        let now = self.clock.now();
        self.streams(now, connection, streams, true);
        let end = match end {
            None => "interrupted".to_owned(),
            Some(End::Here | End::There) => "closed".to_owned(),
            Some(End::Lost(why)) => format!("lost: {why}"),
        };
        let (time_ns, ended_ns) = (self.stamp(now), self.instant(ended));
        // A tick that had come and has no sample yet.
        let due_ns = (now >= self.next && !self.resting).then(|| self.instant(self.next));
        let largest_cwnd_bytes = sender.largest_cwnd_bytes;
        let sample = Sample { frame: "end_connection", time_ns, due_ns, connection, sender };
        let mut value: Value = serde_json::to_value(sample).unwrap_or_default();
        value["end"] = end.into();
        value["ended_ns"] = ended_ns.into();
        value["largest_cwnd_bytes"] = largest_cwnd_bytes.into();
        value["congestion"] = names.sent_with(sender).into();
        value["peer_congestion"] = names.peer.into();
        self.put(&value);
        self.told.retain(|(other, _)| *other != connection);
        self.flush();
    }

    /// The last frame: `done`, `interrupted`, or `failed: why`.
    pub fn end(&mut self, end: &str, cpu_s: f64) {
        let time_ns = self.stamp(self.clock.now());
        self.put(&json!({"frame": "end", "time_ns": time_ns, "end": end, "cpu_s": cpu_s}));
        self.flush();
    }
}

/// A frame as it stands in the file.
fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

#[derive(Serialize)]
struct Sample<'a> {
    frame: &'static str,
    time_ns: u64,
    due_ns: Option<u64>,
    connection: u32,
    #[serde(flatten)]
    sender: &'a Sender,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A wake-up 105 ms late at ticks of 50 ms: its samples were due at the first of three, the next ones are not.
    #[test]
    fn samples_tell_the_first_tick_that_was_due() {
        let file = std::env::temp_dir().join(format!("bentpipe-due-{}", std::process::id()));
        let plan = FramesPlan { file: file.clone(), interval_ns: 50_000_000 };
        let clock = Clock::start();
        let mut frames = Frames::new(Some(&plan), clock).unwrap();
        frames.begin(Time::ZERO, "client", "quic", "cubic", None).unwrap();
        let sender = Sender::default();
        let ms = |milliseconds: u64| Span(milliseconds * 1_000_000);
        let first = frames.wake_at();
        assert!(!frames.is_due(Time(first.0 - 1)));
        let mut at = first + ms(105);
        assert!(frames.is_due(at));
        frames.sample(at, 0, &sender, &[]);
        frames.sample(at, 1, &sender, &[]);
        assert_eq!(frames.wake_at(), first + ms(150));
        at = first + ms(151);
        assert!(frames.is_due(at));
        frames.sample(at, 0, &sender, &[]);
        // A server without a client has no ticks.
        frames.rest();
        at = first + ms(420);
        assert!(!frames.is_due(at));
        assert_eq!(frames.wake_at(), first + ms(450));
        frames.flush();
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let found: Vec<(u64, u64)> = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|row| row["frame"] == "sample")
            .map(|row| (row["due_ns"].as_u64().unwrap(), row["time_ns"].as_u64().unwrap()))
            .map(|(due, time)| (due - clock.monotonic_ns(first), time - due))
            .collect();
        assert_eq!(found, [(0, 105_000_000), (0, 105_000_000), (150_000_000, 1_000_000)]);
    }
}
