//! One side of a call, over any transport with datagrams.

use bytes::BytesMut;
use units::{RandomStream, Span, Time};

use super::rtp_header::MediaHeader;
use super::source::MediaSource;
use super::{LOSS_TIMEOUT, MediaReport, ReceiverStats, SourceSpec};
use crate::perf_load::StreamReport;
use crate::{App, AppEvent, Side, Streams};

/// One side of a call.
#[derive(Debug)]
pub struct MediaSide {
    spec: Option<SourceSpec>,
    duration: Span,
    random: RandomStream,
    /// Wait for the last datagrams of the peer after the end.
    linger: Span,
    source: Option<MediaSource>,
    receiver_stats: ReceiverStats,
    /// Time of the close, once the side has begun.
    closing: Time,
    closed: bool,
    reports: Vec<StreamReport>,
}

impl MediaSide {
    /// Creates `side`, which runs for `duration` after it is ready. It sends if there is a `spec`, and it receives.
    pub fn new(
        spec: Option<&SourceSpec>,
        duration: Span,
        side: Side,
        random: RandomStream,
    ) -> MediaSide {
        MediaSide {
            spec: spec.cloned(),
            duration,
            random,
            // The server begins later, and the client closes first.
            linger: if side == Side::Client { LOSS_TIMEOUT } else { LOSS_TIMEOUT * 4 },
            source: None,
            receiver_stats: ReceiverStats::default(),
            closing: Time::MAX,
            closed: false,
            reports: Vec::new(),
        }
    }

    fn begin(&mut self, now: Time) {
        let random = self.random.clone();
        self.source =
            self.spec.as_ref().map(|spec| MediaSource::new(spec, now, self.duration, random));
        self.closing = now + self.duration + self.linger;
        self.reports.push(StreamReport { mode: "datagrams", ..StreamReport::new(0, now) });
    }

    fn send(&mut self, now: Time, streams: &mut dyn Streams) {
        let (Some(source), Some(report)) = (&mut self.source, self.reports.first_mut()) else {
            return;
        };
        while let Some(head) = source.next_datagram(now) {
            let spec = &source.stats().spec;
            let mut datagram = BytesMut::zeroed(spec.payload_bytes as usize);
            head.write(spec.rtp_type, &mut datagram);
            report.written += u64::from(spec.payload_bytes);
            // A datagram that the transport cannot queue is lost.
            streams.send_datagram(datagram.freeze());
        }
        if source.poll_at() == Time::MAX {
            report.finished.get_or_insert(now);
        }
    }

    fn receive(&mut self, now: Time, streams: &mut dyn Streams) {
        while let Some(datagram) = streams.take_datagram() {
            let Some(head) = MediaHeader::read(&datagram) else { continue };
            if !self.receiver_stats.on_datagram(now, &head) {
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

impl App for MediaSide {
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        match event {
            AppEvent::Ready if self.reports.is_empty() => self.begin(now),
            AppEvent::DatagramsReceived => self.receive(now, streams),
            AppEvent::Timer => {
                self.send(now, streams);
                if now >= self.closing && !std::mem::replace(&mut self.closed, true) {
                    streams.close();
                }
            }
            AppEvent::Closed => self.closed = true,
            AppEvent::Ready
            | AppEvent::StreamOpened(_)
            | AppEvent::Readable(_)
            | AppEvent::Writable
            | AppEvent::Finished(_)
            | AppEvent::Stopped(_) => {}
        }
    }

    fn poll_at(&self) -> Time {
        if self.closed {
            return Time::MAX;
        }
        self.source.as_ref().map_or(Time::MAX, MediaSource::poll_at).min(self.closing)
    }

    fn has_data(&self) -> bool {
        false
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &self.reports
    }

    fn media_report(&self) -> Option<MediaReport> {
        let sent = self.source.as_ref().map(|source| source.stats().clone());
        Some(MediaReport { sent, received: self.receiver_stats.clone() })
    }
}
