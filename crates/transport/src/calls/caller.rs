//! One side of a call, over whatever carries datagrams.

use bytes::BytesMut;
use units::{RandomStream, Span, Time};

use super::head::Head;
use super::source::{Said, Source};
use super::{Heard, PATIENCE, SourceSpec};
use crate::load::StreamReport;
use crate::{App, AppEvent, Side, Streams};

/// What one side has said, and what it has heard.
#[derive(Clone, Debug, Default)]
pub struct CallSide {
    /// None: it only listens, or has not begun.
    pub said: Option<Said>,
    /// What it has heard.
    pub heard: Heard,
}

/// One side of a call.
#[derive(Debug)]
pub struct Caller {
    spec: Option<SourceSpec>,
    duration: Span,
    random: RandomStream,
    /// How long after the end it waits for the other's last datagrams.
    linger: Span,
    source: Option<Source>,
    heard: Heard,
    /// When it closes, once it has begun.
    closing: Time,
    closed: bool,
    reports: Vec<StreamReport>,
}

impl Caller {
    /// What `side` does for `duration` from when it is ready: it sends as `spec` says, if it says, and listens.
    pub fn new(
        spec: Option<&SourceSpec>,
        duration: Span,
        side: Side,
        random: RandomStream,
    ) -> Caller {
        Caller {
            spec: spec.cloned(),
            duration,
            random,
            // The server begins later, and leaves the end to the client.
            linger: if side == Side::Client { PATIENCE } else { PATIENCE * 4 },
            source: None,
            heard: Heard::default(),
            closing: Time::MAX,
            closed: false,
            reports: Vec::new(),
        }
    }

    fn begin(&mut self, now: Time) {
        let random = self.random.clone();
        self.source = self.spec.as_ref().map(|spec| Source::new(spec, now, self.duration, random));
        self.closing = now + self.duration + self.linger;
        self.reports.push(StreamReport { mode: "datagrams", ..StreamReport::new(0, now) });
    }

    fn send(&mut self, now: Time, streams: &mut dyn Streams) {
        let (Some(source), Some(report)) = (&mut self.source, self.reports.first_mut()) else {
            return;
        };
        while let Some(head) = source.take(now) {
            let spec = &source.said().spec;
            let mut datagram = BytesMut::zeroed(spec.payload_bytes as usize);
            head.write(spec.rtp_type, &mut datagram);
            report.written += u64::from(spec.payload_bytes);
            // What the transport has no room for is lost.
            streams.send_datagram(datagram.freeze());
        }
        if source.wake_at() == Time::MAX {
            report.finished.get_or_insert(now);
        }
    }

    fn listen(&mut self, now: Time, streams: &mut dyn Streams) {
        while let Some(datagram) = streams.take_datagram() {
            let Some(head) = Head::read(&datagram) else { continue };
            if !self.heard.take(now, &head) {
                continue;
            }
            if let Some(report) = self.reports.first_mut() {
                report.received += datagram.len() as u64;
                report.received_in_order = report.received;
                report.first_byte.get_or_insert(now);
                report.last_byte = Some(now);
            }
        }
    }
}

impl App for Caller {
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        match event {
            AppEvent::Ready if self.reports.is_empty() => self.begin(now),
            AppEvent::Datagrams => self.listen(now, streams),
            AppEvent::Timer => {
                self.send(now, streams);
                if now >= self.closing && !std::mem::replace(&mut self.closed, true) {
                    streams.close();
                }
            }
            AppEvent::Closed => self.closed = true,
            AppEvent::Ready
            | AppEvent::Opened(_)
            | AppEvent::Readable(_)
            | AppEvent::WantData
            | AppEvent::Finished(_)
            | AppEvent::Stopped(_) => {}
        }
    }

    fn wake_at(&self) -> Time {
        if self.closed {
            return Time::MAX;
        }
        self.source.as_ref().map_or(Time::MAX, Source::wake_at).min(self.closing)
    }

    fn has_data(&self) -> bool {
        false
    }

    fn streams(&self) -> &[StreamReport] {
        &self.reports
    }

    fn call(&self) -> Option<CallSide> {
        let said = self.source.as_ref().map(|source| source.said().clone());
        Some(CallSide { said, heard: self.heard.clone() })
    }
}
