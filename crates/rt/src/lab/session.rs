//! A session from its plan to its result.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, PipeWriter, Read};
use std::process::Child;
use std::time::Duration;

use emu::namespace::Networks;
use emu::{Address, Check, Clock, Lab, Progress, Running, namespace};
use endpoint::say;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use units::{Span, Time};

use super::ending::Ending;
use super::outcome::{self, Outcome};
use super::plan::{Plan, Process};
use super::proxies;
use super::record::Series;
use super::space::Space;
use super::watch::Watch;
use crate::keeper::{Said, code};
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
    let check = if plan.check { Some(session.check()?) } else { None };
    if let Some(check) = &check {
        say(format_args!("bentpipe: {}", said(check, &session.lab)));
    }
    session.prepare(&plan)?;
    let _way = if outside {
        let [near, far] = [&session.ends[0][0], &session.ends[session.ends.len() - 1][1]];
        Some(nat::open(&far.device, near.v4, near.v6)?)
    } else {
        None
    };
    session.carry(&plan, check, &ending)
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
fn said(check: &Check, lab: &Lab) -> String {
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
        lab.propagation.millis(),
        mega(lab.rates[0]),
        mega(lab.rates[1]),
    )
}

/// A path in place.
struct Session {
    /// Of the client, the proxies in order, the server.
    spaces: Vec<Space>,
    /// The two ends of each segment.
    ends: Vec<[Address; 2]>,
    /// Nodes of the proxies.
    nodes: Vec<String>,
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
        let nodes = plan.lab.proxies()?;
        let segments = nodes.len() + 1;
        if segments > usize::from(namespace::BLOCK) {
            let most = namespace::BLOCK - 1;
            return Err(io::Error::other(format!("the path has more than {most} proxies")));
        }
        let mut spaces = Vec::new();
        for _ in 0..segments {
            spaces.push(Space::make(life)?);
        }
        spaces.push(if plan.private { Space::make(life)? } else { Space::own()? });
        let networks = namespace::within(&spaces[segments].network, Networks::claim)?;
        let ends = Address::path(networks.first, segments);
        let files: Vec<&File> = spaces.iter().map(|space| &space.network).collect();
        let lab = Lab::open(&plan.lab, &files, &ends)?;
        let [near, far] = plan.kernels();
        route(&spaces, &ends, &near.initial_window, &far.initial_window)?;
        for (side, kernel) in [(0, near), (segments, far)] {
            if side == segments && !plan.private && !kernel.settings.is_empty() {
                return Err(io::Error::other("settings of the far side need a private one"));
            }
            for (name, value) in &kernel.settings {
                spaces[side].set(name, value)?;
            }
        }
        let early = Some(lab.start()?);
        Ok(Session { spaces, ends, nodes, lab, early, helpers: Vec::new(), _networks: networks })
    }

    fn far(&self) -> &Space {
        &self.spaces[self.spaces.len() - 1]
    }

    fn addresses(&self) -> [&Address; 2] {
        [&self.ends[0][0], &self.ends[self.ends.len() - 1][1]]
    }

    fn check(&self) -> io::Result<Check> {
        let [near, far] = self.addresses();
        let check = emu::check(
            (&self.spaces[0].network, near.v4),
            (&self.far().network, far.v4),
            self.lab.rates,
            self.lab.propagation,
        )?;
        let progress = self.early.as_ref().map(Running::read).unwrap_or_default();
        let late = progress.iter().flatten().filter_map(|way| way.lateness.quantile(1.0)).max();
        Ok(Check { late_ns: late.map(Span::nanos), ..check })
    }

    /// Proxies and services, until they are ready.
    fn prepare(&mut self, plan: &Plan) -> io::Result<()> {
        let proxies = proxies::start(
            &plan.proxies,
            &self.nodes,
            &self.spaces,
            &self.ends,
            plan.record.as_ref(),
        )?;
        self.helpers.extend(proxies);
        for service in &plan.far {
            let words = self.words(service);
            let child = self.far().start(service, &words, &[], true)?;
            self.helpers.push((service.name.clone(), child));
            let Some(port) = service.listens else { continue };
            let mut looks = 0;
            while !self.far().listens(port) {
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
    fn carry(mut self, plan: &Plan, check: Option<Check>, ending: &Ending) -> io::Result<u8> {
        if let Some(early) = self.early.take() {
            settle(&early);
            early.stop()?;
        }
        let running = self.lab.start()?;
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
                let far = self.addresses()[1];
                let named =
                    [("BENTPIPE_FAR", far.v4.to_string()), ("BENTPIPE_FAR6", far.v6.to_string())];
                let child = self.spaces[0].start(process, &self.words(process), &named, false)?;
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
        self.farewell(&mut statuses, &running.clock);
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
                ..self.outcome(check, &progress, started_ns, wall_s, statuses)
            };
            std::fs::write(file, serde_json::to_vec(&outcome)?)
                .map_err(|error| io::Error::other(format!("{file}: {error}")))?;
        }
        Ok(status.unwrap_or(0))
    }

    fn outcome(
        &self,
        check: Option<Check>,
        progress: &[[Progress; 2]],
        started_ns: u64,
        wall_s: f64,
        statuses: BTreeMap<String, u8>,
    ) -> Outcome {
        let overruns: Vec<[u64; 2]> = self
            .ends
            .iter()
            .enumerate()
            .map(|(place, [near, far])| {
                [
                    self.spaces[place].overrun(&near.device),
                    self.spaces[place + 1].overrun(&far.device),
                ]
            })
            .collect();
        let segments = outcome::segments(&self.lab, progress, &overruns);
        let reasons = outcome::reasons(&self.lab, &segments);
        let cpu_s = progress.iter().flatten().map(|way| way.cpu_ns as f64 / 1e9).sum();
        Outcome {
            valid: reasons.is_empty(),
            reasons,
            interrupted: false,
            realtime: false,
            record_error: None,
            statuses,
            started_ns,
            wall_s,
            cpu_s,
            check,
            promise: outcome::promise(&self.lab),
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
    fn words(&self, process: &Process) -> Vec<String> {
        let [near, far] = self.addresses();
        let put = |word: &String| {
            word.replace("{near}", &near.v4.to_string())
                .replace("{near6}", &near.v6.to_string())
                .replace("{far}", &far.v4.to_string())
                .replace("{far6}", &far.v6.to_string())
        };
        process.command.iter().map(put).collect()
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

/// Routes: towards the server by default, towards the client segment by segment; proxies forward.
fn route(
    spaces: &[Space],
    ends: &[[Address; 2]],
    near_window: &Option<u32>,
    far_window: &Option<u32>,
) -> io::Result<()> {
    let windows = |segments: &Option<u32>| -> Vec<String> {
        segments.map_or(Vec::new(), |segments| {
            let text = segments.to_string();
            ["initcwnd", &text, "initrwnd", &text].map(str::to_owned).to_vec()
        })
    };
    let add = |space: &Space, six: bool, to: &str, device: &str, window: &[String]| {
        let mut words = if six { vec!["-6"] } else { Vec::new() };
        words.extend(["route", "replace", to, "dev", device]);
        words.extend(window.iter().map(String::as_str));
        space.ip(&words)
    };
    let last = ends.len();
    for (place, space) in spaces.iter().enumerate() {
        if place > 0 && place < last {
            for name in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
                space.set(name, "1")?;
            }
            for name in ["net.ipv4.conf.all.rp_filter", "net.ipv4.conf.default.rp_filter"] {
                space.set(name, "0")?;
            }
        }
        // Back towards the client, all the way.
        if place > 0 {
            let own = &ends[place - 1][1];
            let window = if place == last { windows(far_window) } else { Vec::new() };
            for pair in &ends[..place] {
                let peer = &pair[0];
                add(space, false, &peer.v4.to_string(), &own.device, &window)?;
                add(space, true, &peer.v6.to_string(), &own.device, &window)?;
                if place > 1 {
                    let other = &pair[1];
                    if other.v4 != own.v4 {
                        add(space, false, &other.v4.to_string(), &own.device, &[])?;
                        add(space, true, &other.v6.to_string(), &own.device, &[])?;
                    }
                }
            }
        }
        // Onwards: everything else.
        if place < last {
            let window = if place == 0 { windows(near_window) } else { Vec::new() };
            let device = &ends[place][0].device;
            add(space, true, "default", device, &window)?;
            add(space, false, "default", device, &window)?;
            let peer = &ends[place][0];
            add(space, false, &peer.peer_v4.to_string(), device, &window)?;
            add(space, true, &peer.peer_v6.to_string(), device, &window)?;
        }
    }
    Ok(())
}
