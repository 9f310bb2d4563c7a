//! `lab`: a path between namespaces, and processes at its ends.

mod control_socket;
mod host_address;
mod hosts;
mod kernel_tcp;
mod overrun_check;
pub mod plan;
mod proxies;
mod result;
mod route_updates;
mod session;
mod shutdown;
mod simulated_users;
mod status_display;
mod time_series;

pub use host_address::HostAddress;
pub use session::{ParentHandles, run};
