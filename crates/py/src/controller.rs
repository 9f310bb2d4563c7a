//! A congestion controller written in Python.
//!
//! A class with `__init__(self, config)` and `on_event(self, now, event)`; the latter returns the
//! congestion window in bytes, or a `Control`. It may have `cwnd` set by `__init__` (else the
//! initial window holds), `ssthresh` (bytes or None) and `trace()` (a dict of names and numbers).

use std::sync::{Arc, Mutex, PoisonError};

use cc::{CongestionControl, Control, Event};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use sim::CongestionSpec;
use units::{Rate, Span, Time};

/// What a controller is told when it is made.
#[pyclass(name = "Config", frozen, get_all)]
#[derive(Clone, Debug)]
pub struct PyConfig {
    /// Largest payload that the window counts, bytes.
    mss: u64,
    /// Initial congestion window, bytes.
    initial_window: u64,
    /// Least congestion window, bytes.
    minimum_window: u64,
    /// RTT assumed before the first sample, ns.
    initial_rtt_ns: u64,
    /// Seed for the controller's own chance.
    seed: u64,
    /// Options of the scenario, as JSON.
    options_json: String,
}

/// What a controller asks for.
#[pyclass(name = "Control", frozen, get_all)]
#[derive(Clone, Debug)]
pub struct PyControl {
    /// Congestion window, bytes.
    cwnd: u64,
    /// Pacing rate, bit/s; None: 1.25 cwnd / srtt.
    pacing_rate_bit_s: Option<u64>,
    /// Largest burst, bytes; None: the pacer's default.
    quantum: Option<u64>,
    /// When to send a "timer" event, ns; None: never.
    wake_at_ns: Option<u64>,
}

#[pymethods]
impl PyControl {
    #[new]
    #[pyo3(signature = (cwnd, pacing_rate_bit_s=None, quantum=None, wake_at_ns=None))]
    fn new(
        cwnd: u64,
        pacing_rate_bit_s: Option<u64>,
        quantum: Option<u64>,
        wake_at_ns: Option<u64>,
    ) -> PyControl {
        PyControl { cwnd, pacing_rate_bit_s, quantum, wake_at_ns }
    }
}

/// One event: the fields of an acknowledgement (zero for the other kinds).
#[pyclass(name = "Event", frozen)]
#[derive(Clone, Debug)]
pub struct PyEvent(Event);

macro_rules! ack_fields {
    ($($name:ident: $type:ty = $get:expr, $doc:literal;)*) => {
        #[pymethods]
        impl PyEvent {
            /// `"ack"`, `"timeout"`, `"spurious"`, `"restart"`, `"idle"`, `"mss"` or `"timer"`.
            #[getter]
            fn kind(&self) -> &'static str {
                match self.0 {
                    Event::Ack(_) => "ack",
                    Event::Timeout { .. } => "timeout",
                    Event::Spurious => "spurious",
                    Event::Restart => "restart",
                    Event::Idle { .. } => "idle",
                    Event::Mss(_) => "mss",
                    Event::Timer => "timer",
                }
            }

            /// The new largest payload of an `"mss"` event, bytes.
            #[getter]
            fn mss(&self) -> u64 {
                match self.0 {
                    Event::Mss(bytes) => bytes,
                    _ => 0,
                }
            }

            /// The restart window of an `"idle"` event, bytes.
            #[getter]
            fn window(&self) -> u64 {
                match self.0 {
                    Event::Idle { window } => window,
                    _ => 0,
                }
            }

            $(
                #[doc = $doc]
                #[getter]
                fn $name(&self) -> $type {
                    let get: fn(&cc::Ack) -> $type = $get;
                    match &self.0 {
                        Event::Ack(ack) => get(ack),
                        _ => Default::default(),
                    }
                }
            )*
        }
    };
}

ack_fields! {
    acked: u64 = |ack| ack.acked, "Bytes newly acknowledged.";
    acked_in_recovery: u64 = |ack| ack.acked_in_recovery, "The part of them sent before recovery began.";
    lost: u64 = |ack| ack.lost, "Bytes newly declared lost.";
    ecn_ce: bool = |ack| ack.ecn_ce, "The peer reported new CE marks.";
    congestion: bool = |ack| ack.congestion, "The one congestion signal of this round trip.";
    persistent: bool = |ack| ack.persistent, "Persistent congestion.";
    latest_rtt_ns: Option<u64> = |ack| ack.latest_rtt.map(Span::nanos), "This event's RTT sample.";
    smoothed_rtt_ns: u64 = |ack| ack.smoothed_rtt.nanos(), "Smoothed RTT.";
    min_rtt_ns: u64 = |ack| ack.min_rtt.nanos(), "Least RTT.";
    prior_in_flight: u64 = |ack| ack.prior_in_flight, "Bytes in flight before the event.";
    in_flight: u64 = |ack| ack.in_flight, "Bytes in flight after it.";
    delivered: u64 = |ack| ack.delivered, "Bytes delivered so far.";
    total_lost: u64 = |ack| ack.total_lost, "Bytes lost so far.";
    delivery_rate_bit_s: Option<u64> = |ack| ack.sample.map(|sample| sample.rate.bits_per_second()),
        "Delivery-rate sample.";
    round_start: bool = |ack| ack.round_start, "A new round begins.";
    rounds: u64 = |ack| ack.rounds, "Rounds so far.";
    cwnd_limited: bool = |ack| ack.cwnd_limited, "The window held the sender back.";
}

type Failure = Arc<Mutex<Option<PyErr>>>;

/// A Python object in the place of a controller.
pub struct Outside {
    object: Option<Py<PyAny>>,
    on_event: Py<PyString>,
    control: Control,
    failure: Failure,
}

impl Outside {
    /// A factory of controllers of one class. An exception is kept for the caller; the run then goes
    /// on with the last window, and its result is thrown away.
    pub fn factory(
        class: Py<PyAny>,
        spec: &CongestionSpec,
        config: &cc::Config,
        failure: &Failure,
    ) -> Box<dyn FnMut() -> Box<dyn CongestionControl> + Send> {
        let (options, config, failure) =
            (spec.options.to_string(), config.clone(), failure.clone());
        Box::new(move || {
            Python::attach(|py| {
                let given = PyConfig {
                    mss: config.mss,
                    initial_window: config.initial_window,
                    minimum_window: config.minimum_window(),
                    initial_rtt_ns: config.initial_rtt.nanos(),
                    seed: config.seed,
                    options_json: options.clone(),
                };
                let object = class.call1(py, (given,));
                let cwnd = object
                    .as_ref()
                    .ok()
                    .and_then(|object| object.getattr(py, "cwnd").ok()?.extract::<u64>(py).ok());
                let mut outside = Outside {
                    object: None,
                    on_event: PyString::intern(py, "on_event").unbind(),
                    control: Control::window(cwnd.unwrap_or(config.initial_window)),
                    failure: failure.clone(),
                };
                match object {
                    Ok(object) => outside.object = Some(object),
                    Err(error) => outside.fail(error),
                }
                Box::new(outside) as Box<dyn CongestionControl>
            })
        })
    }

    fn fail(&mut self, error: PyErr) {
        self.object = None;
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }
}

fn control(answer: &Bound<'_, PyAny>) -> PyResult<Control> {
    if let Ok(cwnd) = answer.extract::<u64>() {
        return Ok(Control::window(cwnd));
    }
    let answer = answer.cast::<PyControl>()?.get();
    Ok(Control {
        cwnd: answer.cwnd,
        pacing_rate: answer.pacing_rate_bit_s.map(Rate),
        quantum: answer.quantum,
        wake_at: answer.wake_at_ns.map_or(Time::MAX, Time),
    })
}

impl CongestionControl for Outside {
    fn initial(&mut self, _now: Time) -> Control {
        self.control
    }

    fn on_event(&mut self, now: Time, event: &Event) -> Control {
        let Some(object) = &self.object else { return self.control };
        let answer = Python::attach(|py| {
            let event = Py::new(py, PyEvent(*event))?;
            let answer = object.bind(py).call_method1(&self.on_event, (now.nanos(), event))?;
            control(&answer)
        });
        match answer {
            Ok(control) => self.control = control,
            Err(error) => self.fail(error),
        }
        self.control
    }

    fn ssthresh(&self) -> Option<u64> {
        let object = self.object.as_ref()?;
        Python::attach(|py| object.getattr(py, "ssthresh").ok()?.extract(py).ok())
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        let Some(object) = &self.object else { return };
        Python::attach(|py| {
            let Ok(values) = object.call_method0(py, "trace") else { return };
            let Ok(values) = values.cast_bound::<PyDict>(py) else { return };
            for (name, value) in values.iter() {
                if let (Ok(name), Ok(value)) = (name.extract::<String>(), value.extract::<f64>()) {
                    record(leak(name), value);
                }
            }
        });
    }
}

/// Names of internals are few and live as long as the process.
fn leak(name: String) -> &'static str {
    static NAMES: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    match names.iter().find(|known| **known == name) {
        Some(known) => known,
        None => {
            let known: &'static str = Box::leak(name.into_boxed_str());
            names.push(known);
            known
        }
    }
}
