//! Captures of TCP: the bytes of the headers against lengths, checksums and the table of packets.

use crate::common::data;
use crate::split::{Link, Split, proxy, tcp};
use serde_json::json;
use sim::Measurements;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_le(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize
}

/// Returns the packets of a capture, padded with the truncated zeros. `true` means outbound.
fn packets(file: &[u8]) -> Vec<(bool, Vec<u8>)> {
    let (mut at, mut found) = (0, Vec::new());
    while at < file.len() {
        let (kind, length) = (u32_le(file, at), u32_le(file, at + 4));
        if kind == 6 {
            let (kept, whole) = (u32_le(file, at + 20), u32_le(file, at + 24));
            let mut packet = file[at + 28..at + 28 + kept].to_vec();
            packet.resize(whole, 0);
            let flags = at + 28 + kept.next_multiple_of(4) + 4;
            found.push((u32_le(file, flags) & 3 == 2, packet));
        }
        at += length;
    }
    found
}

fn ones(bytes: &[u8]) -> u16 {
    let pairs = bytes.chunks(2);
    let words = pairs.map(|pair| u64::from(pair[0]) << 8 | u64::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u64 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the option kinds of a TCP header, and the bytes of the SACK blocks.
fn options(header: &[u8]) -> (Vec<u8>, usize) {
    let (mut at, mut kinds, mut blocks) = (20, Vec::new(), 0);
    while at < header.len() {
        let kind = header[at];
        if kind == 1 {
            at += 1;
            continue;
        }
        kinds.push(kind);
        if kind == 5 {
            blocks = usize::from(header[at + 1]) - 2;
        }
        at += usize::from(header[at + 1]);
    }
    assert_eq!(at, header.len(), "options end with the header");
    (kinds, blocks)
}

fn check(run: &Measurements, name: &str) {
    let file = &run.files.iter().find(|(file, _)| file == name).expect("a capture").1;
    let packets = packets(file);
    let (mut bytes, mut sacked, mut syns) = (0.0, 0, 0);
    for (outbound, packet) in &packets {
        assert_eq!(u16_at(packet, 2) as usize, packet.len(), "the length of the IP packet");
        assert_eq!((packet[0], packet[9]), (0x45, 6));
        assert_eq!(ones(&packet[..20]), 0xffff, "the IP header's checksum");
        let segment = &packet[20..];
        let header = usize::from(segment[12] >> 4) * 4;
        let mut pseudo = packet[12..20].to_vec();
        pseudo.extend([0, 6]);
        pseudo.extend((segment.len() as u16).to_be_bytes());
        pseudo.extend(segment);
        assert_eq!(ones(&pseudo), 0xffff, "the TCP checksum");
        let (kinds, blocks) = options(&segment[..header]);
        let syn = segment[13] & 2 != 0;
        if syn {
            syns += 1;
            // MSS, SACK permitted, timestamps, window scale; and a cookie from the client.
            assert_eq!(kinds[..4], [2, 4, 8, 3]);
            assert_eq!(u16_at(segment, 22), 1460);
            assert!(kinds.len() == 4 || kinds[4..] == [34]);
        } else {
            assert_eq!(kinds[0], 8);
            assert!(kinds.len() == 1 || (kinds[1] == 5 && blocks % 8 == 0 && blocks > 0));
            sacked += usize::from(blocks > 0);
        }
        bytes += if *outbound { packet.len() as f64 } else { 0.0 };
    }
    let side = if name.contains("client") { 0 } else { 1 };
    assert_eq!(bytes, run.table("flow_summary").numbers("sent_bytes")[side], "bytes sent");
    assert!(syns >= 2 && sacked > 0, "{syns} SYNs, {sacked} segments with SACK blocks");
}

#[test]
fn captures_have_valid_headers_and_checksums() {
    let mut case = Split::over_satellite(Some(proxy("early")), None, data(200_000, 200_000));
    case.links = vec![Link("outer", 5.0, 100_000_000, 0.05), Link("core", 10.0, 100_000_000, 0.05)];
    case.joints = vec![Some(proxy("early"))];
    case.tcp = tcp(&json!({"fast_open": true}));
    let mut spec = case.spec();
    (spec.trace.pcapng, spec.trace.packets) = (true, true);
    let run = sim::run(&spec, &mut |_, _| None).expect("the run is valid");
    check(&run, "main.client.pcapng");
    check(&run, "main.server.pcapng");
    let labels = run.table("packets").names("label");
    for label in ["SYN", "SYN-ACK", "data", "ACK", "FIN"] {
        assert!(labels.contains(&label), "no {label}");
    }
    assert!(run.table("packets").numbers("retransmission").contains(&1.0));
}
