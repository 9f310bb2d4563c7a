//! A congestion controller written in Python.
//!
//! The class has `__init__(self, config)` and `on_event(self, now, event)`, which returns the congestion window in
//! bytes or a `Control`. `__init__` can set `cwnd`; the default is the initial window. Optional are `ssthresh` (bytes
//! or None) and `trace()` (a dict of names and numbers).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cc::{CongestionControl, ControlOutput, ControllerEvent};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use spec::CongestionSpec;
use units::{Rate, Span, Time};

/// The configuration of a new controller.
#[pyclass(name = "Config", frozen, get_all)]
#[derive(Clone, Debug)]
pub struct PyConfig {
    /// The largest payload that the window counts, bytes.
    mss: u64,
    /// The initial congestion window, bytes.
    initial_window: u64,
    /// The minimum congestion window, bytes.
    minimum_window: u64,
    /// The RTT assumed before the first sample, ns.
    initial_rtt_ns: u64,
    /// The seed for random numbers of the controller.
    seed: u64,
    /// The options of the scenario, as JSON.
    options_json: String,
}

/// The output of a controller.
#[pyclass(name = "Control", frozen, get_all)]
#[derive(Clone, Debug)]
pub struct PyControl {
    /// The congestion window, bytes.
    cwnd: u64,
    /// The pacing rate, bit/s; None means 1.25 cwnd / srtt.
    pacing_rate_bit_s: Option<u64>,
    /// The largest burst, bytes; None means the default of the pacer.
    quantum: Option<u64>,
    /// The time of the next "timer" event, ns; None means never.
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

/// An event with the fields of an acknowledgement. They are zero for other kinds without a field of that name.
#[pyclass(name = "Event", frozen)]
#[derive(Clone, Debug)]
pub struct PyEvent(ControllerEvent);

macro_rules! ack_fields {
    ($($name:ident: $type:ty = $get:expr, $doc:literal;)*) => {
        #[pymethods]
        impl PyEvent {
            /// `"ack"`, `"timeout"`, `"spurious"`, `"restart"`, `"idle"`, `"mss"` or `"timer"`.
            #[getter]
            fn kind(&self) -> &'static str {
                match self.0 {
                    ControllerEvent::Ack(_) => "ack",
                    ControllerEvent::Timeout { .. } => "timeout",
                    ControllerEvent::SpuriousLoss => "spurious",
                    ControllerEvent::RestartFromIdle => "restart",
                    ControllerEvent::CwndRestart { .. } => "idle",
                    ControllerEvent::MssChanged(_) => "mss",
                    ControllerEvent::Timer => "timer",
                }
            }

            /// The new largest payload of an `"mss"` event, bytes.
            #[getter]
            fn mss(&self) -> u64 {
                match self.0 {
                    ControllerEvent::MssChanged(bytes) => bytes,
                    _ => 0,
                }
            }

            /// The restart window of an `"idle"` event, bytes.
            #[getter]
            fn window(&self) -> u64 {
                match self.0 {
                    ControllerEvent::CwndRestart { window } => window,
                    _ => 0,
                }
            }

            /// The FlightSize of a `"timeout"` event: bytes outstanding before any was declared lost.
            #[getter]
            fn flight_size(&self) -> u64 {
                match self.0 {
                    ControllerEvent::Timeout { flight_size, .. } => flight_size,
                    _ => 0,
                }
            }

            /// The bytes in flight after an acknowledgement, or after a `"timeout"` has declared losses.
            #[getter]
            fn in_flight(&self) -> u64 {
                match self.0 {
                    ControllerEvent::Ack(cc::AckEvent { in_flight, .. }) | ControllerEvent::Timeout { in_flight, .. } => {
                        in_flight
                    }
                    _ => 0,
                }
            }

            $(
                #[doc = $doc]
                #[getter]
                fn $name(&self) -> $type {
                    let get: fn(&cc::AckEvent) -> $type = $get;
                    match &self.0 {
                        ControllerEvent::Ack(ack) => get(ack),
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
    ecn_ce: bool = |ack| ack.has_new_ce_marks, "The peer reported new CE marks.";
    congestion: bool = |ack| ack.is_congestion_event, "The only congestion signal of this round trip.";
    persistent: bool = |ack| ack.is_persistent_congestion, "Persistent congestion.";
    is_in_rto_recovery: bool = |ack| ack.is_in_rto_recovery, "Recovery from a retransmission timeout is not complete.";
    latest_rtt_ns: Option<u64> = |ack| ack.latest_rtt.map(Span::nanos), "This event's RTT sample.";
    smoothed_rtt_ns: u64 = |ack| ack.smoothed_rtt.nanos(), "Smoothed RTT.";
    min_rtt_ns: u64 = |ack| ack.min_rtt.nanos(), "Minimum RTT.";
    prior_in_flight: u64 = |ack| ack.prior_in_flight, "Bytes in flight before the event.";
    delivered: u64 = |ack| ack.delivered, "Bytes delivered so far.";
    total_lost: u64 = |ack| ack.total_lost, "Bytes lost so far.";
    delivery_rate_bit_s: Option<u64> = |ack| ack.rate_sample.map(|sample| sample.rate.bits_per_second()),
        "Delivery-rate sample.";
    round_start: bool = |ack| ack.is_round_start, "A new round begins.";
    rounds: u64 = |ack| ack.round_count, "Rounds so far.";
    cwnd_limited: bool = |ack| ack.is_cwnd_limited, "The flight of the last round used the window.";
    credited: u64 = cc::AckEvent::credited, "Bytes for which the window may grow.";
}

/// The first Python exception of a run. It ends the run.
#[derive(Default)]
pub struct PythonError {
    error: Mutex<Option<PyErr>>,
    /// Set together with the exception.
    pub stop_requested: AtomicBool,
}

impl PythonError {
    /// Returns the exception, with a note that names its source.
    pub fn take(&self) -> Option<PyErr> {
        self.error.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Stores the first exception with a note that names its source, and ends the run.
    pub fn fail(&self, py: Python<'_>, error: PyErr, note: String) {
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if first.is_none() {
            // An exception that takes no note is raised without one.
            let _ = error.value(py).call_method1("add_note", (note,));
            *first = Some(error);
        }
        self.stop_requested.store(true, Ordering::Relaxed);
    }
}

/// An adapter from a Python object to a controller.
pub struct PythonController {
    name: Arc<str>,
    object: Option<Py<PyAny>>,
    on_event: Py<PyString>,
    control: ControlOutput,
    python_error: Arc<PythonError>,
}

impl PythonController {
    /// Returns a builder of controllers of one class. An exception is stored for the caller and stops the run.
    pub fn builder(
        class: Py<PyAny>,
        spec: &CongestionSpec,
        config: &cc::ControllerConfig,
        python_error: &Arc<PythonError>,
    ) -> Box<dyn FnMut() -> Box<dyn CongestionControl> + Send> {
        let (options, config, failure) =
            (spec.options.to_string(), config.clone(), python_error.clone());
        let name: Arc<str> = spec.name.as_str().into();
        Box::new(move || {
            Python::attach(|py| {
                let py_config = PyConfig {
                    mss: config.mss,
                    initial_window: config.initial_window,
                    minimum_window: config.minimum_window(),
                    initial_rtt_ns: config.initial_rtt.nanos(),
                    seed: config.seed,
                    options_json: options.clone(),
                };
                let mut controller = PythonController {
                    name: name.clone(),
                    object: None,
                    on_event: PyString::intern(py, "on_event").unbind(),
                    control: ControlOutput::from_window(config.initial_window),
                    python_error: failure.clone(),
                };
                let created = class
                    .call1(py, (py_config,))
                    .and_then(|object| Ok((initial_window_of(object.bind(py))?, object)));
                match created {
                    Ok((cwnd, object)) => {
                        controller.control =
                            ControlOutput::from_window(cwnd.unwrap_or(config.initial_window));
                        controller.object = Some(object);
                    }
                    Err(error) => controller.fail(py, error),
                }
                Box::new(controller) as Box<dyn CongestionControl>
            })
        })
    }

    /// Stores an exception and ends the run. The run calls this controller no more.
    fn fail(&self, py: Python<'_>, error: PyErr) {
        self.python_error.fail(py, error, format!("controller {}", self.name));
    }

    /// Returns the result of `function`, or `None` once the run has failed.
    fn call_python<T>(&self, function: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> Option<T> {
        let object = self.object.as_ref()?;
        if self.python_error.stop_requested.load(Ordering::Relaxed) {
            return None;
        }
        Python::attach(|py| match function(object.bind(py)) {
            Ok(result) => Some(result),
            Err(error) => {
                self.fail(py, error);
                None
            }
        })
    }
}

/// Returns an attribute that exists and is not None.
fn get_attribute<'py>(
    object: &Bound<'py, PyAny>,
    name: &str,
) -> PyResult<Option<Bound<'py, PyAny>>> {
    Ok(object.getattr_opt(name)?.filter(|value| !value.is_none()))
}

pub fn type_error(name: &str, value: &Bound<'_, PyAny>, expected: &str) -> PyErr {
    let found = value.repr().map_or_else(|_| "something".to_owned(), |text| text.to_string());
    PyTypeError::new_err(format!("{name} is {found}, expected {expected}"))
}

/// Returns the window that a new controller has set.
fn initial_window_of(object: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let Some(cwnd) = get_attribute(object, "cwnd")? else { return Ok(None) };
    let bytes = cwnd.extract::<u64>();
    bytes.map(Some).map_err(|_| type_error("cwnd", &cwnd, "bytes, a whole number below 2^64"))
}

/// Returns the threshold in bytes, truncated. Infinity, like None, means an unset threshold.
fn ssthresh_of(object: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    let Some(value) = get_attribute(object, "ssthresh")? else { return Ok(None) };
    if let Ok(bytes) = value.extract::<u64>() {
        return Ok(Some(bytes));
    }
    match value.extract::<f64>() {
        Ok(bytes) if bytes == f64::INFINITY => Ok(None),
        Ok(bytes) if bytes >= 0.0 => Ok(Some(bytes as u64)),
        _ => Err(type_error("ssthresh", &value, "bytes, a number of 0 or more, or None")),
    }
}

/// Returns the values of `trace()`, if the method exists.
fn trace_values(object: &Bound<'_, PyAny>) -> PyResult<Vec<(&'static str, f64)>> {
    let Some(trace) = get_attribute(object, "trace")? else { return Ok(Vec::new()) };
    let values = trace.call0()?;
    let expected = "a dict of names and numbers";
    let dict = values.cast::<PyDict>().map_err(|_| type_error("trace()", &values, expected))?;
    let named = dict.iter().map(|(name, value)| {
        let name =
            name.extract::<String>().map_err(|_| type_error("a name of trace()", &name, "text"))?;
        let number = value.extract::<f64>();
        let number =
            number.map_err(|_| type_error(&format!("{name} of trace()"), &value, "a number"))?;
        Ok((intern_name(name), number))
    });
    named.collect()
}

fn extract_control(value: &Bound<'_, PyAny>) -> PyResult<ControlOutput> {
    if let Ok(cwnd) = value.extract::<u64>() {
        return Ok(ControlOutput::from_window(cwnd));
    }
    let answer = value.cast::<PyControl>()?.get();
    Ok(ControlOutput {
        cwnd: answer.cwnd,
        pacing_rate: answer.pacing_rate_bit_s.map(Rate),
        quantum: answer.quantum,
        timer_at: answer.wake_at_ns.map_or(Time::MAX, Time),
    })
}

impl CongestionControl for PythonController {
    fn start(&mut self, _now: Time) -> ControlOutput {
        self.control
    }

    fn on_event(&mut self, now: Time, event: &ControllerEvent) -> ControlOutput {
        let answer = self.call_python(|object| {
            let event = Py::new(object.py(), PyEvent(*event))?;
            extract_control(&object.call_method1(&self.on_event, (now.nanos(), event))?)
        });
        if let Some(control) = answer {
            self.control = control;
        }
        self.control
    }

    fn ssthresh(&self) -> Option<u64> {
        self.call_python(ssthresh_of).flatten()
    }

    fn trace(&self, record: &mut dyn FnMut(&'static str, f64)) {
        for (name, value) in self.call_python(trace_values).unwrap_or_default() {
            record(name, value);
        }
    }
}

/// Returns a static copy of `name`. Names of traced values are few and live as long as the process.
fn intern_name(name: String) -> &'static str {
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
