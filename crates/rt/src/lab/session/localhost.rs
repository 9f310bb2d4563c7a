//! Forwarding of `localhost` from the client of a session to its server side.

use std::io;

use runtime::log_stderr;

use super::LabSession;
use crate::lab::hosts::{CLIENT, SERVER};
use crate::lab::plan::LabPlan;
use crate::uplink::listeners::SocketTables;
use crate::uplink::localhost::{LocalhostForwarding, LoopbackAccess, PathEnd};
use crate::uplink::rule_table;

/// Remedy where the server side is reachable at its address.
const ADDRESS_HINT: &str = "use {server}, or $BENTPIPE_SERVER in a script, instead of localhost";

/// Remedy for an ordinary user without uplink.
const UPLINK_HINT: &str = "ordinary users need pasta or slirp4netns, without --isolated, to reach servers of this \
     machine";

impl LabSession {
    /// Starts the forwarding, if the plan has it. `machine_sockets` are the socket tables of the machine, if the server
    /// side is the machine. `access` is `None` if the server side does not reach its servers. A message gives the
    /// reason for a separate `localhost` to a command that names it.
    pub(super) fn forward_localhost(
        &self,
        plan: &LabPlan,
        machine_sockets: Option<SocketTables>,
        access: Option<LoopbackAccess>,
    ) -> Option<LocalhostForwarding> {
        if !plan.forwards_localhost {
            return None;
        }
        let opened = access.map(|access| self.open_forwarding(plan, machine_sockets, access));
        let reason = match opened {
            Some(Ok(forwarding)) => return Some(forwarding),
            Some(Err(error)) => format!("{error}; {ADDRESS_HINT}"),
            None => UPLINK_HINT.to_owned(),
        };
        if plan.mentions_localhost() {
            log_stderr(format_args!(
                "bentpipe: localhost is the client's own loopback address: {reason}"
            ));
        }
        None
    }

    fn open_forwarding(
        &self,
        plan: &LabPlan,
        machine_sockets: Option<SocketTables>,
        access: LoopbackAccess,
    ) -> io::Result<LocalhostForwarding> {
        rule_table::check_available()?;
        let links = &self.hosts.link_addresses;
        let end = |host: usize, device| PathEnd {
            namespace: self.hosts.namespace_of(host),
            device,
            address: self.hosts.addresses[host],
        };
        let server = end(SERVER, &links[links.len() - 1][1].device);
        let sockets = match machine_sockets {
            Some(sockets) => sockets,
            None => server.namespace.open_socket_tables()?,
        };
        let client = end(CLIENT, &links[0][0].device);
        LocalhostForwarding::open(client, server, access, sockets, plan.lab.mtu)
    }
}
