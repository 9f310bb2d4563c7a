//! Measures the path with UDP before a program uses it: the round-trip time and the rates of both directions. The lab
//! reports them with the bounds of the path.

use std::fs::File;
use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrStorage, TimestampingFlag, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use units::{Rate, Span};

use crate::{EmulatorClock, namespace};

/// The result of a path check.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct PathCheck {
    /// The minimum round-trip time of small packets in ns.
    pub rtt_ns: u64,
    /// The rate upwards in bit/s of IP packets; `None` without a rate limit or without a measurable duration.
    pub up_bit_s: Option<u64>,
    /// The rate downwards in bit/s of IP packets.
    pub down_bit_s: Option<u64>,
    /// Upper bound in ns of the error because the measuring thread waited for a processor or was behind schedule.
    pub waited_ns: u64,
    /// The maximum lateness of the emulator during the check in ns, if known.
    pub late_ns: Option<u64>,
}

/// Number of round-trip samples, and of attempts per sample on a path with losses.
const PROBES: usize = 3;
const TRIES_PER_PROBE: usize = 5;
/// Longest wait for a reply beyond the propagation delay of the path, which carries no other packet.
const REPLY_TIMEOUT: Duration = Duration::from_secs(1);
/// UDP payload of a full packet over IPv4 with an MTU of 1500.
const FULL_PAYLOAD_BYTES: usize = 1472;
/// Bytes of the IP and UDP headers.
const HEADER_BYTES: usize = 28;
/// Bytes of a full packet.
const FULL_PACKET_BYTES: u64 = (FULL_PAYLOAD_BYTES + HEADER_BYTES) as u64;
/// Memory of a full packet in the kernel with its metadata: two pages.
const KERNEL_BYTES_PER_PACKET: usize = 8192;
/// Receive timestamps of the kernel.
const RX_TIMESTAMPING: TimestampingFlag = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
    .union(TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE);
/// Approximate duration of a packet train at the specified rate.
const TRAIN_DURATION: Span = Span(200_000_000);
/// Minimum and maximum number of packets of a train.
const TRAIN_PACKETS: (u64, u64) = (16, 4096);

/// Measures the path between two namespaces, with the addresses of its ends.
///
/// # Errors
/// Returns an error if no reply arrived, or the error of the kernel.
pub fn check_path(
    near: (&File, Ipv4Addr),
    far: (&File, Ipv4Addr),
    max_rates: [Option<u64>; 2],
    propagation: Span,
) -> io::Result<PathCheck> {
    let open = |(space, address)| namespace::run_in(space, || UdpSocket::bind((address, 0)));
    let (near_socket, far_socket) = (open(near)?, open(far)?);
    let (far_at, near_at) = (far_socket.local_addr()?, near_socket.local_addr()?);
    let timeout = REPLY_TIMEOUT + Duration::from_nanos(propagation.nanos());
    for socket in [&far_socket, &near_socket] {
        socket.set_read_timeout(Some(timeout))?;
        // Enabled early, because the kernel starts to take timestamps with a delay.
        setsockopt(socket, sockopt::Timestamping, &RX_TIMESTAMPING)?;
    }
    let clock = EmulatorClock::start();
    let (mut min_rtt, mut waited) = (Span(u64::MAX), 0);
    let mut replies = 0;
    for number in 0..(PROBES * TRIES_PER_PROBE) as u8 {
        let before = run_queue_wait_ns();
        match measure_rtt(&clock, &near_socket, &far_socket, number) {
            Ok(took) => {
                if took < min_rtt {
                    (min_rtt, waited) = (took, run_queue_wait_ns() - before);
                }
                replies += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if replies == PROBES {
            break;
        }
    }
    if replies == 0 {
        return Err(io::Error::other(format!(
            "the path check received none of {} packets; use --no-path-check to skip it",
            PROBES * TRIES_PER_PROBE
        )));
    }
    let mut rates = [None; 2];
    for (index, (from, to, destination)) in
        [(&near_socket, &far_socket, far_at), (&far_socket, &near_socket, near_at)]
            .into_iter()
            .enumerate()
    {
        let Some(rate) = max_rates[index] else { continue };
        let (measured, train_wait_ns) = measure_rate(&clock, from, to, destination, rate, timeout)?;
        rates[index] = measured;
        waited = waited.max(train_wait_ns);
    }
    let [up_bit_s, down_bit_s] = rates;
    Ok(PathCheck {
        rtt_ns: min_rtt.nanos(),
        up_bit_s,
        down_bit_s,
        waited_ns: waited,
        late_ns: None,
    })
}

/// Measures the round-trip time of a small packet. `number` identifies the probe, so a late reply is not counted.
fn measure_rtt(
    clock: &EmulatorClock,
    near: &UdpSocket,
    far: &UdpSocket,
    number: u8,
) -> io::Result<Span> {
    let start = clock.now();
    near.send_to(&[number], far.local_addr()?)?;
    receive_probe(far, number)?;
    far.send_to(&[number], near.local_addr()?)?;
    receive_probe(near, number)?;
    Ok(clock.now().since(start))
}

/// Waits for the small packet with this number. Signals of ended child processes do not interrupt it.
fn receive_probe(socket: &UdpSocket, number: u8) -> io::Result<()> {
    let mut buffer = [0; 2];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((1, _)) if buffer[0] == number => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
}

/// Estimates the duration of [`check_path`] without losses: the round trips of the small packets, and each train.
pub fn estimate_check_duration(max_rates: [Option<u64>; 2], propagation: Span) -> Span {
    let trains = max_rates.into_iter().flatten().map(|rate| {
        Rate(rate).time_for(train_packets(rate) * FULL_PACKET_BYTES).nanos()
            + propagation.nanos() / 2
    });
    Span(PROBES as u64 * propagation.nanos() + trains.sum::<u64>())
}

/// Returns the time that this thread was runnable without a processor, in ns (proc_pid_schedstat(5)); 0 if the kernel
/// does not count it.
fn run_queue_wait_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Returns the number of packets of a train at `rate` in bit/s. No rate of a plan overflows.
fn train_packets(rate: u64) -> u64 {
    let bytes = u128::from(rate) * u128::from(TRAIN_DURATION.nanos()) / 8_000_000_000;
    ((bytes / u128::from(FULL_PACKET_BYTES)) as u64).clamp(TRAIN_PACKETS.0, TRAIN_PACKETS.1)
}

/// Returns the receive rate of a packet train sent slightly faster than `rate`. Also returns the possible error of its
/// duration in ns, from the lag of the sender. The kernel takes the receive times, because the reader may be late.
fn measure_rate(
    clock: &EmulatorClock,
    from: &UdpSocket,
    to: &UdpSocket,
    destination: SocketAddr,
    rate: u64,
    timeout: Duration,
) -> io::Result<(Option<u64>, u64)> {
    let packets = train_packets(rate);
    let receive = to.try_clone()?;
    let buffer_bytes = packets as usize * KERNEL_BYTES_PER_PACKET;
    if setsockopt(&receive, sockopt::RcvBufForce, &buffer_bytes).is_err() {
        setsockopt(&receive, sockopt::RcvBuf, &buffer_bytes)?;
    }
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || -> io::Result<(u64, Duration)> {
            // The number of a packet and its receive time.
            let (mut count, mut first, mut last) = (0, None, None);
            while count < packets {
                match receive_timestamped(&receive) {
                    Ok((FULL_PAYLOAD_BYTES, received_at)) => {
                        if count == 0 {
                            // The remaining packets of the train arrive at once or not at all.
                            receive.set_read_timeout(Some(Duration::from_secs(1)))?;
                        }
                        count += 1;
                        if let Some(received_at) = received_at {
                            first.get_or_insert((count, received_at));
                            last = Some((count, received_at));
                        }
                    }
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            receive.set_read_timeout(Some(timeout))?;
            let ((one, began), (other, ended)) = first.zip(last).unwrap_or_default();
            Ok((other - one, ended.saturating_sub(began)))
        });
        // A packet sent behind the schedule of `rate` may find the link idle.
        let (started_at, mut behind) = (clock.now(), 0);
        for sent in 0..packets {
            let due = Rate(rate).time_for(sent * FULL_PACKET_BYTES);
            behind = behind.max(clock.now().since(started_at).nanos().saturating_sub(due.nanos()));
            from.send_to(&[0; FULL_PAYLOAD_BYTES], destination)?;
        }
        let (packets, took) =
            reader.join().unwrap_or_else(|_| Err(io::Error::other("the reader panicked")))?;
        let rate = (took > Duration::ZERO).then(|| {
            let bits = u128::from(packets) * u128::from(8 * FULL_PACKET_BYTES);
            (bits * 1_000_000_000 / took.as_nanos()) as u64
        });
        Ok((rate, behind))
    })
}

/// Returns the length of the next packet, at most [`FULL_PAYLOAD_BYTES`], and its kernel receive time since 1970.
/// SO_TIMESTAMPNS gives a packet without a timestamp the time of this call. SO_TIMESTAMPING reports no time for it
/// (Documentation/networking/timestamping.rst).
fn receive_timestamped(socket: &UdpSocket) -> Result<(usize, Option<Duration>), Errno> {
    let mut buffer = [0; FULL_PAYLOAD_BYTES];
    let mut space = nix::cmsg_space!([TimeSpec; 3]);
    let mut into = [IoSliceMut::new(&mut buffer)];
    let found = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut into,
        Some(&mut space),
        MsgFlags::empty(),
    )?;
    let received_at = found.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampsns(received_at) => {
            Some(Duration::from(received_at.system))
        }
        _ => None,
    });
    Ok((found.bytes, received_at.filter(|received_at| *received_at > Duration::ZERO)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_reply_is_not_counted_for_the_next_probe() {
        let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let (near, far) = (open(), open());
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        }
        far.send_to(&[6], near.local_addr().expect("bound")).expect("sent");
        near.send_to(&[6], far.local_addr().expect("bound")).expect("sent");
        measure_rtt(&EmulatorClock::start(), &near, &far, 7).expect("answered");
        for socket in [near, far] {
            socket.set_nonblocking(true).expect("set");
            let left = socket.recv_from(&mut [0; 2]).expect_err("nothing is left");
            assert_eq!(left.kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_train_of_any_rate_is_short() {
        assert_eq!(train_packets(1), 16);
        assert_eq!(train_packets(12_000_000), 200, "0.2 s of 1,000 packets a second");
        let geo = estimate_check_duration([Some(6_000_000); 2], Span(600_000_000));
        assert_eq!(
            geo,
            Span(2_800_000_000),
            "three pings, and two trains of 100 packets that cross it once"
        );
        // From 92.2 Gb/s on the product with 0.2 s in nanoseconds exceeds 64 bits.
        for rate in [92_000_000_000, 93_000_000_000, 400_000_000_000, u64::MAX] {
            assert_eq!(train_packets(rate), 4096, "{rate}");
        }
    }
}
