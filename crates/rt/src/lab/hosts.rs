//! The hosts of a lab and the namespaces between them: addresses, routes and kernel settings.

use std::fs::File;
use std::io::{self, PipeWriter};

use emu::namespace::NetworkClaim;
use emu::{DeviceAddress, LabLayout, namespace};

use super::HostAddress;
use super::plan::{LabPlan, ProcessPlan};
use super::route_updates::{self, GraphRoutes};
use crate::namespace::handle::Namespace;

/// The numbers of the two hosts of each lab.
pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

/// Hosts by number: client, server, and the others in the sequence of the plan.
pub struct Hosts {
    pub layout: LabLayout,
    /// The namespaces of the nodes.
    pub namespaces: Vec<Namespace>,
    /// The addresses of both ends of each link.
    pub link_addresses: Vec<[DeviceAddress; 2]>,
    /// The address of each host.
    pub addresses: Vec<HostAddress>,
    /// The initial window of each host.
    initial_windows: Vec<Option<u32>>,
}

impl Hosts {
    /// Creates the namespaces, and claims networks for their devices. `lifetime` stays open as long as any of their
    /// processes exists. `client_namespace` is used if given.
    ///
    /// # Errors
    /// Returns an error if the plan is invalid, or the error of the kernel.
    pub fn create(
        plan: &LabPlan,
        lifetime: &PipeWriter,
        client_namespace: Option<Namespace>,
    ) -> io::Result<(Hosts, NetworkClaim)> {
        if !plan.services.is_empty() && !plan.server_namespace {
            return Err(io::Error::other("services require a private server side"));
        }
        let layout = plan.lab.build_layout()?;
        let link_count = layout.link_ends.len();
        if layout.is_linear && link_count > usize::from(namespace::NETWORKS_PER_LAB) {
            let max_proxies = namespace::NETWORKS_PER_LAB - 1;
            return Err(io::Error::other(format!("the path has more than {max_proxies} proxies")));
        }
        check_plan(plan, &layout)?;
        let server = server_node(&layout);
        let mut namespaces: Vec<Namespace> = client_namespace.into_iter().collect();
        for node in namespaces.len()..layout.nodes.len() {
            let is_current = node == server && !plan.server_namespace;
            namespaces.push(if is_current {
                Namespace::current()?
            } else {
                Namespace::create(lifetime)?
            });
        }
        let networks = namespace::run_in(&namespaces[server].network, NetworkClaim::claim)?;
        let first_network = networks.first;
        let (link_addresses, addresses) = if layout.is_linear {
            let link_addresses = DeviceAddress::for_linear_path(first_network, link_count);
            let addresses = [&link_addresses[0][0], &link_addresses[link_count - 1][1]];
            let addresses = addresses.map(|end| HostAddress { v4: end.v4, v6: end.v6 }).to_vec();
            (link_addresses, addresses)
        } else {
            let host = |number| DeviceAddress::for_host(first_network, number);
            let homes =
                (0..2 + plan.lab.hosts.len()).map(host).map(|(v4, v6)| HostAddress { v4, v6 });
            (
                (0..link_count)
                    .map(|number| DeviceAddress::for_link(first_network, number))
                    .collect(),
                homes.collect(),
            )
        };
        let initial_windows =
            plan.kernel_settings().iter().map(|kernel| kernel.initial_window).collect();
        Ok((Hosts { layout, namespaces, link_addresses, addresses, initial_windows }, networks))
    }

    /// Returns the network namespaces of the nodes.
    pub fn networks(&self) -> Vec<&File> {
        self.namespaces.iter().map(|namespace| &namespace.network).collect()
    }

    /// Installs routes and kernel settings after the devices exist.
    ///
    /// # Errors
    /// Returns the error of the kernel, or an error if the settings need a private far side.
    pub fn configure(&self, plan: &LabPlan) -> io::Result<()> {
        if self.layout.is_linear {
            route_updates::install_linear_routes(
                &self.namespaces,
                &self.link_addresses,
                [self.initial_windows[CLIENT], self.initial_windows[SERVER]],
            )?;
        } else {
            self.graph_routes(plan).install_initial_routes()?;
        }
        for (host, kernel) in plan.kernel_settings().iter().enumerate() {
            if host == SERVER && !plan.server_namespace && !kernel.settings.is_empty() {
                return Err(io::Error::other(
                    "settings of the server side require a private server side",
                ));
            }
            for (name, value) in &kernel.settings {
                self.namespace_of(host).set_sysctl(name, value)?;
            }
        }
        Ok(())
    }

    /// Returns the host at a node.
    pub fn host_of_node(&self, node: usize) -> usize {
        if node == server_node(&self.layout) { SERVER } else { node }
    }

    /// Returns the data of the routes of a general topology.
    pub fn graph_routes(&self, plan: &LabPlan) -> GraphRoutes<'_> {
        GraphRoutes {
            layout: &self.layout,
            namespaces: &self.namespaces,
            link_addresses: &self.link_addresses,
            host_addresses: &self.addresses,
            initial_windows: &self.initial_windows,
            mtu: plan.lab.mtu,
        }
    }

    /// Returns the namespace of a host.
    pub fn namespace_of(&self, host: usize) -> &Namespace {
        &self.namespaces[self.node_of(host)]
    }

    /// Returns the node of a host.
    fn node_of(&self, host: usize) -> usize {
        if host == SERVER { server_node(&self.layout) } else { host }
    }

    /// Returns the host with this name, or `default` without a name.
    ///
    /// # Errors
    /// Returns an error if no host has the name.
    pub fn find(&self, name: &Option<String>, default: usize) -> io::Result<usize> {
        let Some(name) = name else { return Ok(default) };
        let mut hosts = 0..self.addresses.len();
        hosts.find(|host| self.name(*host) == name).ok_or_else(|| unknown_host_error(name))
    }

    /// Returns the name of a host.
    pub fn name(&self, host: usize) -> &str {
        &self.layout.nodes[self.node_of(host)].name
    }

    /// Returns the arguments of a command, with the addresses inserted.
    ///
    /// # Errors
    /// Returns an error for an unknown host in a general topology.
    pub fn expand_command(&self, process: &ProcessPlan) -> io::Result<Vec<String>> {
        let ends = [("client", CLIENT), ("server", SERVER)];
        let expand = |word: &String| {
            let mut word = word.clone();
            for (end, host) in ends {
                let address = self.addresses[host];
                word = word
                    .replace(&format!("{{{end}}}"), &address.v4.to_string())
                    .replace(&format!("{{{end}6}}"), &address.v6.to_string());
            }
            for (host, address) in self.addresses.iter().enumerate() {
                let name = self.name(host);
                word = word
                    .replace(&format!("{{host:{name}}}"), &address.v4.to_string())
                    .replace(&format!("{{host6:{name}}}"), &address.v6.to_string());
            }
            // On a linear path such an argument may be meant for the program.
            let keys = if self.layout.is_linear { &[][..] } else { &["{host:", "{host6:"] };
            let unknown = keys.iter().find_map(|key| word.split_once(key));
            let unknown_name = unknown.and_then(|(_, rest)| rest.split_once('}'));
            unknown_name.map_or(Ok(word.clone()), |(name, _)| Err(unknown_host_error(name)))
        };
        process.command.iter().map(expand).collect()
    }
}

/// Returns the node of the server.
fn server_node(layout: &LabLayout) -> usize {
    if layout.is_linear { layout.nodes.len() - 1 } else { SERVER }
}

fn unknown_host_error(name: &str) -> io::Error {
    io::Error::other(format!("no host {name:?} in this lab"))
}

/// Checks whether the lab supports the plan.
fn check_plan(plan: &LabPlan, layout: &LabLayout) -> io::Result<()> {
    let hosts = [
        &plan.tcp.hosts.keys().collect::<Vec<_>>(),
        &plan.settings.hosts.keys().collect(),
        &plan.initial_windows.hosts.keys().collect(),
    ];
    if let Some(name) = hosts.into_iter().flatten().find(|name| !plan.lab.hosts.contains(name)) {
        return Err(unknown_host_error(name));
    }
    if layout.is_linear {
        return Ok(());
    }
    if plan.forwards_localhost {
        let text = "localhost requires a single constant route between two hosts";
        return Err(io::Error::other(text));
    }
    if plan.background.is_some() {
        let text = "background traffic requires a single constant route between two hosts";
        return Err(io::Error::other(text));
    }
    if !plan.server_namespace {
        let message = "a lab with several routes requires a private server side";
        return Err(io::Error::other(message));
    }
    match plan.proxies.first() {
        None => Ok(()),
        Some(spec) => Err(io::Error::other(format!(
            "proxy {:?}: proxies require a single constant route from client to server",
            spec.node
        ))),
    }
}
