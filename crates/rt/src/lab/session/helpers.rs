//! Proxies and services of a session: their start and their end.

use std::collections::BTreeMap;
use std::io;

use emu::EmulatorClock;

use super::{LabSession, POLL_INTERVAL, STOP_TIMEOUT, terminate};
use crate::lab::hosts::SERVER;
use crate::lab::plan::LabPlan;
use crate::lab::proxies;
use crate::namespace::supervisor::exit_code;

/// Number of checks of a service that does not listen before it counts as failed: 20 s.
const LISTEN_POLLS: u32 = 10_000;

impl LabSession {
    /// Starts proxies and services, and waits until they are ready.
    pub(super) fn start_helpers(&mut self, plan: &LabPlan) -> io::Result<()> {
        let proxy_nodes = match &self.hosts.layout.nodes[..] {
            [_, middle @ .., _] if self.hosts.layout.is_linear => middle,
            _ => &[],
        };
        let nodes: Vec<String> = proxy_nodes.iter().map(|node| node.name.clone()).collect();
        let proxies = proxies::start(
            &plan.proxies,
            &nodes,
            &self.hosts.namespaces,
            &self.hosts.link_addresses,
            plan.record.as_ref(),
        )?;
        self.helpers.extend(proxies);
        for service in &plan.services {
            let host = self.hosts.find(&service.node, SERVER)?;
            let command = self.hosts.expand_command(service)?;
            let child = self.hosts.namespace_of(host).spawn(service, &command, &[], true)?;
            self.helpers.push((service.name.clone(), child));
            let Some(port) = service.listen_port else { continue };
            let mut polls = 0;
            while !self.hosts.namespace_of(host).has_listener(port) {
                polls += 1;
                let (name, child) = self.helpers.last_mut().expect("just pushed");
                if let Some(status) = child.try_wait()? {
                    let message = format!("{name} exited before it listened ({status})");
                    return Err(io::Error::other(message));
                }
                if polls > LISTEN_POLLS {
                    let message = format!("{name} does not listen on port {port}");
                    return Err(io::Error::other(message));
                }
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        Ok(())
    }

    /// Stops services and proxies in reverse sequence.
    pub(super) fn stop_helpers(
        &mut self,
        statuses: &mut BTreeMap<String, u8>,
        clock: &EmulatorClock,
    ) {
        let stop_requested_at = clock.now();
        for (_, child) in &self.helpers {
            terminate(child);
        }
        for (name, mut child) in self.helpers.drain(..).rev() {
            let status = loop {
                match child.try_wait() {
                    Ok(None) if clock.now().since(stop_requested_at) < STOP_TIMEOUT => {}
                    Ok(Some(status)) => break Some(status),
                    _ => {
                        let _ = child.kill();
                        break child.wait().ok();
                    }
                }
                std::thread::sleep(POLL_INTERVAL);
            };
            statuses.insert(name, status.map_or(1, exit_code));
        }
    }
}
