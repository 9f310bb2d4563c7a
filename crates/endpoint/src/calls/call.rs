//! The calling side.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use transport::calls::PATIENCE;
use units::{RandomStream, Span, Time};

use super::media::{Media, stopped};
use super::plan::CallPlan;
use super::told::{Direction, Told};
use super::words::{self, Answer, Ask, Heard};
use crate::clock::Clock;
use crate::perf::Failure;

/// Makes the calls of a plan, all at the same time, and writes what became of each as a line of JSON; whether it was
/// stopped.
///
/// # Errors
/// Why there is no result, in words.
pub fn call(
    plan: &CallPlan,
    stop: &AtomicBool,
    mut screen: Box<dyn Write>,
) -> Result<bool, Failure> {
    plan.load.check().map_err(Failure::Input)?;
    let remote = crate::perf::resolve(&plan.host, plan.port)?;
    let told: Vec<Result<Told, Failure>> = std::thread::scope(|scope| {
        let calls: Vec<_> = (1..=plan.count)
            .map(|number| scope.spawn(move || one(plan, remote, number, stop)))
            .collect();
        let lost = |_| Err(Failure::Run("a call has ended by a fault of its own".to_owned()));
        calls.into_iter().map(|call| call.join().unwrap_or_else(lost)).collect()
    });
    for told in told {
        let line = serde_json::to_string(&told?).map_err(std::io::Error::from)?;
        writeln!(screen, "{line}")?;
    }
    screen.flush()?;
    Ok(stopped(stop))
}

/// One of them.
fn one(
    plan: &CallPlan,
    remote: SocketAddr,
    number: u32,
    stop: &AtomicBool,
) -> Result<Told, Failure> {
    let patience = Duration::from_nanos(plan.timeout_ns.max(1));
    let why = |error| Failure::Run(format!("{remote}: {error}"));
    let mut line = TcpStream::connect_timeout(&remote, patience).map_err(why)?;
    line.set_nodelay(true).map_err(why)?;
    let local = line.local_addr().map_err(why)?.ip();
    let socket = UdpSocket::bind((local, 0)).map_err(why)?;
    let clock = match &plan.flow {
        Some(flow) => {
            let now = Clock::start();
            Clock::since(now.monotonic_ns(Time::ZERO).saturating_sub(flow.since_ns))
        }
        None => Clock::start(),
    };
    let start = clock.now();
    let machine = words::machine();
    let asked = clock.now();
    let ask = Ask {
        load: plan.load.clone(),
        seed: match plan.flow {
            Some(_) => plan.seed,
            None => plan.seed.wrapping_add(u64::from(number)),
        },
        port: socket.local_addr().map_err(why)?.port(),
        machine: machine.clone(),
        zero_ns: clock.monotonic_ns(Time::ZERO),
        flow: plan.flow.as_ref().map(|flow| (flow.name.clone(), start.nanos())),
    };
    words::say(&mut line, &ask).map_err(why)?;
    let answer: Answer = words::hear(&mut line, words::QUESTION, patience).map_err(why)?;
    let trip = clock.now().since(asked);
    let Answer::Ready { port, machine: other, clock_ns } = answer else {
        let Answer::Refused(text) = answer else { unreachable!("an answer is one of two") };
        return Err(Failure::Run(format!("{remote}: refused: {text}")));
    };
    let one_clock = !machine.is_empty() && machine == other;
    // Between two machines the answer's clock was read in the middle of the round trip, for all that is known.
    let middle = clock.monotonic_ns(asked) + trip.nanos() / 2;
    let offset_ns = if one_clock { 0 } else { clock_ns.wrapping_sub(middle) as i64 };
    socket.connect((remote.ip(), port)).map_err(why)?;
    let duration = Span(plan.load.duration_ns);
    let (name, start) = match &plan.flow {
        Some(flow) => (flow.name.clone(), start),
        None => (format!("call-{number}"), clock.now()),
    };
    let random = RandomStream::named(plan.seed, &name, "periods client");
    let up = plan.load.up.as_ref();
    let mut media =
        Media::new(socket, clock, up, (start, duration), offset_ns, random).map_err(why)?;
    // A NAT on the way lets the answering side's datagrams in only after one of ours.
    media.knock().map_err(why)?;
    let end = start + duration + PATIENCE;
    media.run(end, &|| stopped(stop)).map_err(why)?;
    // Who stops early still hears what came of what was sent.
    line.shutdown(std::net::Shutdown::Write).map_err(why)?;
    let heard: Heard = words::hear(&mut line, words::RESULT, patience).map_err(why)?;
    Ok(Told {
        call: number,
        peer: remote.to_string(),
        one_clock,
        clock_offset_ns: offset_ns,
        zero_ns: clock.monotonic_ns(Time::ZERO),
        start_ns: start.nanos(),
        late_ns: [media.late_ns(), heard.late_ns],
        up: up.map(|_| heard.up.with_sent(media.sent())),
        down: plan.load.down.as_ref().map(|_| Direction::of(media.heard()).with_sent(heard.sent)),
    })
}
