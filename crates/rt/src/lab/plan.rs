//! What the Python side asks for.

use std::collections::BTreeMap;

use emu::LabSpec;
use serde::Deserialize;
use spec::RunSpec;
use transport::pep::ProxySpec;
use transport::tcp::TcpSpec;

use super::outcome::Wakes;

/// A session: a path, what splits TCP on it, and the processes at its ends.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The path.
    pub lab: LabSpec,
    /// Splitting proxies at nodes of the path; a node of kind `proxy` without one forwards.
    #[serde(default)]
    pub proxies: Vec<ProxySpec>,
    /// Simulated users who share the path with the commands, from the start of its schedule on: a run over the same graph.
    #[serde(default)]
    pub crowd: Option<RunSpec>,
    /// The far side is a namespace of its own; otherwise the caller's. In a lab of more hosts than client and server it has
    /// to be one.
    #[serde(default)]
    pub private: bool,
    /// Let the near side reach what the caller reaches; needs root and a far side that is the caller's.
    #[serde(default)]
    pub outside: bool,
    /// Measure the path before anything uses it.
    #[serde(default)]
    pub check: bool,
    /// What each direction has measured of itself in an earlier session over this path; none: it measures anew.
    #[serde(default)]
    pub calibrations: Vec<[Wakes; 2]>,
    /// Services of the far side, which must be private, or of another host; they are ended with the session.
    #[serde(default)]
    pub far: Vec<Process>,
    /// Commands of the near side, or of another host; the session lasts until all have ended.
    pub near: Vec<Process>,
    /// Options of the ends' kernel TCP, as a resolved run has them: their settings, and its initial windows.
    #[serde(default)]
    pub tcp: Sides<Option<TcpSpec>>,
    /// Other kernel settings of the ends, as sysctl(8) names them; said last.
    #[serde(default)]
    pub settings: Sides<BTreeMap<String, String>>,
    /// Initial windows of the ends' kernel TCP, in segments, in place of what its options say.
    #[serde(default)]
    pub initial_windows: Sides<Option<u32>>,
    /// Series to keep.
    #[serde(default)]
    pub record: Option<Record>,
    /// Show rate, queue and drops while it runs.
    #[serde(default)]
    pub watch: bool,
    /// Socket that takes live changes.
    #[serde(default)]
    pub control: Option<String>,
    /// Where the result is written; none: nowhere.
    #[serde(default)]
    pub result: Option<String>,
}

/// Of the hosts of the path.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sides<T: Default> {
    /// The client's.
    pub near: T,
    /// The server's.
    pub far: T,
    /// Of other hosts, by name.
    pub hosts: BTreeMap<String, T>,
}

/// A command at one end. In its words `{near}`, `{near6}`, `{far}`, `{far6}` are the ends' addresses, `{host:NAME}` and
/// `{host6:NAME}` those of a host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Names it in the result.
    pub name: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The host that it runs at; none: the client for near commands, the server for services.
    #[serde(default)]
    pub node: Option<String>,
    /// Near commands: when it starts, from the start of the path's schedule.
    #[serde(default)]
    pub start_ns: u64,
    /// Far services: the port, of UDP or TCP, that it listens on once it is ready.
    #[serde(default)]
    pub listens: Option<u16>,
    /// File for its standard output; none: the terminal, which a near command then may read from.
    #[serde(default)]
    pub output: Option<String>,
    /// File for its standard error; none: the terminal.
    #[serde(default)]
    pub errors: Option<String>,
}

/// Series of each segment and direction.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Directory that gets `links.csv`.
    pub directory: String,
    /// Between two rows.
    pub interval_ns: u64,
}
