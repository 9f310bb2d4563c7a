//! The application of one QUIC connection: converts events of the transport to wake-ups, and polls.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{self, Wake, Waker};

use transport::perf_load::StreamReport;
use transport::{App, AppEvent, Streams};
use units::Time;

use super::respond::{QuicServerContext, serve_connection};
use super::state::{H3_NO_ERROR, STREAM_WINDOW, SharedH3State};

/// Set when a future has to be polled again.
struct WakeFlag(AtomicBool);

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// HTTP/3 on one connection.
pub struct Http3App {
    /// The state, shared with its futures.
    pub shared: SharedH3State,
    context: Arc<QuicServerContext>,
    index: u32,
    task: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    flag: Arc<WakeFlag>,
    waker: Waker,
    opened: bool,
}

impl Http3App {
    /// Creates the application of connection number `index`.
    pub fn new(index: u32, context: Arc<QuicServerContext>) -> Http3App {
        let shared = SharedH3State::default();
        shared.lock().max_request_bytes = u64::from(context.header_bytes) + STREAM_WINDOW;
        let flag = Arc::new(WakeFlag(AtomicBool::new(true)));
        Http3App {
            task: Some(Box::pin(serve_connection(shared.clone(), context.clone(), index))),
            shared,
            context,
            index,
            waker: flag.clone().into(),
            flag,
            opened: false,
        }
    }

    /// Polls and writes until neither makes progress.
    fn poll_task(&mut self, now: Time, mut budget: usize, streams: &mut dyn Streams) {
        let at = self.context.clock.monotonic_ns(now);
        loop {
            if self.flag.0.swap(false, Ordering::Relaxed)
                && let Some(task) = &mut self.task
                && task.as_mut().poll(&mut task::Context::from_waker(&self.waker)).is_ready()
            {
                self.task = None;
                self.shared.lock().close.get_or_insert(H3_NO_ERROR);
            }
            self.shared.lock().transmit(at, &mut budget, streams);
            if !self.flag.0.load(Ordering::Relaxed) {
                break;
            }
        }
        let done = std::mem::take(&mut self.shared.lock().finished_records);
        for mut record in done {
            record.peer = self.context.peer(self.index);
            self.context.log.add(&record);
        }
    }
}

impl App for Http3App {
    fn on_event(&mut self, now: Time, event: AppEvent, streams: &mut dyn Streams) {
        let mut budget = 0;
        {
            let state = &mut *self.shared.lock();
            state.now = now;
            match event {
                AppEvent::Ready => {
                    if !std::mem::replace(&mut self.opened, true) {
                        state.open_local_streams(streams);
                    }
                }
                AppEvent::StreamOpened(id) => {
                    state.accept(id);
                    state.read(id, streams);
                }
                AppEvent::Readable(id) => state.read(id, streams),
                AppEvent::Writable => budget = streams.write_budget(),
                AppEvent::Finished(id) => {
                    state.on_acknowledged(id, self.context.clock.monotonic_ns(now));
                }
                AppEvent::Stopped(id) => state.on_stopped(id, streams),
                AppEvent::Timer => state.fire_timers(),
                AppEvent::Closed => state.on_closed(),
                // HTTP/3 requests no datagrams here.
                AppEvent::DatagramsReceived => {}
            }
        }
        self.poll_task(now, budget, streams);
        if self.task.is_none() || self.shared.lock().closed {
            // No response is sent any more.
            self.task = None;
        }
    }

    fn poll_at(&self) -> Time {
        self.shared.lock().timers.first_key_value().map_or(Time::MAX, |((at, _), _)| *at)
    }

    fn has_data(&self) -> bool {
        self.shared.lock().has_data()
    }

    fn stream_reports(&self) -> &[StreamReport] {
        &[]
    }
}
