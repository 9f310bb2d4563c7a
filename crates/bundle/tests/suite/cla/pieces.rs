//! Decoding is independent of the chunk sizes, and random bytes use no memory.

use bundle::DeliveryMode;
use bundle::cla::messages::{
    DecodeError, DecodedItem, Decoder, MAX_EXTENSION_BYTES, MAX_NODE_ID_BYTES, Message, SessInit,
    WireFormat, XferAck, XferSegment, encode,
};
use proptest::prelude::*;

fn formats() -> impl Strategy<Value = WireFormat> {
    prop_oneof![Just(WireFormat::Tcpcl), Just(WireFormat::Quiccl)]
}

fn names() -> impl Strategy<Value = String> {
    let scheme = prop::collection::vec(prop::char::range('a', 'z'), 2..=4);
    let rest = prop::collection::vec(prop_oneof![prop::char::range('0', '9'), Just('.')], 0..=40);
    (scheme, rest).prop_map(|(scheme, rest)| {
        format!("{}:{}", String::from_iter(scheme), String::from_iter(rest))
    })
}

fn messages() -> impl Strategy<Value = Message> {
    let services = prop_oneof![
        Just(DeliveryMode::Reliable),
        Just(DeliveryMode::Notified),
        Just(DeliveryMode::Unreliable)
    ];
    let init = (any::<(u16, u64, u64, u64)>(), names()).prop_map(
        |((keepalive_s, segment_mru, datagram_mru, transfer_mru), node)| {
            Message::SessInit(SessInit {
                keepalive_s,
                segment_mru,
                datagram_mru,
                transfer_mru,
                node_id: node,
                extension_error: None,
            })
        },
    );
    let segment = (any::<(u8, u64, (u16, u16), u64)>(), 0u64..300, services).prop_map(
        |((flags, transfer, position, total), bytes, service)| {
            let total = Some(total);
            Message::XferSegment(XferSegment {
                flags,
                transfer,
                position,
                bytes,
                total,
                mode: service,
                extension_error: None,
            })
        },
    );
    let ack = any::<(u8, u64, u16, u64)>().prop_map(|(flags, transfer, segment_index, bytes)| {
        Message::XferAck(XferAck { flags, transfer, segment_index, bytes })
    });
    prop_oneof![
        init,
        segment,
        ack,
        any::<(u8, u64)>().prop_map(|(reason, transfer)| Message::XferRefuse { reason, transfer }),
        Just(Message::Keepalive),
        any::<(bool, u8)>()
            .prop_map(|(reply, reason)| Message::SessTerm { is_reply: reply, reason }),
        any::<(u8, u8)>().prop_map(|(reason, kind)| Message::MsgReject { reason, kind }),
    ]
}

/// Returns the message with the fields that the wire format has.
fn as_encoded(dialect: WireFormat, message: &Message) -> Message {
    let mut encoded = message.clone();
    if dialect == WireFormat::Quiccl {
        return encoded;
    }
    match &mut encoded {
        Message::SessInit(init) => init.datagram_mru = 0,
        Message::XferSegment(segment) => {
            segment.position = (0, 0);
            segment.mode = DeliveryMode::Reliable;
            if !segment.is_start() || segment.is_end() {
                segment.total = None;
            }
        }
        Message::XferAck(ack) => ack.segment_index = 0,
        _ => {}
    }
    encoded
}

/// A message and its data.
type DecodedMessage = (Option<Message>, Vec<u8>);

/// Decodes `bytes` in chunks of these lengths in turn. Data is concatenated.
fn decode_all(
    dialect: WireFormat,
    mut bytes: &[u8],
    pieces: &[usize],
) -> Result<Vec<DecodedMessage>, DecodeError> {
    let mut decoder = Decoder::new(dialect);
    let mut decoded: Vec<DecodedMessage> = Vec::new();
    let mut turn = 0;
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(pieces[turn % pieces.len()].min(bytes.len()));
        (bytes, turn) = (rest, turn + 1);
        let mut piece = piece;
        while let Some(item) = decoder.next_item(&mut piece)? {
            match item {
                DecodedItem::Message(message) => decoded.push((Some(message), Vec::new())),
                DecodedItem::Data { bytes, .. } => {
                    decoded.last_mut().expect("a segment").1.extend_from_slice(bytes);
                }
            }
        }
        assert!(piece.is_empty(), "it takes all it is given");
        assert!(decoder.buffered_bytes() <= 64 + MAX_NODE_ID_BYTES + MAX_EXTENSION_BYTES);
    }
    assert!(decoder.is_at_boundary());
    Ok(decoded)
}

proptest! {
    #[test]
    fn messages_decode_in_chunks_of_any_length(
        dialect in formats(),
        sent in proptest::collection::vec(messages(), 1..20),
        pieces in proptest::collection::vec(1usize..60, 1..8),
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for (number, message) in sent.iter().enumerate() {
            encode(dialect, message, &mut bytes);
            let length = match message {
                Message::XferSegment(segment) => segment.bytes as usize,
                _ => 0,
            };
            let data = vec![number as u8; length];
            bytes.extend_from_slice(&data);
            expected.push((Some(as_encoded(dialect, message)), data));
        }
        prop_assert_eq!(decode_all(dialect, &bytes, &pieces), Ok(expected));
    }

    #[test]
    fn random_bytes_do_not_fill_the_buffer(
        dialect in formats(),
        bytes in proptest::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..4000),
        pieces in proptest::collection::vec(1usize..200, 1..4),
    ) {
        let mut decoder = Decoder::new(dialect);
        let (mut rest, mut turn) = (&bytes[..], 0);
        'all: while !rest.is_empty() {
            let (mut piece, behind) = rest.split_at(pieces[turn % pieces.len()].min(rest.len()));
            (rest, turn) = (behind, turn + 1);
            loop {
                match decoder.next_item(&mut piece) {
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => break 'all,
                }
            }
            prop_assert!(decoder.buffered_bytes() <= 64 + MAX_NODE_ID_BYTES + MAX_EXTENSION_BYTES);
        }
    }
}
