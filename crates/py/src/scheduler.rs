//! A scheduler of users written in Python.
//!
//! A class with `__init__(self, config)` and `choose(self, now, waiting)`, which returns the number of a user or a `Pause`.
//! `arrived(self, now, user, bytes)` and `served(self, now, user, bytes, air_ns, outcome)` are called if they are there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use sim::{Decider, Decision, Outcome, OwnSpec, Waiter};
use units::{Span, Time};

use crate::controller::{Failure, wrong};

/// What a scheduler is told when it is made.
#[pyclass(name = "SchedulerConfig", frozen, get_all)]
#[derive(Clone, Debug)]
pub struct PySchedulerConfig {
    /// The direction of the link: `"<link>.down"` or `"<link>.up"`.
    link: String,
    /// Seed for the scheduler's own chance.
    seed: u64,
    /// Options of the scenario, as JSON.
    options_json: String,
}

/// A user who has a packet.
#[pyclass(name = "Waiting", frozen)]
#[derive(Clone, Debug)]
pub struct PyWaiting(Waiter);

#[pymethods]
impl PyWaiting {
    /// The user's number.
    #[getter]
    fn user(&self) -> u32 {
        self.0.user
    }

    /// Mutual information per coded bit of the user's channel, 0 to 1.
    #[getter]
    fn rate(&self) -> f64 {
        self.0.rate
    }

    /// How long its first packet has waited.
    #[getter]
    fn waited_ns(&self) -> u64 {
        self.0.waited.nanos()
    }

    /// Size of that.
    #[getter]
    fn bytes(&self) -> u32 {
        self.0.bytes
    }

    fn __repr__(&self) -> String {
        let Waiter { user, rate, waited, bytes } = self.0;
        let waited_ns = waited.nanos();
        format!("Waiting(user={user}, rate={rate}, waited_ns={waited_ns}, bytes={bytes})")
    }
}

/// Nobody is served until an instant, or until a packet comes.
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

/// A Python object in the place of a scheduler.
pub struct OutsideScheduler {
    name: String,
    object: Option<Py<PyAny>>,
    choose: Py<PyString>,
    /// Methods that it has.
    arrived: Option<Py<PyAny>>,
    served: Option<Py<PyAny>>,
    failure: Arc<Failure>,
}

impl OutsideScheduler {
    /// A scheduler of `class` for the direction `link` of run `seed`. An exception is kept for the caller and stops the run.
    pub fn make(
        py: Python<'_>,
        class: &Bound<'_, PyAny>,
        spec: &OwnSpec,
        (link, seed): (&str, u64),
        failure: &Arc<Failure>,
    ) -> Box<dyn Decider> {
        let options_json = spec.options_json.clone();
        let config = PySchedulerConfig { link: link.to_owned(), seed, options_json };
        let mut outside = OutsideScheduler {
            name: spec.called.clone(),
            object: None,
            choose: PyString::intern(py, "choose").unbind(),
            arrived: None,
            served: None,
            failure: failure.clone(),
        };
        let method = |object: &Bound<'_, PyAny>, name: &str| {
            PyResult::Ok(object.getattr_opt(name)?.map(Bound::unbind))
        };
        let made = class.call1((config,)).and_then(|object| {
            Ok((method(&object, "arrived")?, method(&object, "served")?, object.unbind()))
        });
        match made {
            Ok((arrived, served, object)) => {
                outside.object = Some(object);
                (outside.arrived, outside.served) = (arrived, served);
            }
            Err(error) => outside.fail(py, error),
        }
        Box::new(outside)
    }

    fn fail(&self, py: Python<'_>, error: PyErr) {
        self.failure.fail(py, error, format!("scheduler {}", self.name));
    }

    /// What `ask` has; none where the run is over.
    fn ask<T>(&self, ask: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if self.failure.stop.load(Ordering::Relaxed) {
            return None;
        }
        Python::attach(|py| match ask(py) {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.fail(py, error);
                None
            }
        })
    }
}

fn decision(answer: &Bound<'_, PyAny>) -> PyResult<Decision> {
    if let Ok(pause) = answer.cast::<PyPause>() {
        return Ok(Decision::Pause(Time(pause.get().until_ns)));
    }
    let user = answer.extract::<u32>();
    user.map(Decision::Serve).map_err(|_| {
        wrong("choose(...)", answer, "the number of a user who waits, or Pause(until_ns)")
    })
}

impl Decider for OutsideScheduler {
    fn arrived(&mut self, now: Time, user: u32, bytes: u32) {
        if let Some(told) = &self.arrived {
            self.ask(|py| told.call1(py, (now.nanos(), user, bytes)));
        }
    }

    fn decide(&mut self, now: Time, waiting: &[Waiter]) -> Decision {
        let Some(object) = &self.object else { return first(waiting) };
        let answer = self.ask(|py| {
            let waiting = PyList::new(py, waiting.iter().map(|one| PyWaiting(*one)))?;
            decision(&object.bind(py).call_method1(&self.choose, (now.nanos(), waiting))?)
        });
        answer.unwrap_or_else(|| first(waiting))
    }

    fn served(&mut self, now: Time, user: u32, bytes: u32, air: Span, outcome: Outcome) {
        if let Some(told) = &self.served {
            self.ask(|py| told.call1(py, (now.nanos(), user, bytes, air.nanos(), outcome.name())));
        }
    }

    fn refused(&mut self, why: String) {
        self.ask(|_| PyResult::<()>::Err(PyValueError::new_err(format!("choose(...): {why}"))));
    }
}

/// The run is over; until it ends somebody goes.
fn first(waiting: &[Waiter]) -> Decision {
    Decision::Serve(waiting.first().map_or(0, |one| one.user))
}
