//! What Linux says of a TCP connection (TCP_INFO; `struct tcp_info` of linux/tcp.h).

use std::net::TcpStream;

use nix::libc;
use nix::sys::socket::GetSockOpt;
use nix::sys::utsname::uname;
use nix::{getsockopt_impl, sockopt_impl};

use crate::perf::Sender;

/// Length of the structure since Linux 5.4 (it ends with `tcpi_snd_wnd`).
const SHORT: usize = 232;
/// Since Linux 6.7 (with `tcpi_total_rto_time`).
const LONG: usize = 248;

// The kernel copies as much as it has and is asked for, so that these two lengths come back whole.
sockopt_impl!(
    /// The structure of Linux 5.4 and later.
    ShortInfo, GetOnly, libc::IPPROTO_TCP, libc::TCP_INFO, [u8; SHORT]
);
sockopt_impl!(
    /// The structure of Linux 6.7 and later.
    LongInfo, GetOnly, libc::IPPROTO_TCP, libc::TCP_INFO, [u8; LONG]
);

/// `tcpi_options`: timestamps were agreed on, 12 bytes of each segment (RFC 7323 appendix A).
const TIMESTAMPS: u8 = 1;
/// `tcpi_state`: the connection is over, both ways.
const CLOSED: u8 = 7;
/// `tcpi_snd_ssthresh` while unset (TCP_INFINITE_SSTHRESH).
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Which of the structures the running kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernel {
    /// Linux 5.4 to 6.6.
    Short,
    /// Linux 6.7 and later.
    Long,
}

impl Kernel {
    /// The running one.
    ///
    /// # Errors
    /// It is too old, in words.
    pub fn running() -> Result<Kernel, String> {
        let release = uname().map_err(|error| format!("uname: {error}"))?;
        Kernel::of(&release.release().to_string_lossy())
    }

    fn of(release: &str) -> Result<Kernel, String> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        let (major, minor) = match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
            _ => return Err(format!("found Linux \"{release}\", expected a number such as 6.7")),
        };
        match (major, minor) {
            (6, 7..) | (7.., _) => Ok(Kernel::Long),
            (5, 4..) | (6, _) => Ok(Kernel::Short),
            _ => {
                Err(format!("TCP needs Linux 5.4 or later for what it measures; this is {release}"))
            }
        }
    }
}

/// What a connection was asked at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    bytes: [u8; LONG],
    long: bool,
}

impl Info {
    /// Asks the kernel.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of(socket: &TcpStream, kernel: Kernel) -> nix::Result<Info> {
        let mut bytes = [0; LONG];
        match kernel {
            Kernel::Long => bytes = LongInfo.get(socket)?,
            Kernel::Short => bytes[..SHORT].copy_from_slice(&ShortInfo.get(socket)?),
        }
        Ok(Info { bytes, long: kernel == Kernel::Long })
    }

    fn u32(&self, offset: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&self.bytes[offset..offset + 4]);
        u32::from_ne_bytes(word)
    }

    fn u64(&self, offset: usize) -> u64 {
        let mut word = [0; 8];
        word.copy_from_slice(&self.bytes[offset..offset + 8]);
        u64::from_ne_bytes(word)
    }

    /// Whether both directions have ended and everything is acknowledged.
    pub fn is_closed(&self) -> bool {
        self.bytes[0] == CLOSED
    }

    /// Largest segment this side sends, bytes of data.
    pub fn mss(&self) -> u64 {
        self.u32(16).into()
    }

    /// Bytes acknowledged by the peer.
    pub fn acked(&self) -> u64 {
        self.u64(120)
    }

    /// The columns; `ip` is the length of an IP header, bytes.
    pub fn sender(&self, ip: u64, written: u64, received: u64) -> Sender {
        let mss = self.mss();
        let ms = |micros: u32| f64::from(micros) / 1000.0;
        let sampled = |micros: u32| (micros > 0 && micros < u32::MAX).then(|| ms(micros));
        let [unacked, sacked, lost, retransmitted] =
            [24, 28, 32, 36].map(|offset| u64::from(self.u32(offset)));
        let options = if self.bytes[5] & TIMESTAMPS != 0 { 12 } else { 0 };
        let (segments, data) = (u64::from(self.u32(136)), u64::from(self.u32(156)));
        let (header, cwnd) = (ip + 20 + options, u64::from(self.u32(80)) * mss);
        let threshold = self.u32(72 + 4);
        // Bytes a second; all ones: no limit.
        let rate = |offset| match self.u64(offset) {
            u64::MAX => 0,
            bytes => bytes.saturating_mul(8),
        };
        let acks = segments.saturating_sub(data);
        Sender {
            cwnd_bytes: cwnd,
            ssthresh_bytes: (threshold < NO_THRESHOLD).then(|| u64::from(threshold) * mss),
            in_flight_bytes: (unacked + retransmitted).saturating_sub(sacked + lost) * mss,
            smoothed_rtt_ms: sampled(self.u32(68)),
            latest_rtt_ms: None,
            min_rtt_ms: sampled(self.u32(148)),
            pacing_rate_bit_s: rate(104),
            sent_packets: segments,
            sent_bytes: self.u64(200) + segments * header,
            ack_packets: Some(acks),
            ack_bytes: Some(acks * header),
            lost_packets: self.u32(100).into(),
            lost_bytes: None,
            congestion_events: None,
            ptos: None,
            timeouts: self.long.then(|| u64::from(self.u32(240) & 0xffff)),
            undone: None,
            retransmitted_bytes: self.u64(208),
            written_bytes: written,
            received_bytes: received,
            received_in_order_bytes: received,
            acked_bytes: Some(self.acked()),
            delivery_rate_bit_s: Some(rate(160)),
            largest_cwnd_bytes: cwnd,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn kernels_are_told_apart() {
        assert_eq!(Kernel::of("6.18.44-fc"), Ok(Kernel::Long));
        assert_eq!(Kernel::of("6.1.0-18-amd64"), Ok(Kernel::Short));
        assert_eq!(Kernel::of("5.4"), Ok(Kernel::Short));
        assert_eq!(Kernel::of("10.0"), Ok(Kernel::Long));
        assert!(Kernel::of("4.19.0").unwrap_err().contains("5.4 or later"));
        assert!(Kernel::of("unknown").is_err());
    }

    /// What went over a socket is what the structure says: its layout is the one taken for granted.
    #[test]
    fn the_kernel_counts_what_was_sent() {
        let kernel = Kernel::running().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[1; 100_000]).unwrap();
        far.read_exact(&mut [0; 100_000]).unwrap();
        far.write_all(&[2; 10]).unwrap();
        near.read_exact(&mut [0; 10]).unwrap();
        let info = Info::of(&near, kernel).unwrap();
        assert!(!info.is_closed());
        assert_eq!(info.acked(), 100_000 + 1, "with the SYN's number");
        let sender = info.sender(20, 100_000, 10);
        assert_eq!(info.u64(200), 100_000);
        assert_eq!((sender.lost_packets, sender.retransmitted_bytes), (0, 0));
        assert_eq!((sender.in_flight_bytes, sender.ssthresh_bytes), (0, None));
        let headers = sender.sent_bytes - 100_000;
        assert!((3 * 52..=30 * 52).contains(&headers), "{headers}");
        assert_eq!(headers, sender.sent_packets * 52);
        let rtt = sender.min_rtt_ms.unwrap();
        assert!(rtt > 0.0 && rtt < 1000.0, "{rtt}");
        assert!(sender.cwnd_bytes >= 10 * info.mss());
        assert!(info.mss() > 500 && info.mss() < 65_536, "{}", info.mss());
    }
}
