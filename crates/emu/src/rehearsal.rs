//! Measures the wake-up latency of a direction before its start: timer sleeps, and packets sent to its device while it
//! waits for them.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tun_rs::SyncDevice;
use units::{Span, Time};

use crate::calibration::Calibration;
use crate::clock::{self, Clock};
use crate::namespace::{self, DeviceAddress};

/// Samples of each kind. All samples of a direction take a sixth of a second.
const ROUNDS: usize = 16;
/// Long enough for the processor to enter an idle state.
const LONG_SLEEP: Duration = Duration::from_millis(5);
/// The remaining time after a long sleep that ended early.
const SHORT_SLEEP: Duration = Duration::from_micros(150);
/// Longest wait for a packet that was sent on this machine.
const PROBE_TIMEOUT: Duration = Duration::from_millis(100);
/// The discard port (RFC 863). No process listens on it, and no packet for it is forwarded.
const DISCARD_PORT: u16 = 9;
/// Largest packet read.
const MAX_PACKET_BYTES: usize = 65_535;

/// Measures the direction that reads `device`, which has `address` in `namespace`. `prepare` sets the scheduler of the
/// thread.
///
/// # Errors
/// Returns the error of the kernel.
pub(crate) fn measure_wakeups(
    namespace: &File,
    address: &DeviceAddress,
    device: &Arc<SyncDevice>,
    prepare: fn() -> bool,
) -> io::Result<Calibration> {
    let socket = namespace::run_in(namespace, || UdpSocket::bind((address.v4, 0)))?;
    let to = SocketAddr::from((address.peer_v4, DISCARD_PORT));
    let clock = Clock::start();
    device.set_nonblocking(true)?;
    std::thread::scope(|scope| {
        let forwarder = std::thread::Builder::new().name("rehearsal".to_owned());
        let forwarder = forwarder.spawn_scoped(scope, || -> io::Result<_> {
            prepare();
            clock::minimise_timer_slack()?;
            let (long, short) = measure_sleeps(&clock, device)?;
            // The sender starts after the measuring thread.
            let sender = scope.spawn(|| send_probes(&clock, &socket, to));
            let found = measure_arrivals(&clock, device)?;
            let sent =
                sender.join().unwrap_or_else(|_| Err(io::Error::other("the sender panicked")))?;
            Ok(Calibration::from_samples(&wakeup_delays(&sent, &found), &long, &short))
        })?;
        forwarder.join().unwrap_or_else(|_| Err(io::Error::other("the rehearsal panicked")))
    })
}

/// Returns the excess of long sleeps and of the short sleeps after them. A sleep that a packet ended is not counted.
fn measure_sleeps(clock: &Clock, device: &SyncDevice) -> io::Result<(Vec<Span>, Vec<Span>)> {
    let (mut long, mut short) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    for _ in 0..ROUNDS {
        for (pause, samples) in [(LONG_SLEEP, &mut long), (SHORT_SLEEP, &mut short)] {
            while device.recv(&mut buffer).is_ok() {}
            let start = clock.now();
            if !clock::wait_readable(device, pause)? {
                let took = clock.now().since(start).nanos();
                samples.push(Span(took.saturating_sub(pause.as_nanos() as u64)));
            }
        }
    }
    Ok((long, short))
}

/// Sends numbered packets. Returns the times before and after each.
fn send_probes(clock: &Clock, socket: &UdpSocket, to: SocketAddr) -> io::Result<Vec<(Time, Time)>> {
    let mut sent = Vec::new();
    for round in 0..ROUNDS as u64 {
        std::thread::sleep(LONG_SLEEP);
        let before = clock.now();
        socket.send_to(&probe_payload(round), to)?;
        sent.push((before, clock.now()));
    }
    Ok(sent)
}

/// Returns the last bytes of a probe packet.
fn probe_payload(round: u64) -> [u8; 16] {
    let mut mark = *b"bentpipe\0\0\0\0\0\0\0\0";
    mark[8..].copy_from_slice(&round.to_be_bytes());
    mark
}

/// Returns the time at which the thread woke for each numbered packet.
fn measure_arrivals(clock: &Clock, device: &SyncDevice) -> io::Result<Vec<Option<Time>>> {
    let mut found = vec![None; ROUNDS];
    let mut buffer = vec![0; MAX_PACKET_BYTES];
    while found[ROUNDS - 1].is_none() {
        if !clock::wait_readable(device, PROBE_TIMEOUT)? {
            break;
        }
        let woken_at = clock.now();
        while let Ok(length) = device.recv(&mut buffer) {
            let packet = &buffer[..length];
            let round = (0..ROUNDS).find(|round| packet.ends_with(&probe_payload(*round as u64)));
            if let Some(round) = round {
                found[round] = Some(woken_at);
            }
        }
    }
    Ok(found)
}

/// Returns the delay from each packet in the device to its reader, less the minimum time of sending.
fn wakeup_delays(sent: &[(Time, Time)], found: &[Option<Time>]) -> Vec<Span> {
    let sending =
        sent.iter().map(|(before, after)| after.since(*before).nanos()).min().unwrap_or(0);
    sent.iter()
        .zip(found)
        .filter_map(|((before, _), woken_at)| {
            let took = (*woken_at)?.since(*before).nanos();
            Some(Span(took.saturating_sub(sending)))
        })
        .collect()
}
