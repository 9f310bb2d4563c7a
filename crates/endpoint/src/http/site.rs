//! What is answered to a request, whatever carries it.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{self, Read};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ALLOW, ALT_SVC, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, DATE,
    LOCATION,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};

use super::Protocol;
use super::folder::Folder;

/// Bytes read from a file at a time.
const READ: usize = 1 << 16;

/// Names of the header fields that no library names.
const TIMING_ALLOW_ORIGIN: HeaderName = HeaderName::from_static("timing-allow-origin");
const PADDING: HeaderName = HeaderName::from_static("x-pad");

/// Longest padding of a header, bytes: browsers take some 256 kB of header.
const MOST_PADDING: usize = 64 << 10;

/// How long a browser may keep what Alt-Svc says, seconds: RFC 7838 section 3.1's default.
const ALT_SVC_AGE: u32 = 86_400;

/// A body that is given out in pieces.
pub(super) enum Body {
    Pieces(VecDeque<Bytes>),
    File(File, u64),
}

impl Body {
    pub(super) fn empty() -> Body {
        Body::Pieces(VecDeque::new())
    }

    /// The next piece, never empty; none at the end.
    ///
    /// # Errors
    /// The file's; also that it has become shorter.
    pub(super) fn next(&mut self) -> io::Result<Option<Bytes>> {
        match self {
            Body::Pieces(pieces) => Ok(pieces.pop_front()),
            Body::File(_, 0) => Ok(None),
            Body::File(file, left) => {
                let mut piece = BytesMut::zeroed(READ.min(usize::try_from(*left).unwrap_or(READ)));
                let count = file.read(&mut piece)?;
                if count == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                piece.truncate(count);
                *left -= count as u64;
                Ok(Some(piece.freeze()))
            }
        }
    }

    /// Bytes that are left.
    pub(super) fn left(&self) -> u64 {
        match self {
            Body::Pieces(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
            Body::File(_, left) => *left,
        }
    }
}

/// Something that is served from memory.
#[derive(Clone, Debug)]
pub(super) struct Resource {
    /// Its type.
    pub(super) content_type: &'static str,
    /// Its body, in pieces that may be shared between resources.
    pub(super) body: Vec<Bytes>,
    /// How long the server takes before it answers.
    pub(super) think: Duration,
    /// Bytes that the block of header fields is to have; none: as few as it has.
    pub(super) header_bytes: Option<u32>,
    /// Where the answer leads, if it is a redirect.
    pub(super) location: Option<HeaderValue>,
}

/// An answer.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) header: HeaderMap,
    pub(super) body: Body,
    pub(super) think: Duration,
}

/// Everything that is served.
pub(super) struct Site {
    resources: BTreeMap<String, Resource>,
    folder: Option<Folder>,
    alt_svc: Option<HeaderValue>,
    /// Letters for padding.
    padding: Bytes,
}

impl Site {
    /// A site of `resources` by path, or of a folder; `alt_svc`: the port at which HTTP/3 is advertised.
    pub(super) fn new(
        resources: BTreeMap<String, Resource>,
        folder: Option<Folder>,
        alt_svc: Option<u16>,
    ) -> Site {
        // X and Z have 8 bits in the Huffman code of HPACK and QPACK (RFC 7541 appendix B): as long as
        // they are.
        let mut random = [0; 8192];
        units::RandomStream::named(0, "page server", "padding").fill(&mut random);
        let padding = random
            .iter()
            .flat_map(|byte| (0..8).map(move |bit| if byte >> bit & 1 == 0 { b'X' } else { b'Z' }))
            .collect::<Vec<u8>>();
        let alt_svc = alt_svc.and_then(|port| {
            HeaderValue::from_str(&format!("h3=\":{port}\"; ma={ALT_SVC_AGE}")).ok()
        });
        Site { resources, folder, alt_svc, padding: padding.into() }
    }

    /// The answer to a request for `path` (with its query) over `protocol`, the first of its connection or
    /// a later one.
    pub(super) fn answer(
        &self,
        method: &Method,
        path: &str,
        protocol: Protocol,
        first: bool,
    ) -> Answer {
        let mut header = HeaderMap::with_capacity(8);
        header.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        header.insert(TIMING_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        header.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        if let Ok(date) = HeaderValue::from_str(&date()) {
            header.insert(DATE, date);
        }
        if let (true, Some(alt_svc)) = (protocol != Protocol::Http3, &self.alt_svc) {
            header.insert(ALT_SVC, alt_svc.clone());
        }
        let plain =
            |status, header| Answer { status, header, body: Body::empty(), think: Duration::ZERO };
        if !matches!(*method, Method::GET | Method::HEAD) {
            header.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            header.insert(CONTENT_LENGTH, 0.into());
            return plain(StatusCode::METHOD_NOT_ALLOWED, header);
        }
        let path = path.split(['?', '#']).next().unwrap_or("/");
        let mut status = StatusCode::OK;
        let (body, content_type, think, wanted) = if let Some(found) = self.resources.get(path) {
            let body = Body::Pieces(found.body.iter().cloned().collect());
            if let Some(location) = &found.location {
                status = StatusCode::FOUND;
                header.insert(LOCATION, location.clone());
            }
            (body, found.content_type, found.think, found.header_bytes)
        } else if let Some((file, length, content_type)) =
            self.folder.as_ref().and_then(|folder| folder.open(path))
        {
            (Body::File(file, length), content_type, Duration::ZERO, None)
        } else {
            header.insert(CONTENT_LENGTH, 0.into());
            return plain(StatusCode::NOT_FOUND, header);
        };
        header.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
        header.insert(CONTENT_LENGTH, body.left().into());
        if let Some(wanted) = wanted {
            self.pad(&mut header, wanted, protocol, first);
        }
        let body = if *method == Method::HEAD { Body::empty() } else { body };
        Answer { status, header, body, think }
    }

    /// Adds a field, so that the header block has about `wanted` bytes.
    fn pad(&self, header: &mut HeaderMap, wanted: u32, protocol: Protocol, first: bool) {
        let text: usize =
            header.iter().map(|(name, value)| name.as_str().len() + value.len() + 4).sum();
        let name = PADDING.as_str().len();
        let rest = match protocol {
            // Status line and empty line.
            Protocol::Http1 => "HTTP/1.1 200 OK\r\n\r\n".len() + text + name + 4,
            // Letters are Huffman-coded: some 6 bits each. Later on a connection the table holds all
            // but length and date.
            Protocol::Http2 if first => text * 3 / 4 + name,
            Protocol::Http2 => 32 + name,
            // Nearly everything stands in the static table (RFC 9204 appendix A).
            Protocol::Http3 => 36 + name,
        };
        let Some(more) = (wanted as usize).checked_sub(rest) else { return };
        let padding = self.padding.slice(..more.min(MOST_PADDING).min(self.padding.len()));
        if let Ok(mut value) = HeaderValue::from_maybe_shared(padding) {
            // Never in a table: it would push the others out.
            value.set_sensitive(true);
            header.insert(PADDING, value);
        }
    }
}

/// The date as RFC 9110 section 5.6.7 has it.
#[expect(clippy::disallowed_methods, reason = "an origin server says what date it is")]
fn date() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}
