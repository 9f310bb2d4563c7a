//! Hosts of a lab, and the namespaces between them: their addresses, their routes, what their kernels are told.

use std::fs::File;
use std::io::{self, PipeWriter};

use emu::namespace::Networks;
use emu::{Address, Outline, namespace};

use super::plan::{Plan, Process};
use super::space::Space;
use super::ways::{self, Graph, Home};

/// Numbers of the two hosts that every lab has.
pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

/// Hosts by number: client, server, and the others in the plan's order.
pub struct Hosts {
    pub outline: Outline,
    /// Of its places.
    pub spaces: Vec<Space>,
    /// The two ends of each segment.
    pub ends: Vec<[Address; 2]>,
    /// The address of each host.
    pub homes: Vec<Home>,
    /// The initial window of each.
    initial: Vec<Option<u32>>,
}

impl Hosts {
    /// Namespaces, and networks for the devices that are to come; `life` is open until nothing of them is left. The
    /// client's namespace may be there already: `first`.
    ///
    /// # Errors
    /// The lab cannot be what the plan asks for; the kernel's.
    pub fn make(
        plan: &Plan,
        life: &PipeWriter,
        first: Option<Space>,
    ) -> io::Result<(Hosts, Networks)> {
        if !plan.far.is_empty() && !plan.private {
            return Err(io::Error::other("services need a private far side"));
        }
        let outline = plan.lab.outline()?;
        let segments = outline.between.len();
        if outline.is_chain && segments > usize::from(namespace::BLOCK) {
            let most = namespace::BLOCK - 1;
            return Err(io::Error::other(format!("the path has more than {most} proxies")));
        }
        allowed(plan, &outline)?;
        let server = server_of(&outline);
        let mut spaces: Vec<Space> = first.into_iter().collect();
        for place in spaces.len()..outline.places.len() {
            let own = place == server && !plan.private;
            spaces.push(if own { Space::own()? } else { Space::make(life)? });
        }
        let networks = namespace::within(&spaces[server].network, Networks::claim)?;
        let first = networks.first;
        let (ends, homes) = if outline.is_chain {
            let ends = Address::path(first, segments);
            let homes = [&ends[0][0], &ends[segments - 1][1]];
            let homes = homes.map(|end| Home { v4: end.v4, v6: end.v6 }).to_vec();
            (ends, homes)
        } else {
            let host = |number| Address::host(first, number);
            let homes = (0..2 + plan.lab.hosts.len()).map(host).map(|(v4, v6)| Home { v4, v6 });
            ((0..segments).map(|number| Address::segment(first, number)).collect(), homes.collect())
        };
        let initial = plan.kernels().iter().map(|kernel| kernel.initial_window).collect();
        Ok((Hosts { outline, spaces, ends, homes, initial }, networks))
    }

    /// The networks of the places.
    pub fn networks(&self) -> Vec<&File> {
        self.spaces.iter().map(|space| &space.network).collect()
    }

    /// Routes, and what the kernels are told, once the devices are there.
    ///
    /// # Errors
    /// The kernel's.
    pub fn prepare(&self, plan: &Plan) -> io::Result<()> {
        if self.outline.is_chain {
            ways::chain(&self.spaces, &self.ends, [self.initial[CLIENT], self.initial[SERVER]])?;
        } else {
            self.graph(plan).begin()?;
        }
        for (host, kernel) in plan.kernels().iter().enumerate() {
            if host == SERVER && !plan.private && !kernel.settings.is_empty() {
                return Err(io::Error::other("settings of the far side need a private one"));
            }
            for (name, value) in &kernel.settings {
                self.space(host).set(name, value)?;
            }
        }
        Ok(())
    }

    /// The host at a place.
    pub fn at(&self, place: usize) -> usize {
        if place == server_of(&self.outline) { SERVER } else { place }
    }

    /// What the routes of a graph are made of.
    pub fn graph(&self, plan: &Plan) -> Graph<'_> {
        Graph {
            outline: &self.outline,
            spaces: &self.spaces,
            ends: &self.ends,
            homes: &self.homes,
            initial: &self.initial,
            mtu: plan.lab.mtu,
        }
    }

    /// The namespace of a host.
    pub fn space(&self, host: usize) -> &Space {
        &self.spaces[self.place(host)]
    }

    /// The place of a host.
    fn place(&self, host: usize) -> usize {
        if host == SERVER { server_of(&self.outline) } else { host }
    }

    /// The host of this name, or `other` if there is none.
    ///
    /// # Errors
    /// No host has it.
    pub fn find(&self, name: &Option<String>, other: usize) -> io::Result<usize> {
        let Some(name) = name else { return Ok(other) };
        let mut hosts = 0..self.homes.len();
        hosts.find(|host| self.name(*host) == name).ok_or_else(|| no_host(name))
    }

    /// The name of a host.
    pub fn name(&self, host: usize) -> &str {
        &self.outline.places[self.place(host)].name
    }

    /// The words of a command, with the ends' addresses in the place of their names.
    ///
    /// # Errors
    /// In a graph, a host that is not there.
    pub fn words(&self, process: &Process) -> io::Result<Vec<String>> {
        let [near, far] = [self.homes[CLIENT], self.homes[SERVER]];
        let put = |word: &String| {
            let mut word = word
                .replace("{near}", &near.v4.to_string())
                .replace("{near6}", &near.v6.to_string())
                .replace("{far}", &far.v4.to_string())
                .replace("{far6}", &far.v6.to_string());
            for (host, home) in self.homes.iter().enumerate() {
                let name = self.name(host);
                word = word
                    .replace(&format!("{{host:{name}}}"), &home.v4.to_string())
                    .replace(&format!("{{host6:{name}}}"), &home.v6.to_string());
            }
            // Behind an access such words may be a program's own.
            let keys = if self.outline.is_chain { &[][..] } else { &["{host:", "{host6:"] };
            let left = keys.iter().find_map(|key| word.split_once(key));
            let left = left.and_then(|(_, rest)| rest.split_once('}'));
            left.map_or(Ok(word.clone()), |(name, _)| Err(no_host(name)))
        };
        process.command.iter().map(put).collect()
    }
}

/// The place of the server.
fn server_of(outline: &Outline) -> usize {
    if outline.is_chain { outline.places.len() - 1 } else { SERVER }
}

fn no_host(name: &str) -> io::Error {
    io::Error::other(format!("no host {name:?} in this lab"))
}

/// Whether the lab can be what the plan asks for.
fn allowed(plan: &Plan, outline: &Outline) -> io::Result<()> {
    let hosts = [
        &plan.tcp.hosts.keys().collect::<Vec<_>>(),
        &plan.settings.hosts.keys().collect(),
        &plan.initial_windows.hosts.keys().collect(),
    ];
    if let Some(name) = hosts.into_iter().flatten().find(|name| !plan.lab.hosts.contains(name)) {
        return Err(no_host(name));
    }
    if outline.is_chain {
        return Ok(());
    }
    if plan.crowd.is_some() {
        let said = "simulated users share one way that stays, between two hosts, and no other";
        return Err(io::Error::other(said));
    }
    if !plan.private {
        let said = "a lab of other ways than one from client to server needs a private far side";
        return Err(io::Error::other(said));
    }
    match plan.proxies.first() {
        None => Ok(()),
        Some(spec) => Err(io::Error::other(format!(
            "proxy {:?}: a lab has proxies on one way from client to server that stays, and no other",
            spec.node
        ))),
    }
}
