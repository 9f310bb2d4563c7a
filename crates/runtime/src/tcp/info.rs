//! TCP_INFO of Linux: state of a TCP connection (`struct tcp_info` of linux/tcp.h).

use std::net::TcpStream;

use nix::libc;
use nix::sys::socket::GetSockOpt;
use nix::sys::utsname::uname;
use nix::{getsockopt_impl, sockopt_impl};

/// The length of the structure since Linux 5.4 (ends with `tcpi_snd_wnd`).
const SHORT: usize = 232;
/// The length since Linux 6.7 (with `tcpi_total_rto_time`).
const LONG: usize = 248;

// The kernel copies the smaller of its length and the requested length, so these two lengths return complete.
sockopt_impl!(
    /// The structure of Linux 5.4 and later.
    ShortInfo, GetOnly, libc::IPPROTO_TCP, libc::TCP_INFO, [u8; SHORT]
);
sockopt_impl!(
    /// The structure of Linux 6.7 and later.
    LongInfo, GetOnly, libc::IPPROTO_TCP, libc::TCP_INFO, [u8; LONG]
);

/// `tcpi_options`: timestamps are negotiated (TCPI_OPT_TIMESTAMPS).
const TIMESTAMPS: u8 = 1;
/// `tcpi_state`: both directions are closed (TCP_CLOSE).
const CLOSED: u8 = 7;
/// `tcpi_state`: the FIN of this side is acknowledged (TCP_FIN_WAIT2, TCP_TIME_WAIT).
const FINISHED: [u8; 2] = [5, 6];
/// `tcpi_snd_ssthresh` while unset (TCP_INFINITE_SSTHRESH).
const NO_THRESHOLD: u32 = 0x7fff_ffff;

/// The requested structure. A newer kernel also supports the older ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpInfoLayout {
    /// Linux 5.4 to 6.6.
    Short,
    /// Linux 6.7 and later.
    Long,
}

impl TcpInfoLayout {
    /// Detects the layout of the running kernel.
    ///
    /// # Errors
    /// The message that the kernel is too old.
    pub fn detect() -> Result<TcpInfoLayout, String> {
        let release = uname().map_err(|error| format!("uname: {error}"))?;
        TcpInfoLayout::from_release(&release.release().to_string_lossy())
    }

    fn from_release(release: &str) -> Result<TcpInfoLayout, String> {
        let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        let (major, minor) = match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
            _ => return Err(format!("found Linux \"{release}\", expected a number such as 6.7")),
        };
        match (major, minor) {
            (6, 7..) | (7.., _) => Ok(TcpInfoLayout::Long),
            (5, 4..) | (6, _) => Ok(TcpInfoLayout::Short),
            _ => Err(format!("TCP measurements require Linux 5.4 or later, found {release}")),
        }
    }
}

/// State of a connection: the used fields, with the kernel's names without `tcpi_`. Times are in microseconds, rates in
/// bytes/s. `snd_ssthresh` and the fields from `unacked` to `retrans` count segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// State number; see [`TcpInfo::is_closed`].
    pub state: u8,
    /// Negotiated options, one bit each; see [`TcpInfo::has_timestamps`].
    pub options: u8,
    /// Maximum segment size of this side, in bytes of data.
    pub snd_mss: u32,
    /// Segments sent and not cumulatively acknowledged.
    pub unacked: u32,
    /// Selectively acknowledged among these.
    pub sacked: u32,
    /// Considered lost among these.
    pub lost: u32,
    /// Retransmitted and not yet acknowledged.
    pub retrans: u32,
    /// Smoothed RTT, 0 before the first sample.
    pub rtt: u32,
    /// Slow-start threshold; see [`TcpInfo::ssthresh`].
    pub snd_ssthresh: u32,
    /// Congestion window, in segments.
    pub snd_cwnd: u32,
    /// Retransmitted segments in total.
    pub total_retrans: u32,
    /// Pacing rate; all ones means no limit.
    pub pacing_rate: u64,
    /// Bytes acknowledged by the peer, including the SYN.
    pub bytes_acked: u64,
    /// Payload bytes received.
    pub bytes_received: u64,
    /// Segments sent.
    pub segs_out: u32,
    /// Bytes written by the program and not yet sent.
    pub notsent_bytes: u32,
    /// Minimum RTT; all ones before the first sample.
    pub min_rtt: u32,
    /// Data segments sent.
    pub data_segs_out: u32,
    /// Latest delivery rate sample.
    pub delivery_rate: u64,
    /// Payload bytes sent, including retransmissions.
    pub bytes_sent: u64,
    /// Payload bytes retransmitted.
    pub bytes_retrans: u64,
    /// Retransmission timeouts, `None` with [`TcpInfoLayout::Short`].
    pub total_rto: Option<u16>,
}

impl TcpInfo {
    /// Queries the kernel.
    ///
    /// # Errors
    /// An error of the kernel.
    pub fn query(socket: &TcpStream, kernel: TcpInfoLayout) -> nix::Result<TcpInfo> {
        match kernel {
            TcpInfoLayout::Short => Ok(TcpInfo::parse(&ShortInfo.get(socket)?)),
            TcpInfoLayout::Long => {
                let bytes = LongInfo.get(socket)?;
                let total_rto = Some(u16::from_ne_bytes(field(&bytes, 240)));
                Ok(TcpInfo { total_rto, ..TcpInfo::parse(&bytes) })
            }
        }
    }

    /// Parses the fields that all layouts contain, by their offsets.
    fn parse(bytes: &[u8]) -> TcpInfo {
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

    /// Returns whether both directions are closed and all data is acknowledged.
    pub fn is_closed(&self) -> bool {
        self.state == CLOSED
    }

    /// Returns whether this side has finished and all its data is acknowledged.
    pub fn is_finished(&self) -> bool {
        FINISHED.contains(&self.state) || self.is_closed()
    }

    /// Returns whether data is unsent or unacknowledged. Then the state of the sender can change without input.
    pub fn is_sending(&self) -> bool {
        self.unacked > 0 || self.notsent_bytes > 0
    }

    /// Returns whether segments carry timestamps (RFC 7323).
    pub fn has_timestamps(&self) -> bool {
        self.options & TIMESTAMPS != 0
    }

    /// Returns the congestion window in bytes.
    pub fn cwnd_bytes(&self) -> u64 {
        u64::from(self.snd_cwnd) * u64::from(self.snd_mss)
    }

    /// Returns the slow-start threshold in segments, `None` while unset.
    pub fn ssthresh(&self) -> Option<u32> {
        (self.snd_ssthresh < NO_THRESHOLD).then_some(self.snd_ssthresh)
    }
}

/// Returns the bytes of the field at `offset`.
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
    fn the_release_selects_the_layout() {
        assert_eq!(TcpInfoLayout::from_release("6.18.44-fc"), Ok(TcpInfoLayout::Long));
        assert_eq!(TcpInfoLayout::from_release("6.1.0-18-amd64"), Ok(TcpInfoLayout::Short));
        assert_eq!(TcpInfoLayout::from_release("5.4"), Ok(TcpInfoLayout::Short));
        assert_eq!(TcpInfoLayout::from_release("10.0"), Ok(TcpInfoLayout::Long));
        assert!(TcpInfoLayout::from_release("4.19.0").unwrap_err().contains("5.4 or later"));
        assert!(TcpInfoLayout::from_release("unknown").is_err());
    }

    /// The counters match the traffic of a socket, so the assumed layout is correct.
    #[test]
    fn tcp_info_counts_the_sent_bytes() {
        let kernel = TcpInfoLayout::detect().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        near.write_all(&[1; 100_000]).unwrap();
        far.read_exact(&mut [0; 100_000]).unwrap();
        far.write_all(&[2; 10]).unwrap();
        near.read_exact(&mut [0; 10]).unwrap();
        let info = TcpInfo::query(&near, kernel).unwrap();
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
        assert_eq!(info.total_rto.is_some(), kernel == TcpInfoLayout::Long);
        assert_eq!(info.total_rto.unwrap_or(0), 0);
        let short = TcpInfo::query(&near, TcpInfoLayout::Short).unwrap();
        assert_eq!((short.bytes_sent, short.total_rto), (100_000, None));
    }

    #[test]
    fn bytes_beyond_the_receive_window_count_as_unsent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let _far = listener.accept().unwrap();
        near.set_nonblocking(true).unwrap();
        while near.write(&[1; 100_000]).is_ok() {}
        let info = TcpInfo::query(&near, TcpInfoLayout::detect().unwrap()).unwrap();
        assert!(info.notsent_bytes > 0 && info.is_sending(), "{info:?}");
    }
}
