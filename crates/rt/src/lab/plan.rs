//! The plan that the Python side writes.

use std::collections::BTreeMap;

use emu::LabSpec;
use serde::Deserialize;
use spec::RunSpec;
use transport::pep::ProxySpec;
use transport::tcp::TcpSpec;

use super::result::CalibrationResult;

/// A session: a path, its TCP proxies, and the processes at its ends.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabPlan {
    /// The path.
    pub lab: LabSpec,
    /// Splitting proxies at nodes of the path. A node of kind `proxy` without an entry only forwards.
    #[serde(default)]
    pub proxies: Vec<ProxySpec>,
    /// A run with simulated users over the same topology. They share the path with the commands from its start on.
    #[serde(default)]
    pub background: Option<RunSpec>,
    /// The far side gets a namespace; otherwise it uses that of the caller. A lab with further hosts needs a private
    /// far side.
    #[serde(default)]
    pub server_namespace: bool,
    /// Connects the near side to the networks of the caller. Needs root, and a far side in the namespace of the caller.
    #[serde(default)]
    pub has_uplink: bool,
    /// Leads `localhost` of the client to the server side, at the ports that are served there.
    #[serde(default)]
    pub forwards_localhost: bool,
    /// Measure the path before a program uses it.
    #[serde(default)]
    pub check: bool,
    /// The calibrations of an earlier session over this path; empty for a new measurement.
    #[serde(default)]
    pub calibrations: Vec<[CalibrationResult; 2]>,
    /// Services of the far side, which must be private, or of another host. They end with the session.
    #[serde(default)]
    pub services: Vec<ProcessPlan>,
    /// Commands of the near side, or of another host. The session lasts until all of them have ended.
    pub commands: Vec<ProcessPlan>,
    /// Options of the kernel TCP of the hosts, as in a resolved run: kernel settings and initial windows.
    #[serde(default)]
    pub tcp: PerHost<Option<TcpSpec>>,
    /// Further kernel settings of the hosts, with their sysctl(8) names. They take precedence.
    #[serde(default)]
    pub settings: PerHost<BTreeMap<String, String>>,
    /// Initial windows of the kernel TCP of the hosts in segments. They take precedence over `tcp`.
    #[serde(default)]
    pub initial_windows: PerHost<Option<u32>>,
    /// The time series to record.
    #[serde(default)]
    pub record: Option<RecordPlan>,
    /// Show rate, queue and drops while the session runs.
    #[serde(default)]
    pub has_status_display: bool,
    /// The path of the control socket.
    #[serde(default)]
    pub control: Option<String>,
    /// The file of the result; `None` for no result.
    #[serde(default)]
    pub result: Option<String>,
}

/// Names and addresses of the loopback device in the words of a command.
const LOCALHOST_WORDS: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

impl LabPlan {
    /// Returns whether a command names `localhost`, or an address of it.
    pub fn mentions_localhost(&self) -> bool {
        let mut words = self.commands.iter().flat_map(|process| &process.command);
        words.any(|word| LOCALHOST_WORDS.iter().any(|name| word.contains(name)))
    }
}

/// A value for each host of the path.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PerHost<T: Default> {
    /// The value of the client.
    pub client: T,
    /// The value of the server.
    pub server: T,
    /// The values of other hosts, by name.
    pub hosts: BTreeMap<String, T>,
}

/// A command at one host. In its arguments `{client}`, `{client6}`, `{server}`, `{server6}` stand for the addresses of
/// the ends, `{host:NAME}` and `{host6:NAME}` for those of a host.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProcessPlan {
    /// The name of the process in the result.
    pub name: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// The host of the process; `None` is the client for near commands, the server for services.
    #[serde(default)]
    pub node: Option<String>,
    /// Near commands: the start time, relative to the start of the schedule of the path.
    #[serde(default)]
    pub start_ns: u64,
    /// Far services: the UDP or TCP port that is open once the service is ready.
    #[serde(default)]
    pub listen_port: Option<u16>,
    /// The file of standard output; `None` is the terminal, from which a near command may then read.
    #[serde(default)]
    pub output: Option<String>,
    /// The file of standard error; `None` is the terminal.
    #[serde(default)]
    pub errors: Option<String>,
}

/// Time series of each link and direction.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RecordPlan {
    /// The directory of `links.csv`.
    pub directory: String,
    /// The interval between two rows.
    pub interval_ns: u64,
}
