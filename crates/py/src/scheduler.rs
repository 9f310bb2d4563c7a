//! A scheduler of users written in Python.
//!
//! The class has `__init__(self, config)` and `choose(self, now, waiting)`, which returns a user number or a `Pause`.
//! `arrived(self, now, user, bytes)` and `served(self, now, user, bytes, air_ns, outcome)` are optional.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use sim::{
    BackloggedUser, ExternalDecision, ExternalOutcome, ExternalScheduler, ExternalSchedulerSpec,
};
use units::{Span, Time};

use crate::controller::{PythonError, type_error};

/// The configuration of a new scheduler.
#[pyclass(name = "SchedulerConfig", frozen, get_all)]
#[derive(Clone, Debug)]
pub struct PySchedulerConfig {
    /// The simplex link: `"<link>.down"` or `"<link>.up"`.
    link: String,
    /// The seed for random numbers of the scheduler.
    seed: u64,
    /// The options of the scenario, as JSON.
    options_json: String,
}

/// A user with a queued packet.
#[pyclass(name = "Waiting", frozen)]
#[derive(Clone, Debug)]
pub struct PyWaiting(BackloggedUser);

#[pymethods]
impl PyWaiting {
    /// The number of the user.
    #[getter]
    fn user(&self) -> u32 {
        self.0.user
    }

    /// The mutual information per coded bit of the user's channel, 0 to 1.
    #[getter]
    fn rate(&self) -> f64 {
        self.0.rate
    }

    /// The waiting time of the first packet.
    #[getter]
    fn waited_ns(&self) -> u64 {
        self.0.wait.nanos()
    }

    /// The size of the first packet.
    #[getter]
    fn bytes(&self) -> u32 {
        self.0.bytes
    }

    fn __repr__(&self) -> String {
        let BackloggedUser { user, rate, wait: waited, bytes } = self.0;
        let waited_ns = waited.nanos();
        format!("Waiting(user={user}, rate={rate}, waited_ns={waited_ns}, bytes={bytes})")
    }
}

/// A decision to serve no user until an instant or until the next arrival.
#[pyclass(name = "Pause", frozen, get_all)]
#[derive(Clone, Debug)]
pub struct PyPause {
    /// The instant, ns.
    until_ns: u64,
}

#[pymethods]
impl PyPause {
    #[new]
    fn new(until_ns: u64) -> PyPause {
        PyPause { until_ns }
    }
}

/// An adapter from a Python object to a scheduler.
pub struct PythonScheduler {
    name: String,
    object: Option<Py<PyAny>>,
    choose_name: Py<PyString>,
    /// The optional methods of the object.
    arrived_method: Option<Py<PyAny>>,
    served_method: Option<Py<PyAny>>,
    python_error: Arc<PythonError>,
}

impl PythonScheduler {
    /// Creates a scheduler of `class` for simplex link `link` and run `seed`. An exception is stored and stops the run.
    pub fn build(
        py: Python<'_>,
        class: &Bound<'_, PyAny>,
        spec: &ExternalSchedulerSpec,
        (link, seed): (&str, u64),
        python_error: &Arc<PythonError>,
    ) -> Box<dyn ExternalScheduler> {
        let options_json = spec.options_json.clone();
        let config = PySchedulerConfig { link: link.to_owned(), seed, options_json };
        let mut scheduler = PythonScheduler {
            name: spec.scheduler_name.clone(),
            object: None,
            choose_name: PyString::intern(py, "choose").unbind(),
            arrived_method: None,
            served_method: None,
            python_error: python_error.clone(),
        };
        let method = |object: &Bound<'_, PyAny>, name: &str| {
            PyResult::Ok(object.getattr_opt(name)?.map(Bound::unbind))
        };
        let created = class.call1((config,)).and_then(|object| {
            Ok((method(&object, "arrived")?, method(&object, "served")?, object.unbind()))
        });
        match created {
            Ok((arrived, served, object)) => {
                scheduler.object = Some(object);
                (scheduler.arrived_method, scheduler.served_method) = (arrived, served);
            }
            Err(error) => scheduler.fail(py, error),
        }
        Box::new(scheduler)
    }

    fn fail(&self, py: Python<'_>, error: PyErr) {
        self.python_error.fail(py, error, format!("scheduler {}", self.name));
    }

    /// Returns the result of `function`, or `None` once the run has failed.
    fn call_python<T>(&self, function: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if self.python_error.stop_requested.load(Ordering::Relaxed) {
            return None;
        }
        Python::attach(|py| match function(py) {
            Ok(result) => Some(result),
            Err(error) => {
                self.fail(py, error);
                None
            }
        })
    }
}

fn extract_decision(value: &Bound<'_, PyAny>) -> PyResult<ExternalDecision> {
    if let Ok(pause) = value.cast::<PyPause>() {
        return Ok(ExternalDecision::Pause(Time(pause.get().until_ns)));
    }
    let user = value.extract::<u32>();
    user.map(ExternalDecision::Serve).map_err(|_| {
        type_error("choose(...)", value, "the number of a user who waits, or Pause(until_ns)")
    })
}

impl ExternalScheduler for PythonScheduler {
    fn on_enqueue(&mut self, now: Time, user: u32, bytes: u32) {
        if let Some(method) = &self.arrived_method {
            self.call_python(|py| method.call1(py, (now.nanos(), user, bytes)));
        }
    }

    fn decide(&mut self, now: Time, waiting: &[BackloggedUser]) -> ExternalDecision {
        let Some(object) = &self.object else { return serve_first(waiting) };
        let answer = self.call_python(|py| {
            let waiting = PyList::new(py, waiting.iter().map(|one| PyWaiting(*one)))?;
            extract_decision(
                &object.bind(py).call_method1(&self.choose_name, (now.nanos(), waiting))?,
            )
        });
        answer.unwrap_or_else(|| serve_first(waiting))
    }

    fn on_service_end(
        &mut self,
        now: Time,
        user: u32,
        bytes: u32,
        air: Span,
        outcome: ExternalOutcome,
    ) {
        if let Some(method) = &self.served_method {
            self.call_python(|py| {
                method.call1(py, (now.nanos(), user, bytes, air.nanos(), outcome.name()))
            });
        }
    }

    fn on_invalid_decision(&mut self, why: String) {
        self.call_python(|_| {
            PyResult::<()>::Err(PyValueError::new_err(format!("choose(...): {why}")))
        });
    }
}

/// Serves the first user. It applies only after a failure, until the run ends.
fn serve_first(waiting: &[BackloggedUser]) -> ExternalDecision {
    ExternalDecision::Serve(waiting.first().map_or(0, |one| one.user))
}
