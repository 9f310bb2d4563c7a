//! A session from its plan to its result.

use std::collections::BTreeMap;
use std::io::{self, PipeWriter, Read};
use std::process::Child;
use std::sync::mpsc;
use std::time::Duration;

use emu::namespace::Networks;
use emu::{Address, Check, Clock, Lab, Progress, Promise, Running, namespace};
use endpoint::say;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use transport::pep::Setup;
use units::{Span, Time};

use super::crowd::Crowd;
use super::ending::Ending;
use super::hosts::{CLIENT, Hosts, SERVER};
use super::outcome::{self, Checked, Outcome, Wakes};
use super::plan::{Plan, Process};
use super::proxies;
use super::record::Series;
use super::space::Space;
use super::verdict;
use super::watch::Watch;
use super::ways::{Changing, Home};
use crate::keeper::{Said, code};
use crate::nat::Through;
use crate::outside::Outside;
use crate::starter::{Starter, handed};
use crate::{nat, warden};

/// Between two looks at what other processes do.
const LOOK: Duration = Duration::from_millis(2);

/// Looks at a service that is to listen, before it counts as broken: 20 s.
const PATIENCE: u32 = 10_000;

/// How long a process that is to end has before it is killed.
const FAREWELL: Span = Span(3_000_000_000);

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
    let mut starter = starter?;
    let ordinary = !nix::unistd::geteuid().is_root();
    // Every client has one, and the starter may be at the plan for a while.
    let first = if ordinary {
        None
    } else {
        ending.watch(starter.take())?;
        Some(Space::make(&life)?)
    };
    let mut plan: Plan = serde_json::from_str(&read(plan)?)?;
    if plan.control.is_some() {
        plan.lab.make_changeable();
    }
    let outside = plan.outside && !plan.private;
    let mut own_way = if outside && ordinary { own_way()? } else { None };
    if ordinary {
        namespace::become_root()?;
        ending.watch(starter)?;
    }
    if (outside && !ordinary) || !plan.proxies.is_empty() {
        nat::ready()?;
    }
    let mut session = Session::open(&plan, &life, first)?;
    let checks = if plan.check {
        say(format_args!("bentpipe: measuring the path first, for {}", session.takes()));
        session.check()?
    } else {
        Vec::new()
    };
    for one in &checks {
        let several = checks.len() > 1;
        let between = if several { format!("{} to {}: ", one.from, one.to) } else { String::new() };
        say(format_args!("bentpipe: {between}{}", said(&one.check, &one.way)));
    }
    session.prepare(&plan)?;
    let through = match &mut own_way {
        _ if !outside => None,
        Some(way) => Some(Through::Own { machine: way.open()?, far: session.hosts.homes[SERVER] }),
        None => (!ordinary).then_some(Through::Machine),
    };
    let _way = match through {
        Some(through) => {
            let (ends, near) = (&session.hosts.ends, session.hosts.homes[CLIENT]);
            Some(nat::open(&ends[ends.len() - 1][1].device, near, through)?)
        }
        None => None,
    };
    session.carry(&plan, checks, &ending)
}

/// The way outside of an ordinary user, to be; says so where there can be none, with which much can be done.
fn own_way() -> io::Result<Option<Outside>> {
    let way = match nat::ready() {
        Ok(()) => Outside::prepare()?.ok_or_else(Outside::none),
        Err(error) => Err(error),
    };
    if let Err(why) = &way {
        say(format_args!("bentpipe: nothing leads outside the path: {why}"));
    }
    Ok(way.ok())
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
    // Less than that no program behind a network notices (`TOLERATED` of verdict.rs).
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
    hosts: Hosts,
    lab: Lab,
    /// The path before its schedule begins, where something that makes the session ready uses it.
    early: Option<Running>,
    /// Proxies and services, to be ended in this order.
    helpers: Vec<(String, Child)>,
    /// Given back after the devices in them.
    _networks: Networks,
}

impl Session {
    /// Namespaces, devices and routes.
    fn open(plan: &Plan, life: &PipeWriter, first: Option<Space>) -> io::Result<Session> {
        let (hosts, networks) = Hosts::make(plan, life, first)?;
        let kept: Vec<_> =
            plan.calibrations.iter().map(|ways| ways.each_ref().map(Wakes::calibration)).collect();
        let lab = Lab::open(&plan.lab, &hosts.networks(), &hosts.ends, &kept)?;
        hosts.prepare(plan)?;
        let early = if plan.check || goes_on(plan) { Some(lab.start()?) } else { None };
        Ok(Session { hosts, lab, early, helpers: Vec::new(), _networks: networks })
    }

    /// About how long the check takes, in words.
    fn takes(&self) -> String {
        let begin = self.lab.promises.iter().filter(|promise| promise.from == Time::ZERO);
        let ns: u64 = begin.map(|way| emu::check_takes(way.rates, way.propagation).nanos()).sum();
        match ns.div_ceil(1_000_000_000) {
            1 => "1 second or less".to_owned(),
            seconds => format!("about {seconds} seconds"),
        }
    }

    /// The ways between any two hosts that there are from the start on: the hosts, and what was measured.
    fn check(&self) -> io::Result<Vec<Checked>> {
        let begin = self.lab.promises.iter().filter(|promise| promise.from == Time::ZERO);
        begin.map(|promise| self.check_way(promise)).collect()
    }

    fn check_way(&self, promise: &Promise) -> io::Result<Checked> {
        let hosts = promise.between.map(|place| self.hosts.at(place));
        let [one, other] =
            hosts.map(|host| (&self.hosts.space(host).network, self.hosts.homes[host].v4));
        let check = emu::check(one, other, promise.rates, promise.propagation)?;
        let progress = self.early.as_ref().map(Running::read).unwrap_or_default();
        let late = progress.iter().flatten().filter_map(|way| way.lateness.quantile(1.0)).max();
        let [from, to] = hosts.map(|host| self.hosts.name(host).to_owned());
        let check = Check { late_ns: late.map(Span::nanos), ..check };
        Ok(Checked { from, to, check, promise: outcome::promise(promise), way: *promise })
    }

    /// Proxies and services, until they are ready.
    fn prepare(&mut self, plan: &Plan) -> io::Result<()> {
        let between = match &self.hosts.outline.places[..] {
            [_, between @ .., _] if self.hosts.outline.is_chain => between,
            _ => &[],
        };
        let nodes: Vec<String> = between.iter().map(|place| place.name.clone()).collect();
        let proxies = proxies::start(
            &plan.proxies,
            &nodes,
            &self.hosts.spaces,
            &self.hosts.ends,
            plan.record.as_ref(),
        )?;
        self.helpers.extend(proxies);
        for service in &plan.far {
            let host = self.hosts.find(&service.node, SERVER)?;
            let words = self.hosts.words(service)?;
            let child = self.hosts.space(host).start(service, &words, &[], true)?;
            self.helpers.push((service.name.clone(), child));
            let Some(port) = service.listens else { continue };
            let mut looks = 0;
            while !self.hosts.space(host).listens(port) {
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
        let changes = if self.hosts.outline.is_chain {
            None
        } else {
            Some(self.hosts.graph(plan).changes()?)
        };
        if let Some(early) = self.early.take() {
            if goes_on(plan) {
                settle(&early);
            }
            early.stop()?;
        }
        let (running, crowd) = match &plan.crowd {
            None => (self.lab.start()?, None),
            Some(spec) => {
                let (told, left) = mpsc::channel();
                let (running, inlets) = self.lab.start_shared(&told)?;
                let places = &self.hosts.outline.places;
                let crowd = Crowd::start(spec.clone(), places, inlets, left, running.clock)?;
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
                let far = self.hosts.homes[SERVER];
                let named = [
                    ("BENTPIPE_FAR", far.v4.to_string()),
                    ("BENTPIPE_FAR6", far.v6.to_string()),
                    ("BENTPIPE_ZERO", started_ns.to_string()),
                ];
                let space = self.hosts.space(self.hosts.find(&process.node, CLIENT)?);
                let child = space.start(process, &self.hosts.words(process)?, &named, false)?;
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
            if self.hosts.spaces.iter_mut().any(Space::is_gone) {
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
            between: between.map(|place| self.hosts.outline.places[place].name.clone()),
            devices: [0, 1].map(|side| ends[side].device.clone()),
            overruns: [0, 1]
                .map(|side| self.hosts.spaces[between[side]].overrun(&ends[side].device)),
        };
        let ends = self.hosts.ends.iter().zip(&self.hosts.outline.between).map(segment).collect();
        let segments = outcome::segments(&self.lab, progress, ends);
        let routes = outcome::Routes::new(routes_late);
        let reasons = verdict::reasons(&self.lab, &segments, routes.as_ref());
        let home = |host: usize| {
            let Home { v4, v6 } = self.hosts.homes[host];
            (self.hosts.name(host).to_owned(), outcome::Host { v4, v6 })
        };
        let ends = |check: &&Checked| {
            [&*check.from, &*check.to] == [self.hosts.name(0), self.hosts.name(1)]
        };
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
            checks: if self.hosts.outline.is_chain { Vec::new() } else { checks },
            routes,
            hosts: (0..self.hosts.homes.len()).map(home).collect(),
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
}

/// Asks a process to end.
fn end(child: &Child) {
    // It may have ended by itself.
    let _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM);
}

/// Whether what begins on the path before the commands goes on beside them: connections of a pool, and of services.
fn goes_on(plan: &Plan) -> bool {
    plan.proxies.iter().any(|proxy| proxy.setup == Setup::Pooled) || !plan.far.is_empty()
}

/// Waits until nothing is under way: what is when the path stops is lost.
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
