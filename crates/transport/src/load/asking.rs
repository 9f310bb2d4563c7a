//! What the two sides of the perf protocol tell each other of their controllers. It stands where any bytes may: in a
//! client's upload, behind the size of the response, and at the head of the response. So a server that does not know it
//! answers as ever, and its client learns nothing.

use bytes::Bytes;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// Most bytes of what a client says, and of what a server answers.
pub const MOST: usize = 512;

const QUESTION: &[u8] = b"bentpipe? ";
const ANSWER: &[u8] = b"bentpipe! ";

/// A controller by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wish {
    /// Its name.
    #[serde(deserialize_with = "plain")]
    pub name: String,
    /// Its options; null: its defaults.
    #[serde(default)]
    pub options: Value,
}

/// What a client says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The controller of what the client sends.
    #[serde(default, deserialize_with = "plain_or_none")]
    pub own: Option<String>,
    /// What the server is to send with; none: as it likes.
    #[serde(default)]
    pub wish: Option<Wish>,
}

/// What a server answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The controller of what the server sends; none where the transport does not tell.
    #[serde(default, deserialize_with = "plain_or_none")]
    pub own: Option<String>,
    /// Why it does not do what was wished; then nothing follows.
    #[serde(default, deserialize_with = "plain_or_none")]
    pub refused: Option<String>,
    /// It refuses whatever comes over this transport, asked or not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub refuses_transport: bool,
}

impl Answer {
    /// The answer of a server that takes nothing over this transport.
    pub fn refusal_of_transport(why: &str) -> Answer {
        Answer { own: None, refused: Some(why.to_owned()), refuses_transport: true }
    }
}

/// Text of the other side, which is printed: what a terminal would obey, or hide behind, is written out.
fn plain<'a, D: Deserializer<'a>>(from: D) -> Result<String, D::Error> {
    String::deserialize(from).map(|text| text.chars().map(written_out).collect())
}

fn plain_or_none<'a, D: Deserializer<'a>>(from: D) -> Result<Option<String>, D::Error> {
    let found = Option::<String>::deserialize(from)?;
    Ok(found.map(|text| text.chars().map(written_out).collect()))
}

fn written_out(letter: char) -> String {
    let turns = matches!(
        letter,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    if letter.is_control() || turns {
        letter.escape_unicode().to_string()
    } else {
        letter.to_string()
    }
}

impl Question {
    /// As it is sent: one line.
    pub fn encode(&self) -> Bytes {
        encode(QUESTION, self)
    }
}

impl Answer {
    /// As it is sent: one line, with a reason that fits.
    pub fn encode(&self) -> Bytes {
        let mut short = self.clone();
        loop {
            let line = encode(ANSWER, &short);
            match &mut short.refused {
                Some(why) if line.len() > MOST && !why.is_empty() => drop(why.pop()),
                _ => return line,
            }
        }
    }
}

fn encode(mark: &[u8], what: &impl Serialize) -> Bytes {
    let mut line = mark.to_vec();
    line.extend(serde_json::to_vec(what).unwrap_or_default());
    line.push(b'\n');
    line.into()
}

/// The head of a stream while it arrives, in any order, until it is known whether a line stands there.
#[derive(Clone, Debug, Default)]
pub struct Head(Vec<u8>);

impl Head {
    /// Takes what belongs to the line, which begins at `start` of the stream.
    pub fn take(&mut self, start: u64, offset: u64, data: &[u8]) {
        let end = start + MOST as u64;
        let (from, until) = (offset.max(start), (offset + data.len() as u64).min(end));
        if from >= until {
            return;
        }
        let place = |at: u64| (at - start) as usize;
        if self.0.len() < place(until) {
            self.0.resize(place(until), 0);
        }
        let part = &data[(from - offset) as usize..(until - offset) as usize];
        self.0[place(from)..place(until)].copy_from_slice(part);
    }

    /// What is known with `whole` bytes of it there without a gap: none, not yet; none inside, there is no line.
    fn line<T: for<'a> Deserialize<'a>>(
        &self,
        mark: &[u8],
        whole: u64,
        over: bool,
    ) -> Option<Option<T>> {
        let whole = (whole as usize).min(self.0.len());
        let there = &self.0[..whole];
        if !there.starts_with(&mark[..mark.len().min(whole)]) {
            return Some(None);
        }
        match there.iter().position(|byte| *byte == b'\n') {
            Some(end) if end >= mark.len() => {
                Some(serde_json::from_slice(&there[mark.len()..end]).ok())
            }
            None if whole < MOST && !over => None,
            _ => Some(None),
        }
    }

    /// The client's line.
    pub fn question(&self, whole: u64, over: bool) -> Option<Option<Question>> {
        self.line(QUESTION, whole, over)
    }

    /// The server's line.
    pub fn answer(&self, whole: u64, over: bool) -> Option<Option<Answer>> {
        self.line(ANSWER, whole, over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_comes_from_the_other_side() {
        let evil = "a\u{1b}]0;x\u{7}\u{9b}\u{202e}é";
        let shown = "a\\u{1b}]0;x\\u{7}\\u{9b}\\u{202e}é";
        let mut head = Head::default();
        let answer = |text: &str| Answer {
            own: Some(text.into()),
            refused: Some(text.into()),
            refuses_transport: true,
        };
        let line = answer(evil).encode();
        head.take(0, 0, &line);
        assert_eq!(head.answer(line.len() as u64, false), Some(Some(answer(shown))));
        let wish = Wish { name: evil.into(), options: Value::Null };
        let line = Question { own: Some(evil.into()), wish: Some(wish) }.encode();
        let mut head = Head::default();
        head.take(0, 0, &line);
        let wish = Wish { name: shown.into(), options: Value::Null };
        let heard = Question { own: Some(shown.into()), wish: Some(wish) };
        assert_eq!(head.question(line.len() as u64, false), Some(Some(heard)));
    }

    #[test]
    fn a_line_is_read_in_pieces_of_any_order_and_nothing_else_is_taken_for_one() {
        let wish = Wish { name: "bbr3".to_owned(), options: Value::Null };
        let question = Question { own: Some("cubic".to_owned()), wish: Some(wish) };
        let line = question.encode();
        let mut stream = vec![0; 8];
        stream.extend_from_slice(&line);
        stream.extend([0; 600]);
        for cut in 1..stream.len() {
            let mut head = Head::default();
            head.take(8, cut as u64, &stream[cut..]);
            head.take(8, 0, &stream[..cut]);
            assert_eq!(head.question(stream.len() as u64 - 8, false), Some(Some(question.clone())));
            let mut part = Head::default();
            part.take(8, 0, &stream[..cut]);
            let known = part.question(cut.saturating_sub(8) as u64, false);
            assert_eq!(known.is_some(), cut >= 8 + line.len(), "{cut}");
        }
        for other in [&[0; 100][..], b"bentpipe! {}\n", b"bentpipe? no\n", &[b'b'; 600]] {
            let mut head = Head::default();
            head.take(0, 0, other);
            assert_eq!(head.question(other.len() as u64, true), Some(None));
        }
        let mut open = Head::default();
        open.take(0, 0, b"bentpipe? {");
        assert_eq!((open.question(11, false), open.question(11, true)), (None, Some(None)));
    }
}
