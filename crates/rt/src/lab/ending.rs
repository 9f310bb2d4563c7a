//! What ends a session from outside: signals, and the end of whoever started it.

use std::io;
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::starter::Starter;

/// How shells give the end by a signal.
const SIGNALLED: i32 = 128;

/// Whether the session is to end.
#[derive(Debug)]
pub struct Ending {
    signals: Option<Signals>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// The near commands have begun: they are asked first.
    begun: Mutex<bool>,
    asked: AtomicBool,
}

impl Ending {
    /// From now on signals wait to be taken.
    ///
    /// # Errors
    /// The kernel's.
    pub fn prepare() -> io::Result<Ending> {
        let signals = Some(Signals::new([SIGINT, SIGTERM, SIGHUP])?);
        Ok(Ending { signals, shared: Arc::default() })
    }

    /// Takes signals, and the end of the `starter`, on threads of their own: before that, a process may still get a
    /// user namespace.
    ///
    /// # Errors
    /// No thread can be made.
    pub fn watch(&mut self, starter: Option<Starter>) -> io::Result<()> {
        let Some(mut signals) = self.signals.take() else { return Ok(()) };
        let shared = self.shared.clone();
        thread::Builder::new().name("signals".to_owned()).spawn(move || {
            for signal in signals.forever() {
                shared.ask(signal);
            }
        })?;
        if let Some(starter) = starter {
            let shared = self.shared.clone();
            thread::Builder::new().name("starter".to_owned()).spawn(move || {
                starter.wait();
                shared.ask(SIGHUP);
            })?;
        }
        Ok(())
    }

    /// The near commands begin. Ctrl-C is theirs from now on.
    pub fn begin(&self) {
        if let Ok(mut begun) = self.shared.begun.lock() {
            *begun = true;
        }
    }

    /// Whether the session is to end.
    pub fn is_asked(&self) -> bool {
        self.shared.asked.load(Ordering::Relaxed)
    }
}

impl Shared {
    fn ask(&self, signal: i32) {
        let begun = self.begun.lock();
        if begun.is_ok_and(|begun| !*begun) {
            // Whatever is being made ends with this process.
            process::exit(SIGNALLED + signal);
        }
        if signal != SIGINT {
            self.asked.store(true, Ordering::Relaxed);
        }
    }
}
