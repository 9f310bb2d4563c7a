//! What Linux says of a TCP connection (TCP_INFO; `struct tcp_info` of linux/tcp.h).

use std::net::TcpStream;

use nix::libc;
use nix::sys::socket::GetSockOpt;
use nix::sys::utsname::uname;
use nix::{getsockopt_impl, sockopt_impl};

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

/// `tcpi_options`: timestamps were agreed on (TCPI_OPT_TIMESTAMPS).
const TIMESTAMPS: u8 = 1;
/// `tcpi_state`: the connection is over, both ways (TCP_CLOSE).
const CLOSED: u8 = 7;
/// `tcpi_state`: this side's end is acknowledged (TCP_FIN_WAIT2, TCP_TIME_WAIT).
const FINISHED: [u8; 2] = [5, 6];
/// `tcpi_snd_ssthresh` while unset (TCP_INFINITE_SSTHRESH).
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// Which of the structures is asked for; a newer kernel has the older ones too.
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

/// A connection at an instant: the fields that are used, by the kernel's names without `tcpi_`. Times are
/// microseconds, rates bytes a second; `snd_ssthresh` and what stands between `unacked` and `retrans` count segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// State, by number; see [`TcpInfo::is_closed`].
    pub state: u8,
    /// Options agreed on, a bit each; see [`TcpInfo::has_timestamps`].
    pub options: u8,
    /// Largest segment this side sends, bytes of data.
    pub snd_mss: u32,
    /// Sent, not acknowledged by the cumulative number.
    pub unacked: u32,
    /// Of these, acknowledged selectively.
    pub sacked: u32,
    /// Of these, held for lost.
    pub lost: u32,
    /// Sent again and not acknowledged yet.
    pub retrans: u32,
    /// Smoothed round-trip time; 0: none yet.
    pub rtt: u32,
    /// Slow-start threshold; see [`TcpInfo::ssthresh`].
    pub snd_ssthresh: u32,
    /// Congestion window, segments.
    pub snd_cwnd: u32,
    /// Segments sent again.
    pub total_retrans: u32,
    /// Rate of the pacer; all ones: no limit.
    pub pacing_rate: u64,
    /// Bytes acknowledged by the peer, its acknowledgement of the SYN among them.
    pub bytes_acked: u64,
    /// Payload received, bytes.
    pub bytes_received: u64,
    /// Segments sent.
    pub segs_out: u32,
    /// Written by the program, not sent yet, bytes.
    pub notsent_bytes: u32,
    /// Least round-trip time; all ones: none yet.
    pub min_rtt: u32,
    /// Segments sent that carry data.
    pub data_segs_out: u32,
    /// Latest sample of the rate at which data is delivered.
    pub delivery_rate: u64,
    /// Payload sent, repeats included, bytes.
    pub bytes_sent: u64,
    /// Payload sent again, bytes.
    pub bytes_retrans: u64,
    /// Retransmission timeouts; none: the structure is [`Kernel::Short`].
    pub total_rto: Option<u16>,
}

impl TcpInfo {
    /// Asks the kernel.
    ///
    /// # Errors
    /// The kernel's.
    pub fn of(socket: &TcpStream, kernel: Kernel) -> nix::Result<TcpInfo> {
        match kernel {
            Kernel::Short => Ok(TcpInfo::read(&ShortInfo.get(socket)?)),
            Kernel::Long => {
                let bytes = LongInfo.get(socket)?;
                let total_rto = Some(u16::from_ne_bytes(field(&bytes, 240)));
                Ok(TcpInfo { total_rto, ..TcpInfo::read(&bytes) })
            }
        }
    }

    /// What every length of the structure has, each field at its offset.
    fn read(bytes: &[u8]) -> TcpInfo {
        let u32 = |offset| u32::from_ne_bytes(field(bytes, offset));
        let u64 = |offset| u64::from_ne_bytes(field(bytes, offset));
        TcpInfo {
            state: bytes[0],
            options: bytes[5],
            snd_mss: u32(16),
            unacked: u32(24),
            sacked: u32(28),
            lost: u32(32),
            retrans: u32(36),
            rtt: u32(68),
            snd_ssthresh: u32(76),
            snd_cwnd: u32(80),
            total_retrans: u32(100),
            pacing_rate: u64(104),
            bytes_acked: u64(120),
            bytes_received: u64(128),
            segs_out: u32(136),
            notsent_bytes: u32(144),
            min_rtt: u32(148),
            data_segs_out: u32(156),
            delivery_rate: u64(160),
            bytes_sent: u64(200),
            bytes_retrans: u64(208),
            total_rto: None,
        }
    }

    /// Whether both directions have ended and everything is acknowledged.
    pub fn is_closed(&self) -> bool {
        self.state == CLOSED
    }

    /// Whether this side has ended and all it sent is acknowledged.
    pub fn is_finished(&self) -> bool {
        FINISHED.contains(&self.state) || self.is_closed()
    }

    /// Whether it has something to send or to be acknowledged, so that its sender's state may change by itself.
    pub fn is_sending(&self) -> bool {
        self.unacked > 0 || self.notsent_bytes > 0
    }

    /// Whether segments carry timestamps (RFC 7323).
    pub fn has_timestamps(&self) -> bool {
        self.options & TIMESTAMPS != 0
    }

    /// Congestion window, bytes.
    pub fn cwnd_bytes(&self) -> u64 {
        u64::from(self.snd_cwnd) * u64::from(self.snd_mss)
    }

    /// Slow-start threshold, segments; none: unset.
    pub fn ssthresh(&self) -> Option<u32> {
        (self.snd_ssthresh < NO_THRESHOLD).then_some(self.snd_ssthresh)
    }
}

/// The bytes of the field at `offset`.
fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut field = [0; N];
    field.copy_from_slice(&bytes[offset..offset + N]);
    field
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
        let info = TcpInfo::of(&near, kernel).unwrap();
        assert!(!info.is_closed() && !info.is_sending());
        assert!(info.has_timestamps());
        assert_eq!((info.bytes_sent, info.bytes_received), (100_000, 10));
        assert_eq!(info.bytes_acked, 100_000 + 1, "with the SYN's number");
        assert_eq!((info.total_retrans, info.bytes_retrans), (0, 0));
        assert_eq!((info.unacked, info.sacked, info.lost, info.retrans), (0, 0, 0, 0));
        assert_eq!(info.ssthresh(), None);
        assert!((3..=30).contains(&info.segs_out), "{info:?}");
        assert!((1..info.segs_out).contains(&info.data_segs_out), "{info:?}");
        assert!(0 < info.min_rtt && info.min_rtt < 1_000_000, "{info:?}");
        assert!(info.min_rtt <= info.rtt && info.rtt < 1_000_000, "{info:?}");
        assert!(info.snd_cwnd >= 10 && (501..65_536).contains(&info.snd_mss), "{info:?}");
        assert_eq!(info.total_rto.is_some(), kernel == Kernel::Long);
        assert_eq!(info.total_rto.unwrap_or(0), 0);
        let short = TcpInfo::of(&near, Kernel::Short).unwrap();
        assert_eq!((short.bytes_sent, short.total_rto), (100_000, None));
    }

    #[test]
    fn what_the_peer_has_no_room_for_is_to_be_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        while near.write(&[1; 100_000]).is_ok() {}
        let info = TcpInfo::of(&near, Kernel::running().unwrap()).unwrap();
        assert!(info.notsent_bytes > 0 && info.is_sending(), "{info:?}");
    }
}
