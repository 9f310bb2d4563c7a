//! `bentpipe._engine`: runs resolved plans. A thin layer from JSON input to encoded output (docs/reference/engine.md), and
//! the only crate that uses PyO3.

mod controller;
mod memory;
mod scheduler;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use sim::{ExternalSchedulerSpec, RunLimits};
use spec::{CongestionSpec, RunSpec};

use controller::{PyConfig, PyControl, PyEvent, PythonController, PythonError};
use scheduler::{PyPause, PySchedulerConfig, PyWaiting, PythonScheduler};

/// The transport stacks allocate for every packet; see docs/notes/performance.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The engine's version: the version of the crate and a hash of the sources (build.rs). It changes whenever results can
/// change.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("ENGINE_SOURCES"));

fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Returns the key of a scheduler in the map of external classes, where a controller can have the same name.
fn scheduler_key(class: &str) -> String {
    format!("scheduler {class}")
}

/// Runs a resolved run and returns its measurements. Schedulers in `controllers` have keys "scheduler NAME". `limits` are
/// the numbers of events and of bytes of memory at which the run ends with an error.
#[pyfunction]
#[pyo3(signature = (spec_json, controllers=None, limits=None))]
fn run<'py>(
    py: Python<'py>,
    spec_json: &str,
    controllers: Option<&Bound<'py, PyDict>>,
    limits: Option<(u64, u64)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let limits = limits.map_or(RunLimits::NONE, |(events, memory_bytes)| RunLimits {
        events,
        memory_bytes,
        memory_in_use: memory::in_use_bytes,
    });
    let spec = RunSpec::from_json(spec_json).map_err(invalid)?;
    let measurements = match controllers {
        None => py
            .detach(|| {
                let stop = AtomicBool::new(false);
                sim::run_with_external(&spec, &mut |_, _| None, &|_, _, _| None, &stop, limits)
            })
            .map_err(invalid)?,
        Some(classes) => {
            let python_error = Arc::new(PythonError::default());
            let build_controller =
                &mut |congestion: &CongestionSpec, config: &cc::ControllerConfig| {
                    let class = classes.get_item(&congestion.name).ok().flatten()?;
                    Some(PythonController::builder(
                        class.unbind(),
                        congestion,
                        config,
                        &python_error,
                    ))
                };
            let build_scheduler =
                |scheduler_spec: &ExternalSchedulerSpec, link: &str, seed: u64| {
                    let class = classes
                        .get_item(scheduler_key(&scheduler_spec.scheduler_name))
                        .ok()
                        .flatten()?;
                    Some(PythonScheduler::build(
                        py,
                        &class,
                        scheduler_spec,
                        (link, seed),
                        &python_error,
                    ))
                };
            let measurements = sim::run_with_external(
                &spec,
                build_controller,
                &build_scheduler,
                &python_error.stop_requested,
                limits,
            );
            if let Some(error) = python_error.take() {
                return Err(error);
            }
            measurements.map_err(invalid)?
        }
    };
    let encoded = measurements.into_encoded(VERSION);
    PyBytes::new_with(py, encoded.len(), |out| {
        encoded.write(out);
        Ok(())
    })
}

/// Returns the descriptors of all kinds that a scenario names, as JSON: each kind's members in the order of the manual.
#[pyfunction]
fn descriptors() -> PyResult<String> {
    let kinds = serde_json::json!({
        "channels": link::ChannelSpec::DESCRIPTORS,
        "controllers": cc::catalogue_json(),
        "convergence_layers": spec::convergence_layers().map_err(invalid)?,
        "link_layers": link::LINK_LAYERS,
        "loss_models": link::LossModel::DESCRIPTORS,
        "queue_disciplines": link::QueueSpec::DESCRIPTORS,
        "rlc_modes": link::RlcSpec::DESCRIPTORS,
        "schedulers": link::SchedulerSpec::DESCRIPTORS,
        "services": link::SERVICES,
    });
    Ok(kinds.to_string())
}

/// Returns the JSON Schema of a resolved run, from which the planner's types are generated.
#[pyfunction]
fn run_schema() -> String {
    RunSpec::schema().to_string()
}

/// Returns the coded bits of a frame in each attempt of a radio link, given as JSON. Later attempts equal the last.
#[pyfunction]
fn coded_bits(py: Python<'_>, radio_json: &str) -> PyResult<Vec<u32>> {
    let spec = spec::parse_radio(radio_json).map_err(invalid)?;
    py.detach(|| spec.coded_bits()).map_err(invalid)
}

/// Returns the mean information per coded bit for a JSON channel's first user: `count` instants, `spacing_ns` apart.
#[pyfunction]
fn channel_information(
    py: Python<'_>,
    channel_json: &str,
    spacing_ns: u64,
    count: u64,
) -> PyResult<f64> {
    let spec = spec::parse_channel(channel_json).map_err(invalid)?;
    py.detach(|| {
        let mut channel = spec.build("channel", 1).map_err(invalid)?;
        let at = |step: u64| units::Time(step * spacing_ns);
        let sum: f64 = (0..count).map(|step| channel.at(0, at(step)).information).sum();
        Ok(sum / count.max(1) as f64)
    })
}

/// Runs the conformance checks on a controller of the catalogue (by name) or on a class. Returns the results as JSON.
#[pyfunction]
#[pyo3(signature = (controller, options_json="{}"))]
fn check_controller(
    py: Python<'_>,
    controller: &Bound<'_, PyAny>,
    options_json: &str,
) -> PyResult<String> {
    let options: serde_json::Value = serde_json::from_str(options_json).map_err(invalid)?;
    let verdicts = if let Ok(name) = controller.extract::<String>() {
        py.detach(|| conformance::controllers::run_catalogue_checks(&name, &options))
            .map_err(invalid)?
    } else {
        let python_error = Arc::new(PythonError::default());
        let class = controller.clone().unbind();
        let name = controller.getattr("__name__")?.extract()?;
        let congestion = CongestionSpec { name, options };
        let verdicts = conformance::controllers::run_checks(&mut |config| {
            PythonController::builder(class.clone_ref(py), &congestion, config, &python_error)()
        });
        if let Some(error) = python_error.take() {
            return Err(error);
        }
        verdicts
    };
    let rows: Vec<_> = verdicts
        .iter()
        .map(|verdict| {
            let parts = verdict.parts.iter().map(|part| {
                serde_json::json!({"label": part.label, "passed": part.has_passed, "detail": part.detail})
            });
            serde_json::json!({"name": verdict.name, "source": verdict.source, "passed": verdict.has_passed,
                "detail": verdict.detail, "exemption": verdict.exemption, "parts": parts.collect::<Vec<_>>()})
        })
        .collect();
    Ok(serde_json::Value::from(rows).to_string())
}

/// Runs the conformance checks on a built-in scheduler (by its name in scenarios) or on a class. Returns the results as
/// JSON, or `None` for an unknown name.
#[pyfunction]
#[pyo3(signature = (scheduler, options_json="{}"))]
fn check_scheduler(
    py: Python<'_>,
    scheduler: &Bound<'_, PyAny>,
    options_json: &str,
) -> PyResult<Option<String>> {
    let verdicts = if let Ok(name) = scheduler.extract::<String>() {
        let Some(verdicts) = py.detach(|| conformance::schedulers::check_named(&name)) else {
            return Ok(None);
        };
        verdicts
    } else {
        let python_error = Arc::new(PythonError::default());
        let class_name = scheduler.getattr("__name__")?.extract()?;
        let spec = ExternalSchedulerSpec {
            scheduler_name: class_name,
            options_json: options_json.to_owned(),
        };
        let verdicts = conformance::schedulers::check(&mut || {
            PythonScheduler::build(py, scheduler, &spec, ("model.down", 1), &python_error)
        });
        if let Some(error) = python_error.take() {
            return Err(error);
        }
        verdicts
    };
    let rows: Vec<_> = verdicts
        .iter()
        .map(|verdict| {
            serde_json::json!({"name": verdict.name, "requirement": verdict.requirement, "passed": verdict.passed,
                "detail": verdict.detail, "exemption": verdict.exemption})
        })
        .collect();
    Ok(Some(serde_json::Value::from(rows).to_string()))
}

/// Computes the path of a pair of endpoints over a constellation; request and response are JSON. Ctrl-C stops it.
#[pyfunction]
#[pyo3(name = "orbit")]
fn over_orbit(py: Python<'_>, request_json: &str) -> PyResult<String> {
    let mut signal = None;
    let mut should_continue = || {
        signal = Python::attach(|py| py.check_signals()).err();
        signal.is_none()
    };
    let result = py.detach(|| orbit::compute_path_series_json(request_json, &mut should_continue));
    match signal {
        Some(signal) => Err(signal),
        None => result.map_err(invalid),
    }
}

/// Returns a fingerprint of every satellite's next hops to all ground stations over all steps.
#[pyfunction]
fn orbit_tables(py: Python<'_>, spec_json: &str) -> PyResult<u64> {
    py.detach(|| orbit::forwarding_tables::forwarding_tables_fingerprint(spec_json))
        .map_err(invalid)
}

/// Returns the passes of satellites over ground stations and of each other; specification and response are JSON.
#[pyfunction]
fn orbit_passes(py: Python<'_>, spec_json: &str) -> PyResult<String> {
    py.detach(|| orbit::passes::compute_passes_json(spec_json)).map_err(invalid)
}

/// Parses ION's commands of a contact plan. Returns the plan, notes and errors by line, as JSON.
#[pyfunction]
fn read_contact_plan(py: Python<'_>, text: &str) -> String {
    py.detach(|| contacts::parse_ion_json(text))
}

/// Returns the errors and warnings of a contact plan; plan and response are JSON.
#[pyfunction]
fn check_contact_plan(py: Python<'_>, plan_json: &str) -> PyResult<String> {
    py.detach(|| contacts::check_plan_json(plan_json)).map_err(invalid)
}

/// Returns the forwarding decision of a node for a bundle, with reasons; request and response are JSON.
#[pyfunction]
fn route_bundle(py: Python<'_>, request_json: &str) -> PyResult<String> {
    py.detach(|| contacts::decide_route_json(request_json)).map_err(invalid)
}

/// Returns the upper bound of delivered data by a contact plan; request and response are JSON.
#[pyfunction]
fn best_delivery(py: Python<'_>, request_json: &str) -> PyResult<String> {
    py.detach(|| contacts::compute_delivery_bound_json(request_json)).map_err(invalid)
}

/// Returns the Cargo profile of this build.
///
/// `guided` is a release build with profile-guided optimisation.
#[pyfunction]
fn profile() -> &'static str {
    env!("ENGINE_PROFILE")
}

/// Returns the engine's version.
#[pyfunction]
fn version() -> &'static str {
    VERSION
}

#[pymodule]
fn _engine(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PyConfig>()?;
    module.add_class::<PyControl>()?;
    module.add_class::<PyEvent>()?;
    module.add_class::<PyPause>()?;
    module.add_class::<PySchedulerConfig>()?;
    module.add_class::<PyWaiting>()?;
    module.add_function(wrap_pyfunction!(run, module)?)?;
    module.add_function(wrap_pyfunction!(descriptors, module)?)?;
    module.add_function(wrap_pyfunction!(run_schema, module)?)?;
    module.add_function(wrap_pyfunction!(check_controller, module)?)?;
    module.add_function(wrap_pyfunction!(check_scheduler, module)?)?;
    module.add_function(wrap_pyfunction!(coded_bits, module)?)?;
    module.add_function(wrap_pyfunction!(channel_information, module)?)?;
    module.add_function(wrap_pyfunction!(over_orbit, module)?)?;
    module.add_function(wrap_pyfunction!(orbit_tables, module)?)?;
    module.add_function(wrap_pyfunction!(orbit_passes, module)?)?;
    module.add_function(wrap_pyfunction!(read_contact_plan, module)?)?;
    module.add_function(wrap_pyfunction!(check_contact_plan, module)?)?;
    module.add_function(wrap_pyfunction!(route_bundle, module)?)?;
    module.add_function(wrap_pyfunction!(best_delivery, module)?)?;
    module.add_function(wrap_pyfunction!(profile, module)?)?;
    module.add_function(wrap_pyfunction!(version, module)?)?;
    Ok(())
}
