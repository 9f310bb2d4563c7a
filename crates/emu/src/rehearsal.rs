//! A direction's wake-ups measured before it carries anything: sleeps by the timer, and packets sent to
//! its device while it waits for them.

use std::fs::File;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use tun_rs::SyncDevice;
use units::{Span, Time};

use crate::calibration::Calibration;
use crate::clock::{self, Clock};
use crate::namespace::{self, Address};

/// Samples of each kind: a sixth of a second for all of a direction.
const ROUNDS: usize = 16;
/// Long enough for the processor to become idle.
const LONG: Duration = Duration::from_millis(5);
/// What is left after a long sleep that ended early.
const SHORT: Duration = Duration::from_micros(150);
/// Longest wait for a packet that was sent on this machine.
const PATIENCE: Duration = Duration::from_millis(100);
/// Nothing listens there (RFC 863), and nothing that is sent there passes on.
const DISCARD: u16 = 9;
/// Largest packet read.
const LARGEST: usize = 65_535;

/// Measures the direction that reads `device`, whose end in `space` is `address`; `prepare` gives the
/// thread the scheduler that it will have.
///
/// # Errors
/// The kernel's.
pub(crate) fn rehearse(
    space: &File,
    address: &Address,
    device: &Arc<SyncDevice>,
    prepare: fn() -> bool,
) -> io::Result<Calibration> {
    let socket = namespace::within(space, || UdpSocket::bind((address.v4, 0)))?;
    let to = SocketAddr::from((address.peer_v4, DISCARD));
    let clock = Clock::start();
    device.set_nonblocking(true)?;
    std::thread::scope(|scope| {
        let direction = std::thread::Builder::new().name("rehearsal".to_owned());
        let direction = direction.spawn_scoped(scope, || -> io::Result<_> {
            prepare();
            clock::sharpen()?;
            let (long, short) = sleeps(&clock, device)?;
            // The sender starts when this thread is there.
            let sender = scope.spawn(|| send(&clock, &socket, to));
            let found = arrivals(&clock, device)?;
            let sent =
                sender.join().unwrap_or_else(|_| Err(io::Error::other("the sender panicked")))?;
            Ok(Calibration::from_samples(&waits(&sent, &found), &long, &short))
        })?;
        direction.join().unwrap_or_else(|_| Err(io::Error::other("the rehearsal panicked")))
    })
}

/// How much too long sleeps are: long ones and short ones after them. A packet may end one: it does not count.
fn sleeps(clock: &Clock, device: &SyncDevice) -> io::Result<(Vec<Span>, Vec<Span>)> {
    let (mut long, mut short) = (Vec::new(), Vec::new());
    let mut buffer = vec![0; LARGEST];
    for _ in 0..ROUNDS {
        for (pause, samples) in [(LONG, &mut long), (SHORT, &mut short)] {
            while device.recv(&mut buffer).is_ok() {}
            let start = clock.now();
            if !clock::readable(device, pause)? {
                let took = clock.now().since(start).nanos();
                samples.push(Span(took.saturating_sub(pause.as_nanos() as u64)));
            }
        }
    }
    Ok((long, short))
}

/// Sends numbered packets; before and after each.
fn send(clock: &Clock, socket: &UdpSocket, to: SocketAddr) -> io::Result<Vec<(Time, Time)>> {
    let mut sent = Vec::new();
    for round in 0..ROUNDS as u64 {
        std::thread::sleep(LONG);
        let before = clock.now();
        socket.send_to(&mark(round), to)?;
        sent.push((before, clock.now()));
    }
    Ok(sent)
}

/// What a packet of the rehearsal ends with.
fn mark(round: u64) -> [u8; 16] {
    let mut mark = *b"bentpipe\0\0\0\0\0\0\0\0";
    mark[8..].copy_from_slice(&round.to_be_bytes());
    mark
}

/// When the thread woke for each numbered packet.
fn arrivals(clock: &Clock, device: &SyncDevice) -> io::Result<Vec<Option<Time>>> {
    let mut found = vec![None; ROUNDS];
    let mut buffer = vec![0; LARGEST];
    while found[ROUNDS - 1].is_none() {
        if !clock::readable(device, PATIENCE)? {
            break;
        }
        let woke = clock.now();
        while let Ok(length) = device.recv(&mut buffer) {
            let packet = &buffer[..length];
            let round = (0..ROUNDS).find(|round| packet.ends_with(&mark(*round as u64)));
            if let Some(round) = round {
                found[round] = Some(woke);
            }
        }
    }
    Ok(found)
}

/// From each packet in the device until the thread ran: without the least time that sending itself took.
fn waits(sent: &[(Time, Time)], found: &[Option<Time>]) -> Vec<Span> {
    let sending =
        sent.iter().map(|(before, after)| after.since(*before).nanos()).min().unwrap_or(0);
    sent.iter()
        .zip(found)
        .filter_map(|((before, _), woke)| {
            let took = (*woke)?.since(*before).nanos();
            Some(Span(took.saturating_sub(sending)))
        })
        .collect()
}
