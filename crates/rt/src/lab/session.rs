//! A session from its plan to its result.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, PipeWriter, Read};
use std::process::Child;
use std::sync::mpsc;
use std::time::Duration;

use emu::namespace::Networks;
use emu::{Address, Check, Clock, Lab, Outline, Progress, Promise, Running, namespace};
use endpoint::say;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use units::{Span, Time};

use super::crowd::Crowd;
use super::ending::Ending;
use super::outcome::{self, Checked, Outcome};
use super::plan::{Plan, Process};
use super::proxies;
use super::record::Series;
use super::space::Space;
use super::watch::Watch;
use super::ways::{self, Changing, Graph, Home};
use crate::keeper::{Said, code};
use crate::starter::{Starter, handed};
use crate::{nat, warden};

/// Between two looks at what other processes do.
const LOOK: Duration = Duration::from_millis(2);

/// Looks at a service that is to listen, before it counts as broken: 20 s.
const PATIENCE: u32 = 10_000;

/// How long a process that is to end has before it is killed.
const FAREWELL: Span = Span(3_000_000_000);

/// Numbers of the two hosts that every lab has.
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// Where a plan is that the starter writes once it has started this process.
const DESCRIPTOR: &str = "/proc/self/fd/";

/// What a starter hands over beside the plan.
#[derive(Clone, Copy, Debug)]
pub struct Hands<'a> {
    /// Its process, by number.
    pub starter: &'a str,
    /// A descriptor that is open for as long as anything of the session is there.
    pub rest: &'a str,
    /// Folders that it makes and removes itself, unless it ends before.
    pub folders: &'a [&'a str],
}

/// Runs the plan in file `plan`; returns the exit status of the first near command.
///
/// # Errors
/// What is wrong with the plan, or what the kernel refuses.
pub fn run(plan: &str, hands: Option<Hands<'_>>) -> io::Result<u8> {
    let mut ending = Ending::prepare()?;
    let (life_ends, life) = io::pipe()?;
    let starter = Starter::open(hands.map(|hands| hands.starter));
    if let Some(hands) = hands {
        if let Ok(Some(starter)) = &starter {
            let rest = handed(hands.rest, true)?;
            warden::start(starter, life_ends, rest.into(), hands.folders)?;
        } else {
            warden::remove(hands.folders);
        }
    }
    let starter = starter?;
    let mut plan: Plan = serde_json::from_str(&read(plan)?)?;
    if plan.control.is_some() {
        plan.lab.make_changeable();
    }
    let ordinary = !nix::unistd::geteuid().is_root();
    if ordinary {
        namespace::become_root()?;
    }
    let outside = plan.outside && !ordinary && !plan.private;
    if outside || !plan.proxies.is_empty() {
        nat::ready()?;
    }
    ending.watch(starter)?;
    let mut session = Session::open(&plan, &life)?;
    let checks = if plan.check { session.check()? } else { Vec::new() };
    for one in &checks {
        let several = checks.len() > 1;
        let between = if several { format!("{} to {}: ", one.from, one.to) } else { String::new() };
        say(format_args!("bentpipe: {between}{}", said(&one.check, &one.way)));
    }
    session.prepare(&plan)?;
    let _way = if outside {
        let [near, far] = [&session.ends[0][0], &session.ends[session.ends.len() - 1][1]];
        Some(nat::open(&far.device, near.v4, near.v6)?)
    } else {
        None
    };
    session.carry(&plan, checks, &ending)
}

/// The text of a plan: of a file, or from the starter until it closes its end.
fn read(place: &str) -> io::Result<String> {
    let Some(number) = place.strip_prefix(DESCRIPTOR) else {
        return std::fs::read_to_string(place);
    };
    let mut text = String::new();
    handed(number, false)?.read_to_string(&mut text)?;
    // The starter was interrupted before it had written one.
    if text.is_empty() { Err(io::Error::other(Said)) } else { Ok(text) }
}

/// What was measured beside what the path promises.
fn said(check: &Check, promise: &Promise) -> String {
    let mega = |rate: Option<u64>| {
        rate.map_or("unlimited".to_owned(), |rate| format!("{:.4} Mbit/s", rate as f64 / 1e6))
    };
    // Less than that no program behind a network notices (`TOLERATED` of outcome.rs).
    let busy = match check.waited_ns as f64 / 1e6 {
        ms if ms > 1.0 => format!("; a busy machine kept what measured it waiting for {ms:.1} ms"),
        _ => String::new(),
    };
    format!(
        "measured RTT {:.1} ms, up {}, down {}; the path promises {:.1} ms or more, up {}, down {}{busy}",
        check.rtt_ns as f64 / 1e6,
        mega(check.up_bit_s),
        mega(check.down_bit_s),
        promise.propagation.millis(),
        mega(promise.rates[0]),
        mega(promise.rates[1]),
    )
}

/// A path in place.
struct Session {
    outline: Outline,
    /// Of its places.
    spaces: Vec<Space>,
    /// The two ends of each segment.
    ends: Vec<[Address; 2]>,
    /// Addresses of the hosts: of a chain its two ends, otherwise of the first places.
    homes: Vec<Home>,
    /// Initial windows of the hosts.
    initial: Vec<Option<u32>>,
    lab: Lab,
    /// The path before its schedule begins: what makes the session ready uses this one.
    early: Option<Running>,
    /// Proxies and services, to be ended in this order.
    helpers: Vec<(String, Child)>,
    /// Given back after the devices in them.
    _networks: Networks,
}

impl Session {
    /// Namespaces, devices and routes.
    fn open(plan: &Plan, life: &PipeWriter) -> io::Result<Session> {
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
        let mut spaces = Vec::new();
        for place in 0..outline.places.len() {
            let own = place == server && !plan.private;
            spaces.push(if own { Space::own()? } else { Space::make(life)? });
        }
        let networks = namespace::within(&spaces[server].network, Networks::claim)?;
        let first = networks.first;
        let ends = if outline.is_chain {
            Address::path(first, segments)
        } else {
            (0..segments).map(|number| Address::segment(first, number)).collect()
        };
        let homes: Vec<Home> = if outline.is_chain {
            let ends = [&ends[0][0], &ends[segments - 1][1]];
            ends.map(|end| Home { v4: end.v4, v6: end.v6 }).to_vec()
        } else {
            let host = |number| Address::host(first, number);
            (0..2 + plan.lab.hosts.len()).map(host).map(|(v4, v6)| Home { v4, v6 }).collect()
        };
        let files: Vec<&File> = spaces.iter().map(|space| &space.network).collect();
        let lab = Lab::open(&plan.lab, &files, &ends)?;
        let kernels = plan.kernels();
        let initial: Vec<Option<u32>> =
            kernels.iter().map(|kernel| kernel.initial_window).collect();
        let mut session = Session {
            outline,
            spaces,
            ends,
            homes,
            initial,
            lab,
            early: None,
            helpers: Vec::new(),
            _networks: networks,
        };
        if session.outline.is_chain {
            let initial = [session.initial[0], session.initial[1]];
            ways::chain(&session.spaces, &session.ends, initial)?;
        } else {
            session.graph(plan).begin()?;
        }
        for (host, kernel) in kernels.iter().enumerate() {
            if host == SERVER && !plan.private && !kernel.settings.is_empty() {
                return Err(io::Error::other("settings of the far side need a private one"));
            }
            for (name, value) in &kernel.settings {
                session.space(host).set(name, value)?;
            }
        }
        session.early = Some(session.lab.start()?);
        Ok(session)
    }

    /// What the routes of a graph are made of.
    fn graph(&self, plan: &Plan) -> Graph<'_> {
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
    fn space(&self, host: usize) -> &Space {
        &self.spaces[self.place(host)]
    }

    /// The place of a host.
    fn place(&self, host: usize) -> usize {
        if host == SERVER { server_of(&self.outline) } else { host }
    }

    /// The host of this name, or of this number if there is none.
    fn host(&self, name: &Option<String>, other: usize) -> io::Result<usize> {
        let Some(name) = name else { return Ok(other) };
        let mut hosts = 0..self.homes.len();
        hosts.find(|host| self.name(*host) == name).ok_or_else(|| no_host(name))
    }

    fn name(&self, host: usize) -> &str {
        &self.outline.places[self.place(host)].name
    }

    /// The ways between any two hosts that there are from the start on: the hosts, and what was measured.
    fn check(&self) -> io::Result<Vec<Checked>> {
        let begin = self.lab.promises.iter().filter(|promise| promise.from == Time::ZERO);
        begin.map(|promise| self.check_way(promise)).collect()
    }

    fn check_way(&self, promise: &Promise) -> io::Result<Checked> {
        let host = |place: usize| if place == server_of(&self.outline) { SERVER } else { place };
        let hosts = promise.between.map(host);
        let [one, other] = hosts.map(|host| (&self.space(host).network, self.homes[host].v4));
        let check = emu::check(one, other, promise.rates, promise.propagation)?;
        let progress = self.early.as_ref().map(Running::read).unwrap_or_default();
        let late = progress.iter().flatten().filter_map(|way| way.lateness.quantile(1.0)).max();
        let [from, to] = hosts.map(|host| self.name(host).to_owned());
        let check = Check { late_ns: late.map(Span::nanos), ..check };
        Ok(Checked { from, to, check, promise: outcome::promise(promise), way: *promise })
    }

    /// Proxies and services, until they are ready.
    fn prepare(&mut self, plan: &Plan) -> io::Result<()> {
        let between = match &self.outline.places[..] {
            [_, between @ .., _] if self.outline.is_chain => between,
            _ => &[],
        };
        let nodes: Vec<String> = between.iter().map(|place| place.name.clone()).collect();
        let proxies =
            proxies::start(&plan.proxies, &nodes, &self.spaces, &self.ends, plan.record.as_ref())?;
        self.helpers.extend(proxies);
        for service in &plan.far {
            let host = self.host(&service.node, SERVER)?;
            let words = self.words(service)?;
            let child = self.space(host).start(service, &words, &[], true)?;
            self.helpers.push((service.name.clone(), child));
            let Some(port) = service.listens else { continue };
            let mut looks = 0;
            while !self.space(host).listens(port) {
                looks += 1;
                let (name, child) = self.helpers.last_mut().expect("just pushed");
                if let Some(status) = child.try_wait()? {
                    let message = format!("{name} ended before it listened ({status})");
                    return Err(io::Error::other(message));
                }
                if looks > PATIENCE {
                    let message = format!("{name} does not listen on port {port}");
                    return Err(io::Error::other(message));
                }
                std::thread::sleep(LOOK);
            }
        }
        Ok(())
    }

    /// Starts the path's schedule and the near commands, waits for them, and ends everything.
    fn carry(mut self, plan: &Plan, checks: Vec<Checked>, ending: &Ending) -> io::Result<u8> {
        let changes = if self.outline.is_chain { None } else { Some(self.graph(plan).changes()?) };
        if let Some(early) = self.early.take() {
            settle(&early);
            early.stop()?;
        }
        let (running, crowd) = match &plan.crowd {
            None => (self.lab.start()?, None),
            Some(spec) => {
                let (told, left) = mpsc::channel();
                let (running, inlets) = self.lab.start_shared(&told)?;
                let crowd = Crowd::start(spec.clone(), inlets, left, running.clock)?;
                (running, Some(crowd))
            }
        };
        let changing = changes.map(|changes| changes.start(running.clock)).transpose()?;
        let started_ns = running.clock.monotonic_ns;
        let mut series = match &plan.record {
            Some(record) => Some(Series::begin(record, &self.lab.segments)?),
            None => None,
        };
        let mut watch = Watch::start(plan)?;
        let mut waiting: Vec<&Process> = plan.near.iter().collect();
        waiting.sort_by_key(|process| process.start_ns);
        waiting.reverse();
        let mut commands: Vec<(String, Child)> = Vec::new();
        let mut statuses: BTreeMap<String, u8> = BTreeMap::new();
        let mut stopped: Option<Time> = None;
        ending.begin();
        while !waiting.is_empty() || !commands.is_empty() {
            let now = running.clock.now().0;
            while let Some(process) = waiting.pop_if(|process| process.start_ns <= now) {
                let far = self.homes[SERVER];
                let named =
                    [("BENTPIPE_FAR", far.v4.to_string()), ("BENTPIPE_FAR6", far.v6.to_string())];
                let space = self.space(self.host(&process.node, CLIENT)?);
                let child = space.start(process, &self.words(process)?, &named, false)?;
                commands.push((process.name.clone(), child));
            }
            let mut place = 0;
            while place < commands.len() {
                match commands[place].1.try_wait()? {
                    Some(status) => {
                        let (name, _) = commands.swap_remove(place);
                        statuses.insert(name, code(status));
                    }
                    None => place += 1,
                }
            }
            if self.spaces.iter_mut().any(Space::is_gone) {
                return Err(io::Error::other("something has ended a namespace of the lab"));
            }
            match stopped {
                None if ending.is_asked() => {
                    stopped = Some(running.clock.now());
                    waiting.clear();
                    for (_, child) in &commands {
                        end(child);
                    }
                }
                // What does not listen ends with its namespace.
                Some(since) if running.clock.now().since(since) > FAREWELL => {
                    commands.iter_mut().for_each(|(_, child)| drop(child.kill()));
                }
                _ => {}
            }
            if let Some(series) = &mut series {
                series.look(&running);
            }
            watch.look(&self.lab, &running);
            let next = waiting.last().map_or(u64::MAX, |process| process.start_ns);
            let left = Duration::from_nanos(next.saturating_sub(running.clock.now().0));
            std::thread::sleep(LOOK.min(left));
        }
        let wall_s = running.clock.now().0 as f64 / 1e9;
        let crowd = crowd.map(Crowd::stop).transpose()?.unwrap_or_default();
        self.farewell(&mut statuses, &running.clock);
        let routes_late = changing.map(Changing::stop).transpose()?.unwrap_or_default();
        let realtime = running.realtime;
        let progress = running.stop()?;
        if let Some(series) = &mut series {
            series.end(&progress);
        }
        let status = plan.near.first().and_then(|process| statuses.get(&process.name).copied());
        if let Some(file) = &plan.result {
            let outcome = Outcome {
                interrupted: stopped.is_some(),
                realtime,
                record_error: series.and_then(|series| series.error),
                crowd,
                ..self.outcome(checks, &progress, &routes_late, started_ns, wall_s, statuses)
            };
            std::fs::write(file, serde_json::to_vec(&outcome)?)
                .map_err(|error| io::Error::other(format!("{file}: {error}")))?;
        }
        Ok(status.unwrap_or(0))
    }

    fn outcome(
        &self,
        checks: Vec<Checked>,
        progress: &[[Progress; 2]],
        routes_late: &[Span],
        started_ns: u64,
        wall_s: f64,
        statuses: BTreeMap<String, u8>,
    ) -> Outcome {
        let segment = |(ends, between): (&[Address; 2], &[usize; 2])| outcome::Ends {
            between: between.map(|place| self.outline.places[place].name.clone()),
            devices: [0, 1].map(|side| ends[side].device.clone()),
            overruns: [0, 1].map(|side| self.spaces[between[side]].overrun(&ends[side].device)),
        };
        let ends = self.ends.iter().zip(&self.outline.between).map(segment).collect();
        let segments = outcome::segments(&self.lab, progress, ends);
        let reasons = outcome::reasons(&self.lab, &segments, routes_late);
        let home = |host: usize| {
            let Home { v4, v6 } = self.homes[host];
            (self.name(host).to_owned(), outcome::Host { v4, v6 })
        };
        let ends = |check: &&Checked| [&*check.from, &*check.to] == [self.name(0), self.name(1)];
        let check = checks.iter().find(ends).map(|one| one.check);
        let cpu_s = progress.iter().flatten().map(|way| way.cpu_ns as f64 / 1e9).sum();
        Outcome {
            valid: reasons.is_empty(),
            reasons,
            interrupted: false,
            realtime: false,
            record_error: None,
            crowd: Vec::new(),
            statuses,
            started_ns,
            wall_s,
            cpu_s,
            check,
            promise: outcome::promise(&self.lab.promises[0]),
            checks: if self.outline.is_chain { Vec::new() } else { checks },
            routes: outcome::Routes::new(routes_late),
            hosts: (0..self.homes.len()).map(home).collect(),
            segments,
        }
    }

    /// Ends services and proxies, in the reverse of their order.
    fn farewell(&mut self, statuses: &mut BTreeMap<String, u8>, clock: &Clock) {
        let asked = clock.now();
        for (_, child) in &self.helpers {
            end(child);
        }
        for (name, mut child) in self.helpers.drain(..).rev() {
            let status = loop {
                match child.try_wait() {
                    Ok(None) if clock.now().since(asked) < FAREWELL => {}
                    Ok(Some(status)) => break Some(status),
                    _ => {
                        let _ = child.kill();
                        break child.wait().ok();
                    }
                }
                std::thread::sleep(LOOK);
            };
            statuses.insert(name, status.map_or(1, code));
        }
    }

    /// The words of a command, with the ends' addresses in the place of their names.
    fn words(&self, process: &Process) -> io::Result<Vec<String>> {
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
            let left = ["{host:", "{host6:"].iter().find_map(|key| word.split_once(key));
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

/// Asks a process to end.
fn end(child: &Child) {
    // It may have ended by itself.
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
}

/// Waits until nothing is under way, for a round trip of what the check and the proxies have left.
fn settle(running: &Running) {
    let moved = || -> u64 {
        running.read().iter().flatten().map(|way| way.packets_in + way.packets_out).sum()
    };
    let mut before = moved();
    for _ in 0..20 {
        std::thread::sleep(Duration::from_millis(150));
        let (now, quiet) = (moved(), running.read().iter().flatten().all(Progress::is_idle));
        if now == before && quiet {
            return;
        }
        before = now;
    }
}
