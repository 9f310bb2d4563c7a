//! An application with a limit on the number of streams.

use transport::perf_load::{ControllerResponse, StreamReport};
use transport::{App, AppCommand, AppEvent, Streams};
use units::Time;

/// Refuses streams beyond a limit before they reach the inner application. The limit bounds a server's memory per
/// connection.
pub struct StreamLimit<A> {
    inner: A,
    remaining_streams: u64,
    /// The lowest refused id; ids of one type increase (RFC 9000 section 2.1).
    refused_from: u64,
}

impl<A: App> StreamLimit<A> {
    /// Limits `inner` to `streams` peer-initiated streams over the lifetime of the connection.
    pub fn new(inner: A, streams: u64) -> StreamLimit<A> {
        StreamLimit { inner, remaining_streams: streams, refused_from: u64::MAX }
    }
}

impl<A: App> App for StreamLimit<A> {
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        match event {
            // The perf protocol has no unidirectional streams.
            AppEvent::StreamOpened(id) if id & 2 != 0 => streams.stop(id),
            AppEvent::Readable(id) if id & 2 != 0 => {}
            AppEvent::StreamOpened(id) if self.remaining_streams == 0 => {
                self.refused_from = self.refused_from.min(id);
                streams.stop(id);
                streams.reset(id);
            }
            AppEvent::Readable(id) | AppEvent::Stopped(id) if id >= self.refused_from => {}
            event => {
                if let AppEvent::StreamOpened(_) = event {
                    self.remaining_streams -= 1;
                }
                self.inner.on_event(now, event, streams);
            }
        }
    }

    fn on_command(&mut self, order: AppCommand) {
        self.inner.on_command(order);
    }

    fn poll_at(&self) -> Time {
        self.inner.poll_at()
    }

    fn has_data(&self) -> bool {
        self.inner.has_data()
    }

    fn stream_reports(&self) -> &[StreamReport] {
        self.inner.stream_reports()
    }

    fn peer_controller(&self) -> Option<&ControllerResponse> {
        self.inner.peer_controller()
    }
}
