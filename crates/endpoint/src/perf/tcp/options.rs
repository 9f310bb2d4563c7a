//! What a plan asks of the kernel's TCP, controllers by the names of the catalogue.

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use transport::load::Wish;

use crate::kernel::kernel_name;
use crate::perf::{Choose, CongestionPlan, Failure, TcpPlan};
use crate::tcp_socket::{Refused, TcpOptions, controllers};

/// Where Linux has the controller of sockets that ask for none.
const DEFAULT: &str = "/proc/sys/net/ipv4/tcp_congestion_control";

/// Options of sockets.
#[derive(Clone, Debug)]
pub struct Options(TcpOptions);

impl Options {
    /// Options as the plan wants them, tried on a socket.
    ///
    /// # Errors
    /// What the kernel has not, or does not allow.
    pub fn new(plan: &TcpPlan, congestion: &CongestionPlan) -> Result<Options, Failure> {
        if congestion.options.as_object().is_some_and(|options| !options.is_empty()) {
            return Err(Failure::Input(format!(
                "--congestion {}: controllers of the kernel take no options here",
                congestion.name
            )));
        }
        let name = kernel_name(&congestion.name)
            .map_err(|why| Failure::Input(format!("--congestion: {why}")))?
            .to_owned();
        let options = Options(TcpOptions {
            congestion: name,
            mss: plan.mss_bytes,
            buffer: plan.buffer_bytes,
        });
        options.0.try_out().map_err(|refused| options.told(refused))?;
        Ok(options)
    }

    /// Options with the controller that the kernel has where none is asked for.
    ///
    /// # Errors
    /// The request that the kernel does not allow.
    pub fn with_default_controller(plan: &TcpPlan) -> Result<Options, Failure> {
        let name = std::fs::read_to_string(DEFAULT)?.trim().to_owned();
        let (mss, buffer) = (plan.mss_bytes, plan.buffer_bytes);
        let options = Options(TcpOptions { congestion: name, mss, buffer });
        options.0.try_out().map_err(|refused| options.told(refused))?;
        Ok(options)
    }

    /// The kernel's name of the controller.
    pub fn congestion(&self) -> &str {
        &self.0.congestion
    }

    /// What the kernel refuses, by the options of the command line.
    fn told(&self, refused: Refused) -> Failure {
        match refused {
            Refused::Controller(error) => no_controller(&self.0.congestion, error),
            Refused::Segment(error) => Failure::Input(format!(
                "--mss {}: the kernel refuses it: {error}",
                self.0.mss.unwrap_or_default()
            )),
            Refused::Other(error) => io::Error::from(error).into(),
        }
    }

    /// A socket that has begun to connect.
    ///
    /// # Errors
    /// The kernel's.
    pub fn connect(&self, remote: SocketAddr) -> Result<TcpStream, Failure> {
        self.0.connect(remote).map_err(|refused| match refused {
            Refused::Other(error) => Failure::Run(format!("{remote} cannot be reached: {error}")),
            option => self.told(option),
        })
    }

    /// A socket that listens; what it accepts has its options.
    ///
    /// # Errors
    /// The kernel's.
    pub fn listen(&self, local: SocketAddr) -> io::Result<TcpListener> {
        self.0.listen(local).map_err(|refused| match refused {
            Refused::Other(error) => error.into(),
            option => io::Error::other(self.told(option).to_string()),
        })
    }
}

/// Gives a socket the controller that a client wishes for: one that the kernel has loaded, since asking for another
/// would have it load a module.
///
/// # Errors
/// Why not, in words.
pub fn choose(socket: &TcpStream, wish: &Wish, choose: Choose) -> Result<(), String> {
    choose.allows(wish)?;
    if wish.options.as_object().is_some_and(|options| !options.is_empty()) {
        return Err("controllers of the kernel take no options".to_owned());
    }
    let name = kernel_name(&wish.name)?;
    let listed = controllers();
    if !listed.iter().any(|known| known == name) {
        let listed = listed.join(", ");
        return Err(format!("its kernel has no controller \"{name}\" for TCP; it has {listed}"));
    }
    setsockopt(socket, sockopt::TcpCongestion, &OsString::from(name)).map_err(|error| match error {
        Errno::EPERM | Errno::EACCES => {
            format!("its kernel has \"{name}\" but does not allow it to ordinary users")
        }
        error => error.desc().to_owned(),
    })
}

/// Why the kernel does not take a controller, and what to do.
fn no_controller(name: &str, error: Errno) -> Failure {
    let listed = controllers();
    Failure::Input(match error {
        Errno::EPERM | Errno::EACCES => format!(
            "--congestion: the kernel has \"{name}\" but does not allow it to ordinary users; as root: \
             sysctl -w net.ipv4.tcp_allowed_congestion_control=\"{}\"",
            listed.join(" ")
        ),
        Errno::ENOENT => format!(
            "--congestion: the kernel has no controller \"{name}\" for TCP; it has {}; others are \
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
    fn a_controller_that_the_kernel_has_not_is_refused_with_those_it_has() {
        let plan = TcpPlan { mss_bytes: None, buffer_bytes: None, idle_timeout_ns: 1 };
        let named = |name: &str| CongestionPlan { name: name.to_owned(), options: "".into() };
        let message = Options::new(&plan, &named("vegass")).unwrap_err().to_string();
        assert!(message.contains("no controller \"vegass\" for TCP; it has "), "{message}");
        assert!(message.contains("reno"), "{message}");
        assert_eq!(Options::new(&plan, &named("newreno")).unwrap().congestion(), "reno");
        let message = Options::new(&plan, &named("bbr")).unwrap_err().to_string();
        let said = "found \"bbr\", which is BBRv3; the kernel's is BBR version 1 (tcp_bbr.c), expected \"bbr1\"";
        assert_eq!(message, format!("--congestion: {said}"));
        let message = Options::new(&plan, &named("fast")).unwrap_err().to_string();
        assert!(
            message
                .contains("found \"fast\", which is FAST TCP; the kernel's TCP has none like it"),
            "{message}"
        );
    }
}
