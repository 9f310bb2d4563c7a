//! The application of one QUIC connection: turns the transport's events into wake-ups, and polls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{self, Wake, Waker};

use transport::load::StreamReport;
use transport::{App, AppEvent, Streams};
use units::Time;

use super::respond::{Context, serve};
use super::state::{H3_NO_ERROR, Shared, WINDOW};

/// Whether something that a future waits for has come.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// HTTP/3 on one connection.
pub(in crate::http) struct WebApp {
    pub(super) shared: Shared,
    context: Arc<Context>,
    index: u32,
    task: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    flag: Arc<Flag>,
    waker: Waker,
    opened: bool,
}

impl WebApp {
    /// The application of connection number `index`.
    pub(in crate::http) fn new(index: u32, context: Arc<Context>) -> WebApp {
        let shared = Shared::default();
        shared.lock().most_request = u64::from(context.header_bytes) + WINDOW;
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        WebApp {
            task: Some(Box::pin(serve(shared.clone(), context.clone(), index))),
            shared,
            context,
            index,
            waker: flag.clone().into(),
            flag,
            opened: false,
        }
    }

    /// Polls and writes until neither makes progress.
    fn turn(&mut self, now: Time, mut budget: usize, streams: &mut dyn Streams) {
        let at = self.context.clock.monotonic_ns(now);
        loop {
            if self.flag.0.swap(false, Ordering::Relaxed)
                && let Some(task) = &mut self.task
                && task.as_mut().poll(&mut task::Context::from_waker(&self.waker)).is_ready()
            {
                self.task = None;
                self.shared.lock().close.get_or_insert(H3_NO_ERROR);
            }
            self.shared.lock().pump(at, &mut budget, streams);
            if !self.flag.0.load(Ordering::Relaxed) {
                break;
            }
        }
        let done = std::mem::take(&mut self.shared.lock().done);
        for mut record in done {
            record.peer = self.context.peer(self.index);
            self.context.log.add(&record);
        }
    }
}

impl App for WebApp {
    fn on(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        let mut budget = 0;
        {
            let state = &mut *self.shared.lock();
            state.now = now;
            match event {
                AppEvent::Ready => {
                    if !std::mem::replace(&mut self.opened, true) {
                        state.open_own(streams);
                    }
                }
                AppEvent::Opened(id) => {
                    state.accept(id);
                    state.read(id, streams);
                }
                AppEvent::Readable(id) => state.read(id, streams),
                AppEvent::WantData => budget = streams.appetite(),
                AppEvent::Finished(id) => {
                    state.acknowledged(id, self.context.clock.monotonic_ns(now));
                }
                AppEvent::Stopped(id) => state.stopped(id, streams),
                AppEvent::Timer => state.ring(),
                AppEvent::Closed => state.over(),
                // None are asked for.
                AppEvent::Datagrams => {}
            }
        }
        self.turn(now, budget, streams);
        if self.task.is_none() || self.shared.lock().closed {
            // Nothing is answered any more.
            self.task = None;
        }
    }

    fn wake_at(&self) -> Time {
        self.shared.lock().sleepers.first_key_value().map_or(Time::MAX, |((at, _), _)| *at)
    }

    fn has_data(&self) -> bool {
        self.shared.lock().has_data()
    }

    fn streams(&self) -> &[StreamReport] {
        &[]
    }
}
