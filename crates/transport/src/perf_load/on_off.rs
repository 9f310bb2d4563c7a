//! A source that alternates between sending and silence.

use bytes::Bytes;
use units::{RandomStream, Span, Time};

use super::{PeriodDistribution, StreamReport, zeros};
use crate::{App, AppEvent, Streams};

/// Interval at which a source with a configured rate writes to the transport.
const WRITE_INTERVAL: Span = Span::from_millis(10);

/// The sending side of an on-off source, over one stream that it opens.
#[derive(Debug)]
pub struct OnOffSource {
    on: Span,
    off: Span,
    draw: PeriodDistribution,
    rate_bit_s: Option<u64>,
    random: RandomStream,
    duration: Span,
    end: Time,
    is_on: bool,
    /// End of the current period.
    period_end: Time,
    next_write: Time,
    /// Bits owed to the transport, times 10^9.
    credit: u128,
    pending: u64,
    reports: Vec<StreamReport>,
    closed: bool,
}

impl OnOffSource {
    /// Creates a source with these periods that ends `duration` after it is ready.
    pub fn new(
        on: Span,
        off: Span,
        draw: PeriodDistribution,
        rate_bit_s: Option<u64>,
        duration: Span,
        random: RandomStream,
    ) -> OnOffSource {
        OnOffSource {
            on,
            off,
            draw,
            rate_bit_s,
            random,
            duration,
            end: Time::MAX,
            is_on: false,
            period_end: Time::MAX,
            next_write: Time::MAX,
            credit: 0,
            pending: 0,
            reports: Vec::new(),
            closed: false,
        }
    }

    fn next_period(&mut self, now: Time) {
        self.is_on = !self.is_on;
        let mean = if self.is_on { self.on } else { self.off };
        self.period_end = now + self.draw.length(mean, &mut self.random);
        self.next_write =
            if self.is_on && self.rate_bit_s.is_some() { now + WRITE_INTERVAL } else { Time::MAX };
        self.credit = 0;
    }

    fn flush(&mut self, streams: &mut dyn Streams) {
        let Some(report) = self.reports.first_mut() else { return };
        while self.pending > 0 {
            let data: Bytes = zeros(self.pending);
            let written = streams.write(report.id, data) as u64;
            self.pending -= written;
            report.written += written;
            if written == 0 {
                return;
            }
        }
    }

    fn finish(&mut self, now: Time, streams: &mut dyn Streams) {
        if let (false, Some(report)) = (self.closed, self.reports.first_mut()) {
            self.closed = true;
            report.finished = Some(now);
            streams.finish(report.id);
            streams.close();
        }
    }
}

impl App for OnOffSource {
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        match event {
            AppEvent::Ready if self.reports.is_empty() => {
                let Some(id) = streams.open() else { return };
                self.reports.push(StreamReport { mode: "on_off", ..StreamReport::new(id, now) });
                self.end = now + self.duration;
                // The response size at the start of the stream: no response.
                self.pending = 8;
                self.flush(streams);
                self.next_period(now);
            }
            AppEvent::Timer => {
                if now >= self.end {
                    self.finish(now, streams);
                    return;
                }
                if let (true, Some(rate)) = (now >= self.next_write, self.rate_bit_s) {
                    self.credit += u128::from(rate) * u128::from(WRITE_INTERVAL.nanos());
                    let bytes = self.credit / 8_000_000_000;
                    self.credit -= bytes * 8_000_000_000;
                    self.pending += bytes as u64;
                    self.next_write = now + WRITE_INTERVAL;
                    self.flush(streams);
                }
                if now >= self.period_end {
                    self.next_period(now);
                    if self.is_on && self.rate_bit_s.is_none() {
                        self.on_event(now, AppEvent::Writable, streams);
                    }
                }
            }
            AppEvent::Writable => {
                if self.is_on && self.rate_bit_s.is_none() && !self.closed {
                    self.pending = self.pending.max(streams.write_budget() as u64);
                }
                self.flush(streams);
            }
            AppEvent::Ready
            | AppEvent::StreamOpened(_)
            | AppEvent::Readable(_)
            | AppEvent::Finished(_)
            | AppEvent::Stopped(_)
            | AppEvent::DatagramsReceived
            | AppEvent::Closed => {}
        }
    }

    fn poll_at(&self) -> Time {
        if self.closed { Time::MAX } else { self.period_end.min(self.next_write).min(self.end) }
    }

    fn has_data(&self) -> bool {
        !self.closed && (self.pending > 0 || (self.is_on && self.rate_bit_s.is_none()))
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &self.reports
    }
}
