//! The caller of a media call.

use std::io::Write;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use runtime::Clock;
use transport::media::LOSS_TIMEOUT;
use units::{RandomStream, Span, Time};

use super::plan::CallerPlan;
use super::report::{CallResult, DirectionReport};
use super::session::{MediaSession, is_stopped};
use super::signalling::{self, CallAnswer, CallOffer, RemoteReport};
use crate::ProgramError;

/// Runs the calls of a plan concurrently, and writes each result as a JSON line. Returns whether it was stopped.
///
/// # Errors
/// The reason why there is no result.
pub fn run_caller(
    plan: &CallerPlan,
    stop: &AtomicBool,
    mut screen: Box<dyn Write>,
) -> Result<bool, ProgramError> {
    plan.load.check().map_err(ProgramError::Input)?;
    let remote = crate::perf::resolve_host(&plan.host, plan.port)?;
    let results: Vec<Result<CallResult, ProgramError>> = std::thread::scope(|scope| {
        let calls: Vec<_> = (1..=plan.count)
            .map(|number| scope.spawn(move || run_call(plan, remote, number, stop)))
            .collect();
        let lost =
            |_| Err(ProgramError::Run("internal error: a call ended unexpectedly".to_owned()));
        calls.into_iter().map(|call| call.join().unwrap_or_else(lost)).collect()
    });
    for result in results {
        let line = serde_json::to_string(&result?).map_err(std::io::Error::from)?;
        writeln!(screen, "{line}")?;
    }
    screen.flush()?;
    Ok(is_stopped(stop))
}

/// Runs one call.
fn run_call(
    plan: &CallerPlan,
    remote: SocketAddr,
    number: u32,
    stop: &AtomicBool,
) -> Result<CallResult, ProgramError> {
    let timeout = Duration::from_nanos(plan.timeout_ns.max(1));
    let why = |error| ProgramError::Run(format!("{remote}: {error}"));
    let mut line = TcpStream::connect_timeout(&remote, timeout).map_err(why)?;
    line.set_nodelay(true).map_err(why)?;
    let local = line.local_addr().map_err(why)?.ip();
    let socket = UdpSocket::bind((local, 0)).map_err(why)?;
    let clock = match &plan.flow {
        Some(flow) => {
            let now = Clock::start();
            Clock::with_zero_at(now.monotonic_ns(Time::ZERO).saturating_sub(flow.since_ns))
        }
        None => Clock::start(),
    };
    let start = clock.now();
    let machine = signalling::boot_id();
    let requested_at = clock.now();
    let ask = CallOffer {
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
    signalling::send_line(&mut line, &ask).map_err(why)?;
    let answer: CallAnswer =
        signalling::receive_line(&mut line, signalling::MAX_OFFER_BYTES, timeout).map_err(why)?;
    let trip = clock.now().since(requested_at);
    let CallAnswer::Ready { port, machine: other, clock_ns } = answer else {
        let CallAnswer::Refused(text) = answer else { unreachable!("an answer is one of two") };
        return Err(ProgramError::Run(format!("{remote}: refused: {text}")));
    };
    let one_clock = !machine.is_empty() && machine == other;
    // On two machines the callee's clock is assumed to be read in the middle of the round trip.
    let middle = clock.monotonic_ns(requested_at) + trip.nanos() / 2;
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
        MediaSession::new(socket, clock, up, (start, duration), offset_ns, random).map_err(why)?;
    // A NAT on the path admits datagrams of the callee only after one of this side.
    media.open_nat_binding().map_err(why)?;
    let end = start + duration + LOSS_TIMEOUT;
    media.run(end, &|| is_stopped(stop)).map_err(why)?;
    // A caller that stops early still receives the report.
    line.shutdown(std::net::Shutdown::Write).map_err(why)?;
    let report: RemoteReport =
        signalling::receive_line(&mut line, signalling::MAX_REPORT_BYTES, timeout).map_err(why)?;
    Ok(CallResult {
        call: number,
        peer: remote.to_string(),
        one_clock,
        clock_offset_ns: offset_ns,
        zero_ns: clock.monotonic_ns(Time::ZERO),
        start_ns: start.nanos(),
        late_ns: [media.lag_p95_ns(), report.late_ns],
        up: up.map(|_| report.up.with_sent(media.sent_by_window())),
        down: plan
            .load
            .down
            .as_ref()
            .map(|_| DirectionReport::from_stats(media.receiver_stats()).with_sent(report.sent)),
    })
}
