//! An application that takes no more streams than it was told to.

use transport::load::{Answer, StreamReport};
use transport::{App, AppEvent, Order, Streams};
use units::Time;

/// Keeps streams beyond a number from the application inside, and refuses them. What a server
/// remembers of a connection is bounded by it.
pub struct Bounded<A> {
    inner: A,
    left: u64,
    /// The first id that is refused; ids of one kind grow (RFC 9000 section 2.1).
    refused_from: u64,
}

impl<A: App> Bounded<A> {
    /// `inner`, with at most `streams` streams of the peer's over the connection's life.
    pub fn new(inner: A, streams: u64) -> Bounded<A> {
        Bounded { inner, left: streams, refused_from: u64::MAX }
    }
}

impl<A: App> App for Bounded<A> {
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        match event {
            // A unidirectional stream has no place in the perf protocol.
            AppEvent::Opened(id) if id & 2 != 0 => streams.stop(id),
            AppEvent::Readable(id) if id & 2 != 0 => {}
            AppEvent::Opened(id) if self.left == 0 => {
                self.refused_from = self.refused_from.min(id);
                streams.stop(id);
                streams.reset(id);
            }
            AppEvent::Readable(id) | AppEvent::Stopped(id) if id >= self.refused_from => {}
            event => {
                if let AppEvent::Opened(_) = event {
                    self.left -= 1;
                }
                self.inner.on(now, event, streams);
            }
        }
    }

    fn hear(&mut self, order: Order) {
        self.inner.hear(order);
    }

    fn wake_at(&self) -> Time {
        self.inner.wake_at()
    }

    fn has_data(&self) -> bool {
        self.inner.has_data()
    }

    fn streams(&self) -> &[StreamReport] {
        self.inner.streams()
    }

    fn told(&self) -> Option<&Answer> {
        self.inner.told()
    }
}
