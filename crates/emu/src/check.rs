//! The path measured against its own promise before anything runs over it: round-trip time and the
//! rate of both directions, with UDP between the two ends.

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

use crate::{Clock, namespace};

/// What was measured.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Check {
    /// Least round-trip time of small packets.
    pub rtt_ns: u64,
    /// Rate upwards, bit/s of IP packets; none: there was no time to tell.
    pub up_bit_s: Option<u64>,
    /// Rate downwards.
    pub down_bit_s: Option<u64>,
    /// The most that a figure above is off because what measured it had no processor: it was ready, or behind.
    pub waited_ns: u64,
    /// The most by which the emulator was late meanwhile, if it is known.
    pub late_ns: Option<u64>,
}

/// Small packets for the round-trip time, and how many a path that loses packets is given for each.
const PINGS: usize = 3;
const TRIES: usize = 5;
/// Longest wait for an answer beyond the path's own propagation: nothing else is on the way.
const PATIENCE: Duration = Duration::from_secs(1);
/// UDP payload of a full packet over IPv4 and an MTU of 1500.
const FULL: usize = 1472;
/// IP and UDP headers.
const HEADERS: usize = 28;
/// Bytes of a full packet.
const PACKET: u64 = (FULL + HEADERS) as u64;
/// A full packet in the kernel, with what is kept beside it: two pages.
const IN_KERNEL: usize = 8192;
/// Times of arrival, which the kernel takes.
const SOFTWARE: TimestampingFlag = TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
    .union(TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE);
/// Trains last about this long at the promised rate.
const TRAIN: Span = Span(200_000_000);
/// Packets of a train, at the least and at the most.
const PACKETS: (u64, u64) = (16, 4096);

/// Measures the path between two namespaces and the addresses of its ends there.
///
/// # Errors
/// No answer came, or the kernel refuses.
pub fn check(
    near: (&File, Ipv4Addr),
    far: (&File, Ipv4Addr),
    promised: [Option<u64>; 2],
    propagation: Span,
) -> io::Result<Check> {
    let open = |(space, address)| namespace::within(space, || UdpSocket::bind((address, 0)));
    let (near_socket, far_socket) = (open(near)?, open(far)?);
    let (far_at, near_at) = (far_socket.local_addr()?, near_socket.local_addr()?);
    let patience = PATIENCE + Duration::from_nanos(propagation.nanos());
    for socket in [&far_socket, &near_socket] {
        socket.set_read_timeout(Some(patience))?;
        // The kernel begins some time after it is asked: early.
        setsockopt(socket, sockopt::Timestamping, &SOFTWARE)?;
    }
    let clock = Clock::start();
    let (mut least, mut waited) = (Span(u64::MAX), 0);
    let mut answers = 0;
    for number in 0..(PINGS * TRIES) as u8 {
        let before = has_waited();
        match ping(&clock, &near_socket, &far_socket, number) {
            Ok(took) => {
                if took < least {
                    (least, waited) = (took, has_waited() - before);
                }
                answers += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if answers == PINGS {
            break;
        }
    }
    if answers == 0 {
        return Err(io::Error::other(format!(
            "measuring the path first, none of {} packets came through; --no-check goes on without",
            PINGS * TRIES
        )));
    }
    let mut rates = [None; 2];
    for (index, (from, to, at)) in
        [(&near_socket, &far_socket, far_at), (&far_socket, &near_socket, near_at)]
            .into_iter()
            .enumerate()
    {
        let Some(rate) = promised[index] else { continue };
        let (measured, of_train) = train(&clock, from, to, at, rate, patience)?;
        rates[index] = measured;
        waited = waited.max(of_train);
    }
    let [up_bit_s, down_bit_s] = rates;
    Ok(Check { rtt_ns: least.nanos(), up_bit_s, down_bit_s, waited_ns: waited, late_ns: None })
}

/// How long a small packet and its answer take. Both carry `number`: what an earlier one left behind is no answer.
fn ping(clock: &Clock, near: &UdpSocket, far: &UdpSocket, number: u8) -> io::Result<Span> {
    let start = clock.now();
    near.send_to(&[number], far.local_addr()?)?;
    hear(far, number)?;
    far.send_to(&[number], near.local_addr()?)?;
    hear(near, number)?;
    Ok(clock.now().since(start))
}

/// Waits for the small packet of this number, beyond the signals of children that end meanwhile.
fn hear(socket: &UdpSocket, number: u8) -> io::Result<()> {
    let mut buffer = [0; 2];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((1, _)) if buffer[0] == number => return Ok(()),
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
}

/// About how long [`check`] takes of a path where nothing is lost: each small packet there and back, and each train.
pub fn check_takes(promised: [Option<u64>; 2], propagation: Span) -> Span {
    let trains = promised.into_iter().flatten().map(|rate| {
        Rate(rate).time_for(packets_of(rate) * PACKET).nanos() + propagation.nanos() / 2
    });
    Span(PINGS as u64 * propagation.nanos() + trains.sum::<u64>())
}

/// How long this thread has been ready to run without a processor, ns (proc_pid_schedstat(5)); 0 where the kernel
/// does not count it.
fn has_waited() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_ascii_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Packets of a train at `rate`, bit/s: any that a plan can name.
fn packets_of(rate: u64) -> u64 {
    let bytes = u128::from(rate) * u128::from(TRAIN.nanos()) / 8_000_000_000;
    ((bytes / u128::from(PACKET)) as u64).clamp(PACKETS.0, PACKETS.1)
}

/// The rate at which a train of full packets, sent a little faster than the promised rate, arrives; and by how much
/// its duration may be off, ns: the sender was behind. The kernel says when each came: the reader may be late.
fn train(
    clock: &Clock,
    from: &UdpSocket,
    to: &UdpSocket,
    at: SocketAddr,
    rate: u64,
    patience: Duration,
) -> io::Result<(Option<u64>, u64)> {
    let packets = packets_of(rate);
    let receive = to.try_clone()?;
    let room = packets as usize * IN_KERNEL;
    if setsockopt(&receive, sockopt::RcvBufForce, &room).is_err() {
        setsockopt(&receive, sockopt::RcvBuf, &room)?;
    }
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || -> io::Result<(u64, Duration)> {
            // The number of a packet and when it came.
            let (mut count, mut first, mut last) = (0, None, None);
            while count < packets {
                match taken(&receive) {
                    Ok((FULL, came)) => {
                        if count == 0 {
                            // What follows comes at once or not at all.
                            receive.set_read_timeout(Some(Duration::from_secs(1)))?;
                        }
                        count += 1;
                        if let Some(came) = came {
                            first.get_or_insert((count, came));
                            last = Some((count, came));
                        }
                    }
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(Errno::EAGAIN) => break,
                    Err(error) => return Err(error.into()),
                }
            }
            receive.set_read_timeout(Some(patience))?;
            let ((one, began), (other, ended)) = first.zip(last).unwrap_or_default();
            Ok((other - one, ended.saturating_sub(began)))
        });
        // What comes later than at the promised rate may find the link idle.
        let (begun, mut behind) = (clock.now(), 0);
        for sent in 0..packets {
            let due = Rate(rate).time_for(sent * PACKET);
            behind = behind.max(clock.now().since(begun).nanos().saturating_sub(due.nanos()));
            from.send_to(&[0; FULL], at)?;
        }
        let (packets, took) =
            reader.join().unwrap_or_else(|_| Err(io::Error::other("the reader panicked")))?;
        let rate = (took > Duration::ZERO).then(|| {
            let bits = u128::from(packets) * u128::from(8 * PACKET);
            (bits * 1_000_000_000 / took.as_nanos()) as u64
        });
        Ok((rate, behind))
    })
}

/// The length of the next packet, cut off at [`FULL`], and when the kernel got it, since 1970. Unlike SO_TIMESTAMPNS,
/// which gives the time of this call to a packet without one, SO_TIMESTAMPING says nothing then
/// (Documentation/networking/timestamping.rst).
fn taken(socket: &UdpSocket) -> Result<(usize, Option<Duration>), Errno> {
    let mut buffer = [0; FULL];
    let mut space = nix::cmsg_space!([TimeSpec; 3]);
    let mut into = [IoSliceMut::new(&mut buffer)];
    let found = recvmsg::<SockaddrStorage>(
        socket.as_raw_fd(),
        &mut into,
        Some(&mut space),
        MsgFlags::empty(),
    )?;
    let came = found.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampsns(came) => Some(Duration::from(came.system)),
        _ => None,
    });
    Ok((found.bytes, came.filter(|came| *came > Duration::ZERO)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_answer_is_no_answer_to_the_next() {
        let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let (near, far) = (open(), open());
        for socket in [&near, &far] {
            socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        }
        far.send_to(&[6], near.local_addr().expect("bound")).expect("sent");
        near.send_to(&[6], far.local_addr().expect("bound")).expect("sent");
        ping(&Clock::start(), &near, &far, 7).expect("answered");
        for socket in [near, far] {
            socket.set_nonblocking(true).expect("set");
            let left = socket.recv_from(&mut [0; 2]).expect_err("nothing is left");
            assert_eq!(left.kind(), io::ErrorKind::WouldBlock);
        }
    }

    #[test]
    fn a_train_of_any_rate_is_short() {
        assert_eq!(packets_of(1), 16);
        assert_eq!(packets_of(12_000_000), 200, "0.2 s of 1,000 packets a second");
        let geo = check_takes([Some(6_000_000); 2], Span(600_000_000));
        assert_eq!(
            geo,
            Span(2_800_000_000),
            "three pings, and two trains of 100 packets that cross it once"
        );
        // 92.2 Gb/s is where the product with 0.2 s in nanoseconds leaves 64 bits.
        for rate in [92_000_000_000, 93_000_000_000, 400_000_000_000, u64::MAX] {
            assert_eq!(packets_of(rate), 4096, "{rate}");
        }
    }
}
