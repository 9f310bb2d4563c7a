//! Kernel TCP options of a plan, with controllers by their names in the catalogue.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use runtime::tcp::kernel::kernel_controller_name;
use runtime::tcp::socket::{SocketOptionError, TcpSocketOptions, available_controllers};
use transport::perf_load::RequestedController;

use crate::ProgramError;
use crate::perf::{CongestionPlan, ControllerPolicy, PerfTcpPlan};

/// The file with the default controller of Linux.
const DEFAULT_CONTROLLER: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Options of sockets.
#[derive(Clone, Debug)]
pub struct PerfTcpOptions(TcpSocketOptions);

impl PerfTcpOptions {
    /// Converts the options of a plan, and validates them on a socket.
    ///
    /// # Errors
    /// The option that the kernel lacks or refuses.
    pub fn new(
        plan: &PerfTcpPlan,
        congestion: &CongestionPlan,
    ) -> Result<PerfTcpOptions, ProgramError> {
        if congestion.options.as_object().is_some_and(|options| !options.is_empty()) {
            return Err(ProgramError::Input(format!(
                "--congestion {}: controllers of the kernel take no options",
                congestion.name
            )));
        }
        let name = kernel_controller_name(&congestion.name)
            .map_err(|why| ProgramError::Input(format!("--congestion: {why}")))?
            .to_owned();
        let options = PerfTcpOptions(TcpSocketOptions {
            congestion: name,
            mss: plan.mss_bytes,
            buffer: plan.buffer_bytes,
        });
        options.0.validate().map_err(|refused| options.to_error(refused))?;
        Ok(options)
    }

    /// Converts the options of a plan, with the kernel's default controller.
    ///
    /// # Errors
    /// The option that the kernel refuses.
    pub fn with_default_controller(plan: &PerfTcpPlan) -> Result<PerfTcpOptions, ProgramError> {
        let name = std::fs::read_to_string(DEFAULT_CONTROLLER)?.trim().to_owned();
        let (mss, buffer) = (plan.mss_bytes, plan.buffer_bytes);
        let options = PerfTcpOptions(TcpSocketOptions { congestion: name, mss, buffer });
        options.0.validate().map_err(|refused| options.to_error(refused))?;
        Ok(options)
    }

    /// Returns the kernel's name of the controller.
    pub fn congestion(&self) -> &str {
        &self.0.congestion
    }

    /// Converts a refused option to an error with the command-line option.
    fn to_error(&self, refused: SocketOptionError) -> ProgramError {
        match refused {
            SocketOptionError::Controller(error) => {
                unavailable_controller(&self.0.congestion, error)
            }
            SocketOptionError::SegmentSize(error) => ProgramError::Input(format!(
                "--mss {}: the kernel refuses it: {error}",
                self.0.mss.unwrap_or_default()
            )),
            SocketOptionError::Other(error) => io::Error::from(error).into(),
        }
    }

    /// Returns the options of a socket.
    pub fn into_socket_options(self) -> TcpSocketOptions {
        self.0
    }

    /// Opens a listening socket. Accepted sockets inherit its options.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn listen(&self, local: SocketAddr) -> io::Result<TcpListener> {
        self.0.listen(local).map_err(|refused| match refused {
            SocketOptionError::Other(error) => error.into(),
            option => io::Error::other(self.to_error(option).to_string()),
        })
    }
}

/// Sets the controller that a client requests on a socket. It has to be loaded: a request must not make the kernel load
/// a module.
///
/// # Errors
/// The reason of the refusal.
pub fn apply_requested_controller(
    socket: &TcpStream,
    request: &RequestedController,
    choose: ControllerPolicy,
) -> Result<(), String> {
    choose.check(request)?;
    if request.options.as_object().is_some_and(|options| !options.is_empty()) {
        return Err("controllers of the kernel take no options".to_owned());
    }
    let name = kernel_controller_name(&request.name)?;
    let listed = available_controllers();
    if !listed.iter().any(|known| known == name) {
        let listed = listed.join(", ");
        return Err(format!(
            "its kernel has no controller \"{name}\" for TCP; available: {listed}"
        ));
    }
    setsockopt(socket, sockopt::TcpCongestion, &OsString::from(name)).map_err(|error| match error {
        Errno::EPERM | Errno::EACCES => {
            format!("its kernel allows \"{name}\" only to root")
        }
        error => error.desc().to_owned(),
    })
}

/// Returns the error for a controller that the kernel refuses, with a remedy.
fn unavailable_controller(name: &str, error: Errno) -> ProgramError {
    let listed = available_controllers();
    ProgramError::Input(match error {
        Errno::EPERM | Errno::EACCES => format!(
            "--congestion: the kernel allows \"{name}\" only to root; as root: \
             sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{}\"",
            listed.join(" ")
        ),
        Errno::ENOENT => format!(
            "--congestion: the kernel has no controller \"{name}\" for TCP, expected one of {}; for \
             modules: modprobe tcp_{name}",
            listed.join(", ")
        ),
        other => format!("--congestion {name}: {other}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_controller_is_refused_with_a_list_of_the_available_ones() {
        let plan = PerfTcpPlan { mss_bytes: None, buffer_bytes: None, idle_timeout_ns: 1 };
        let named = |name: &str| CongestionPlan { name: name.to_owned(), options: "".into() };
        let message = PerfTcpOptions::new(&plan, &named("vegass")).unwrap_err().to_string();
        assert!(
            message.contains("no controller \"vegass\" for TCP, expected one of "),
            "{message}"
        );
        assert!(message.contains("reno"), "{message}");
        assert_eq!(PerfTcpOptions::new(&plan, &named("newreno")).unwrap().congestion(), "reno");
        let message = PerfTcpOptions::new(&plan, &named("bbr")).unwrap_err().to_string();
        let expected = "found \"bbr\" (BBRv3), expected \"bbr1\", which the kernel has as BBR version 1 (tcp_bbr.c)";
        assert_eq!(message, format!("--congestion: {expected}"));
        let message = PerfTcpOptions::new(&plan, &named("fast")).unwrap_err().to_string();
        assert!(
            message.contains("found \"fast\" (FAST TCP), which the kernel does not have for TCP"),
            "{message}"
        );
    }
}
