//! Controller negotiation of the perf protocol. The request follows the response size in a client's upload, and the
//! answer begins the response: the protocol allows arbitrary bytes there. A server without this extension answers
//! normally, and the client gets no controller name.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Maximum length of the request and of the response.
pub const MAX_NEGOTIATION_BYTES: usize = 512;

const REQUEST_PREFIX: &[u8] = b"bentpipe? ";
const RESPONSE_PREFIX: &[u8] = b"bentpipe! ";

/// A controller by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestedController {
    /// Its name.
    #[serde(deserialize_with = "plain")]
    pub name: String,
    /// Its options; null selects its defaults.
    #[serde(default)]
    pub options: Value,
}

/// The request of a client.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControllerRequest {
    /// Name of the client's controller.
    #[serde(default, deserialize_with = "plain_or_none")]
    pub client_controller: Option<String>,
    /// The controller that the server must use; `None`: any.
    #[serde(default)]
    pub requested: Option<RequestedController>,
}

/// The response of a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ControllerResponse {
    /// Name of the server's controller; `None` if the transport does not report it.
    #[serde(default, deserialize_with = "plain_or_none")]
    pub controller: Option<String>,
    /// Reason of a refusal; no data follows then.
    #[serde(default, deserialize_with = "plain_or_none")]
    pub refusal_reason: Option<String>,
    /// The server refuses all traffic over this transport, with or without a request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refuses_transport: bool,
}

impl ControllerResponse {
    /// Creates the response of a server that accepts no traffic over this transport.
    pub fn transport_refusal(reason: &str) -> ControllerResponse {
        ControllerResponse {
            controller: None,
            refusal_reason: Some(reason.to_owned()),
            refuses_transport: true,
        }
    }
}

/// Reads text of the peer for printing. Escapes characters that control a terminal or reorder text.
fn plain<'a, D: Deserializer<'a>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(|text| text.chars().map(escape_control).collect())
}

fn plain_or_none<'a, D: Deserializer<'a>>(from: D) -> Result<Option<String>, D::Error> {
    let found = Option::<String>::deserialize(from)?;
    Ok(found.map(|text| text.chars().map(escape_control).collect()))
}

fn escape_control(character: char) -> String {
    let reorders_text = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    if character.is_control() || reorders_text {
        character.escape_unicode().to_string()
    } else {
        character.to_string()
    }
}

impl ControllerRequest {
    /// Encodes the request as one line.
    pub fn encode(&self) -> Bytes {
        encode(REQUEST_PREFIX, self)
    }
}

impl ControllerResponse {
    /// Encodes the response as one line, with a reason that fits.
    pub fn encode(&self) -> Bytes {
        let mut short = self.clone();
        loop {
            let line = encode(RESPONSE_PREFIX, &short);
            match &mut short.refusal_reason {
                Some(why) if line.len() > MAX_NEGOTIATION_BYTES && !why.is_empty() => {
                    why.pop();
                }
                _ => return line,
            }
        }
    }
}

fn encode(prefix: &[u8], what: &impl Serialize) -> Bytes {
    let mut line = prefix.to_vec();
    line.extend(serde_json::to_vec(what).unwrap_or_default());
    line.push(b'\n');
    line.into()
}

/// Reassembles the start of a stream, in any order, until the presence of a line is known.
#[derive(Clone, Debug, Default)]
pub struct NegotiationParser(Vec<u8>);

impl NegotiationParser {
    /// Takes the bytes of the line, which begins at `start` of the stream.
    pub fn take(&mut self, start: u64, offset: u64, data: &[u8]) {
        let end = start + MAX_NEGOTIATION_BYTES as u64;
        let (from, until) = (offset.max(start), (offset + data.len() as u64).min(end));
        if from >= until {
            return;
        }
        let index = |at: u64| (at - start) as usize;
        if self.0.len() < index(until) {
            self.0.resize(index(until), 0);
        }
        let fragment = &data[(from - offset) as usize..(until - offset) as usize];
        self.0[index(from)..index(until)].copy_from_slice(fragment);
    }

    /// Parses the line from `whole` bytes without a gap. Returns `None` if undecided, `Some(None)` without a line.
    fn parse_line<T: for<'a> Deserialize<'a>>(
        &self,
        mark: &[u8],
        whole: u64,
        over: bool,
    ) -> Option<Option<T>> {
        let whole = (whole as usize).min(self.0.len());
        let received = &self.0[..whole];
        if !received.starts_with(&mark[..mark.len().min(whole)]) {
            return Some(None);
        }
        match received.iter().position(|byte| *byte == b'\n') {
            Some(end) if end >= mark.len() => {
                Some(serde_json::from_slice(&received[mark.len()..end]).ok())
            }
            None if whole < MAX_NEGOTIATION_BYTES && !over => None,
            _ => Some(None),
        }
    }

    /// Returns the client's line.
    pub fn request(&self, whole: u64, over: bool) -> Option<Option<ControllerRequest>> {
        self.parse_line(REQUEST_PREFIX, whole, over)
    }

    /// Returns the server's line.
    pub fn response(&self, whole: u64, over: bool) -> Option<Option<ControllerResponse>> {
        self.parse_line(RESPONSE_PREFIX, whole, over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_the_peer_are_escaped() {
        let evil = "a\u{1b}]0;x\u{7}\u{9b}\u{202e}é";
        let shown = "a\\u{1b}]0;x\\u{7}\\u{9b}\\u{202e}é";
        let mut head = NegotiationParser::default();
        let answer = |text: &str| ControllerResponse {
            controller: Some(text.into()),
            refusal_reason: Some(text.into()),
            refuses_transport: true,
        };
        let line = answer(evil).encode();
        head.take(0, 0, &line);
        assert_eq!(head.response(line.len() as u64, false), Some(Some(answer(shown))));
        let request = RequestedController { name: evil.into(), options: Value::Null };
        let line =
            ControllerRequest { client_controller: Some(evil.into()), requested: Some(request) }
                .encode();
        let mut head = NegotiationParser::default();
        head.take(0, 0, &line);
        let request = RequestedController { name: shown.into(), options: Value::Null };
        let expected =
            ControllerRequest { client_controller: Some(shown.into()), requested: Some(request) };
        assert_eq!(head.request(line.len() as u64, false), Some(Some(expected)));
    }

    #[test]
    fn a_line_is_parsed_in_pieces_of_any_order() {
        let request = RequestedController { name: "bbr3".to_owned(), options: Value::Null };
        let question = ControllerRequest {
            client_controller: Some("cubic".to_owned()),
            requested: Some(request),
        };
        let line = question.encode();
        let mut stream = vec![0; 8];
        stream.extend_from_slice(&line);
        stream.extend([0; 600]);
        for cut in 1..stream.len() {
            let mut head = NegotiationParser::default();
            head.take(8, cut as u64, &stream[cut..]);
            head.take(8, 0, &stream[..cut]);
            assert_eq!(head.request(stream.len() as u64 - 8, false), Some(Some(question.clone())));
            let mut part = NegotiationParser::default();
            part.take(8, 0, &stream[..cut]);
            let known = part.request(cut.saturating_sub(8) as u64, false);
            assert_eq!(known.is_some(), cut >= 8 + line.len(), "{cut}");
        }
        for other in [&[0; 100][..], b"bentpipe! {}\n", b"bentpipe? no\n", &[b'b'; 600]] {
            let mut head = NegotiationParser::default();
            head.take(0, 0, other);
            assert_eq!(head.request(other.len() as u64, true), Some(None));
        }
        let mut open = NegotiationParser::default();
        open.take(0, 0, b"bentpipe? {");
        assert_eq!((open.request(11, false), open.request(11, true)), (None, Some(None)));
    }
}
