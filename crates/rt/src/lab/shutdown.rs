//! External requests to end a session: signals, and the end of the parent process.

use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::parent_process::ParentProcess;

/// Base of the exit status after a signal, in the convention of shells.
const SIGNAL_EXIT_BASE: i32 = 128;

/// The request to end the session.
#[derive(Debug)]
pub struct ShutdownSignal {
    signals: Option<Signals>,
    shared: Arc<ShutdownState>,
}

#[derive(Debug, Default)]
struct ShutdownState {
    /// Whether the near commands have started. From then on the session terminates them first.
    have_commands_started: Mutex<bool>,
    is_requested: AtomicBool,
}

impl ShutdownSignal {
    /// Registers the signals. They wait until a thread takes them.
    ///
    /// # Errors
    /// Returns the error of the kernel.
    pub fn prepare() -> io::Result<ShutdownSignal> {
        let signals = Some(Signals::new([SIGINT, SIGTERM, SIGHUP])?);
        Ok(ShutdownSignal { signals, shared: Arc::default() })
    }

    /// Starts threads that take the signals and wait for the end of `parent`. A process with several threads cannot
    /// enter a user namespace.
    ///
    /// # Errors
    /// Returns an error if no thread can be created.
    pub fn spawn_watchers(&mut self, parent: Option<ParentProcess>) -> io::Result<()> {
        let Some(mut signals) = self.signals.take() else { return Ok(()) };
        let shared = self.shared.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                shared.request(signal);
            }
        })?;
        if let Some(parent) = parent {
            let shared = self.shared.clone();
            thread::Builder::new().name("starter".to_owned()).spawn(move || {
                parent.wait();
                shared.request(SIGHUP);
            })?;
        }
        Ok(())
    }

    /// Marks the start of the near commands. Ctrl-C is for them from now on.
    pub fn on_commands_started(&self) {
        if let Ok(mut has_started) = self.shared.have_commands_started.lock() {
            *has_started = true;
        }
    }

    /// Returns whether the session must end.
    pub fn is_requested(&self) -> bool {
        self.shared.is_requested.load(Ordering::Relaxed)
    }
}

impl ShutdownState {
    fn request(&self, signal: i32) {
        let has_started = self.have_commands_started.lock();
        if has_started.is_ok_and(|started| !*started) {
            // All unfinished setup ends with this process.
            process::exit(SIGNAL_EXIT_BASE + signal);
        }
        if signal != SIGINT {
            self.is_requested.store(true, Ordering::Relaxed);
        }
    }
}
