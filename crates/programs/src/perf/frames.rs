//! Measurements for programs: one JSON value per line (docs/how-to/perf.md). Times are of CLOCK_MONOTONIC, so that both
//! sides on one machine share a clock, in any network namespace.

use std::collections::BTreeSet;

use runtime::{Clock, ResultFile};
use serde::Serialize;
use serde_json::{Value, json};
use transport::perf_load::StreamReport;
use transport::quic::CloseReason;
use units::{Span, Time};

use super::report::{ControllerNames, completed_at};
use super::{FramesPlan, SenderReport};
use crate::ProgramError;

/// The version of the format; since version 2 samples contain their due time.
const FRAME_VERSION: u32 = 2;

/// A connection with a complete handshake.
#[derive(Clone, Debug)]
pub struct ConnectionFrame<'a> {
    /// The number of the connection.
    pub connection: u32,
    /// `quic`, `tcp` or `tls`.
    pub transport: &'static str,
    /// The local address.
    pub local: String,
    /// The peer address.
    pub remote: String,
    /// The controller of the sent data.
    pub congestion: &'a str,
    /// The time of the first packet.
    pub started_at: Time,
    /// The time when the handshake was complete.
    pub connected_at: Time,
    /// Data bytes of a full packet: the UDP payload of QUIC, the segment of TCP.
    pub mss_bytes: u64,
}

/// Writes frames to a file; without a file it does nothing.
pub struct FrameWriter {
    out: Option<ResultFile>,
    clock: Clock,
    interval: Span,
    next_sample_at: Time,
    /// The tick of the samples in progress.
    due: Option<Time>,
    /// Whether the process waits without ticks.
    is_paused: bool,
    written_streams: BTreeSet<(u32, u64)>,
    /// The time of the last frame.
    last_time_ns: u64,
}

impl FrameWriter {
    /// Creates a writer from the plan.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(plan: Option<&FramesPlan>, clock: Clock) -> Result<FrameWriter, ProgramError> {
        let mut frames = FrameWriter {
            out: None,
            clock,
            interval: Span(u64::MAX / 2),
            next_sample_at: Time::MAX,
            due: None,
            is_paused: false,
            written_streams: BTreeSet::new(),
            last_time_ns: 0,
        };
        if let Some(plan) = plan {
            let made =
                ResultFile::create("json-stream", &plan.file).map_err(ProgramError::Input)?;
            frames.out = Some(made);
            frames.interval = Span(plan.interval_ns.max(1));
            frames.next_sample_at = frames.tick_after(clock.now());
        }
        Ok(frames)
    }

    /// Returns the next multiple of the interval after `now`.
    fn tick_after(&self, now: Time) -> Time {
        let interval = self.interval.nanos();
        now + Span(interval - self.clock.monotonic_ns(now) % interval)
    }

    fn to_monotonic_ns(&self, time: Time) -> u64 {
        self.clock.monotonic_ns(time)
    }

    /// Returns the time of a frame: `now`, but at least that of the last frame, because events can be reported late.
    fn next_time_ns(&mut self, now: Time) -> u64 {
        self.last_time_ns = self.last_time_ns.max(self.to_monotonic_ns(now));
        self.last_time_ns
    }

    /// Returns the time of the next samples.
    pub fn poll_at(&self) -> Time {
        self.next_sample_at
    }

    /// Returns whether samples are due at `now`, and then schedules the next tick. The samples carry the first due
    /// tick; later ticks up to `now` were missed.
    pub fn is_due(&mut self, now: Time) -> bool {
        if self.is_paused {
            self.is_paused = false;
            self.next_sample_at = self.tick_after(now);
        }
        let due = now >= self.next_sample_at;
        if due {
            self.due = Some(self.next_sample_at);
            self.next_sample_at = self.tick_after(now);
        }
        due
    }

    /// Stops the ticks until the next wake-up, while the process waits for a client.
    pub fn pause(&mut self) {
        self.is_paused = true;
    }

    fn write_frame(&mut self, value: &impl Serialize) {
        if let Some(out) = &mut self.out {
            out.append_line(&encode_frame(value));
        }
    }

    /// Writes the buffered frames to the file.
    pub fn flush(&mut self) {
        if let Some(out) = &mut self.out {
            out.flush();
        }
    }

    /// Returns whether frames are missing because the disk was full.
    pub fn is_incomplete(&self) -> bool {
        self.out.as_ref().is_some_and(ResultFile::is_incomplete)
    }

    /// Writes the first frame, which describes this side.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write_begin(
        &mut self,
        now: Time,
        role: &str,
        transport: &str,
        congestion: &str,
        kernel: Option<&str>,
    ) -> Result<(), ProgramError> {
        let value = json!({
            "frame": "begin", "version": FRAME_VERSION, "time_ns": self.next_time_ns(now), "role": role,
            "transport": transport, "congestion": congestion, "kernel_congestion": kernel,
            "interval_ns": self.interval.nanos(), "program": env!("CARGO_PKG_VERSION"),
        });
        match &mut self.out {
            Some(out) => out.write_header(&encode_frame(&value)).map_err(ProgramError::Input),
            None => Ok(()),
        }
    }

    /// Writes a connection with a complete handshake.
    pub fn write_connection(&mut self, now: Time, opening: &ConnectionFrame<'_>) {
        let value = json!({
            "frame": "connection", "time_ns": self.next_time_ns(now), "connection": opening.connection,
            "transport": opening.transport, "local": opening.local, "remote": opening.remote,
            "congestion": opening.congestion, "start_ns": self.to_monotonic_ns(opening.started_at),
            "connected_ns": self.to_monotonic_ns(opening.connected_at), "mss_bytes": opening.mss_bytes,
        });
        self.write_frame(&value);
    }

    /// Writes the sample of a connection at a tick, and its finished streams.
    pub fn write_sample(
        &mut self,
        now: Time,
        connection: u32,
        sender: &SenderReport,
        streams: &[StreamReport],
    ) {
        if self.out.is_none() {
            return;
        }
        self.write_streams(now, connection, streams, false);
        let (time_ns, due_ns) =
            (self.next_time_ns(now), self.due.map(|due| self.to_monotonic_ns(due)));
        self.write_frame(&SampleFrame { frame: "sample", time_ns, due_ns, connection, sender });
    }

    fn write_streams(&mut self, now: Time, connection: u32, streams: &[StreamReport], all: bool) {
        for stream in streams {
            let over = completed_at(stream).is_some();
            if !(over || all) || !self.written_streams.insert((connection, stream.id)) {
                continue;
            }
            let time_ns = self.next_time_ns(now);
            let instant = |time: Option<Time>| time.map(|time| self.to_monotonic_ns(time));
            let value = json!({
                "frame": "stream", "time_ns": time_ns, "connection": connection,
                "stream_id": stream.id, "label": stream.label, "mode": stream.mode,
                "opened_ns": self.to_monotonic_ns(stream.opened), "first_byte_ns": instant(stream.first_byte),
                "last_byte_ns": instant(stream.last_byte), "fin_ns": instant(stream.fin),
                "finished_ns": instant(stream.finished), "written_bytes": stream.written,
                "received_bytes": stream.received,
                "received_in_order_bytes": stream.received_in_order, "done": over,
            });
            self.write_frame(&value);
        }
    }

    /// Writes the close of a connection at `ended`; `end` is `None` after an interruption.
    pub fn write_end_connection(
        &mut self,
        ended: Time,
        connection: u32,
        end: Option<&CloseReason>,
        sender: &SenderReport,
        streams: &[StreamReport],
        names: ControllerNames<'_>,
    ) {
        if self.out.is_none() {
            return;
        }
        let now = self.clock.now();
        self.write_streams(now, connection, streams, true);
        let end = match end {
            None => "interrupted".to_owned(),
            Some(CloseReason::Local | CloseReason::Peer) => "closed".to_owned(),
            Some(CloseReason::Lost(why)) => format!("lost: {why}"),
        };
        let (time_ns, ended_ns) = (self.next_time_ns(now), self.to_monotonic_ns(ended));
        // A due tick without a sample so far.
        let due_ns = (now >= self.next_sample_at && !self.is_paused)
            .then(|| self.to_monotonic_ns(self.next_sample_at));
        let cwnd_max_bytes = sender.cwnd_max_bytes;
        let sample = SampleFrame { frame: "end_connection", time_ns, due_ns, connection, sender };
        let mut value: Value = serde_json::to_value(sample).unwrap_or_default();
        value["end"] = end.into();
        value["ended_ns"] = ended_ns.into();
        value["cwnd_max_bytes"] = cwnd_max_bytes.into();
        value["congestion"] = names.local_if_sending(sender).into();
        value["peer_congestion"] = names.peer.into();
        self.write_frame(&value);
        self.written_streams.retain(|(other, _)| *other != connection);
        self.flush();
    }

    /// Writes the last frame: `done`, `interrupted`, or `failed: why`.
    pub fn write_end(&mut self, end: &str, cpu_s: f64) {
        let time_ns = self.next_time_ns(self.clock.now());
        self.write_frame(&json!({"frame": "end", "time_ns": time_ns, "end": end, "cpu_s": cpu_s}));
        self.flush();
    }
}

/// Encodes a frame as a line of the file.
fn encode_frame(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}

#[derive(Serialize)]
struct SampleFrame<'a> {
    frame: &'static str,
    time_ns: u64,
    due_ns: Option<u64>,
    connection: u32,
    #[serde(flatten)]
    sender: &'a SenderReport,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a wake-up 105 ms late at ticks of 50 ms, samples carry the first of three ticks; the next are not late.
    #[test]
    fn samples_contain_the_first_due_tick() {
        let file = std::env::temp_dir().join(format!("bentpipe-due-{}", std::process::id()));
        let plan = FramesPlan { file: file.clone(), interval_ns: 50_000_000 };
        let clock = Clock::start();
        let mut frames = FrameWriter::new(Some(&plan), clock).unwrap();
        frames.write_begin(Time::ZERO, "client", "quic", "cubic", None).unwrap();
        let sender = SenderReport::default();
        let ms = |milliseconds: u64| Span(milliseconds * 1_000_000);
        let first = frames.poll_at();
        assert!(!frames.is_due(Time(first.0 - 1)));
        let mut at = first + ms(105);
        assert!(frames.is_due(at));
        frames.write_sample(at, 0, &sender, &[]);
        frames.write_sample(at, 1, &sender, &[]);
        assert_eq!(frames.poll_at(), first + ms(150));
        at = first + ms(151);
        assert!(frames.is_due(at));
        frames.write_sample(at, 0, &sender, &[]);
        // A server without a client has no ticks.
        frames.pause();
        at = first + ms(420);
        assert!(!frames.is_due(at));
        assert_eq!(frames.poll_at(), first + ms(450));
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
