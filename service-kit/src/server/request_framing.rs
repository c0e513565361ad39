//! Finds the request heads in the bytes of a connection, and requires CR LF at the end of each line.
//!
//! The parser accepts a bare LF, other servers and proxies don't, and this difference permits request smuggling. So the parser gets only
//! complete heads. Every malformed head, including those the parser would reject itself, is replaced with one that gets an ordinary error
//! response, as soon as the fault is found.

use super::MAX_HEAD_BYTES;
use crate::http::MalformedHead;
use axum::http::Uri;

const MAX_FIELDS: usize = 100;
/// Maximum content length that hyper accepts.
const MAX_LENGTH: u64 = u64::MAX - 2;

/// Determines what the next byte of a connection belongs to.
#[derive(Debug)]
pub(super) struct Framing {
    place: ParserState,
    /// The incomplete head.
    head: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParserState {
    /// In a head, or before one.
    Head,
    /// In a body with this many bytes left.
    Sized(u64),
    Chunked(Chunk),
    /// After an error. The parser gets no more bytes.
    Refused,
}

/// Positions in a chunked body, with the same states as in hyper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunk {
    Start,
    Size(u64),
    Spaces(u64),
    Extension(u64),
    SizeLf(u64),
    Data(u64),
    DataCr,
    DataLf,
    EndCr,
    EndLf,
    Trailer,
    TrailerLf,
}

impl Framing {
    pub(super) fn new() -> Self {
        Self { place: ParserState::Head, head: Vec::new() }
    }

    /// Returns whether a request whose head was passed on is incomplete. Its response may already be sent.
    pub(super) fn is_inside_request(&self) -> bool {
        self.place != ParserState::Head
    }

    /// Processes received bytes and appends to `passed` what the parser may see.
    pub(super) fn pass(&mut self, bytes: &[u8], passed: &mut Vec<u8>) {
        let mut at = 0;
        while at < bytes.len() {
            let here = &bytes[at..];
            at += match self.place {
                ParserState::Refused => return,
                ParserState::Head => self.head(here, passed),
                ParserState::Sized(left) => {
                    let taken = here.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    self.place = after_sized(left - taken as u64);
                    passed.extend(&here[..taken]);
                    taken
                }
                ParserState::Chunked(Chunk::Data(left)) => {
                    let taken = here.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let rest = left - taken as u64;
                    self.place = ParserState::Chunked(if rest == 0 { Chunk::DataCr } else { Chunk::Data(rest) });
                    passed.extend(&here[..taken]);
                    taken
                }
                ParserState::Chunked(Chunk::EndCr | Chunk::Trailer) if here[0] == b'\n' => {
                    // Trailers are lines like those in a head. A trailing NUL makes the parser reject them.
                    passed.extend(b"\0\r\n\r\n");
                    self.place = ParserState::Refused;
                    return;
                }
                ParserState::Chunked(chunk) => {
                    self.place = chunk.after(here[0]);
                    passed.push(here[0]);
                    1
                }
            };
        }
    }

    /// Reads the bytes of a head up to its end and returns their number.
    fn head(&mut self, bytes: &[u8], passed: &mut Vec<u8>) -> usize {
        for (at, byte) in bytes.iter().enumerate() {
            let is_after_cr = self.head.last() == Some(&b'\r');
            if is_after_cr != (*byte == b'\n') {
                self.refuse(MalformedHead::HEAD, passed);
                return at + 1;
            }
            self.head.push(*byte);
            if self.head.len() > MAX_HEAD_BYTES {
                self.refuse(MalformedHead::LARGE_HEAD, passed);
                return at + 1;
            } else if self.head == b"\r\n" {
                // Skip empty lines before a request, as hyper does.
                self.head.clear();
            } else if self.head.ends_with(b"\r\n\r\n") {
                match body_after(&self.head) {
                    Ok(place) => {
                        self.place = place;
                        passed.append(&mut self.head);
                    }
                    Err(instead) => self.refuse(instead, passed),
                }
                return at + 1;
            }
        }
        bytes.len()
    }

    fn refuse(&mut self, instead: &[u8], passed: &mut Vec<u8>) {
        passed.extend(instead);
        self.place = ParserState::Refused;
        self.head = Vec::new();
    }
}

fn after_sized(left: u64) -> ParserState {
    if left == 0 { ParserState::Head } else { ParserState::Sized(left) }
}

/// Returns the parser's state after a request's head, with hyper's rules for the length of the body. For a head that hyper would reject,
/// returns the head to pass to hyper instead. Two more cases are rejected: a length together with a transfer coding, because hyper uses
/// the coding and a proxy may use the length (RFC 9112, 6.1), and a repeated `chunked`, because some servers decode it twice.
fn body_after(head: &[u8]) -> Result<ParserState, &'static [u8]> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Err(httparse::Error::TooManyHeaders) => return Err(MalformedHead::LARGE_HEAD),
        _ => return Err(MalformedHead::HEAD),
    }
    if request.path.is_none_or(|path| path.parse::<Uri>().is_err()) {
        return Err(MalformedHead::HEAD);
    }
    let is_11 = request.version == Some(1);
    let values = |name: &str| {
        let own = request.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        own.map(|field| field.value).collect::<Vec<_>>()
    };
    if values("host").contains(&MalformedHead::LARGE_HEAD_HOST) {
        // Reserved for the replacement head.
        return Err(MalformedHead::HEAD);
    }
    let (lengths, codings) = (values("content-length"), values("transfer-encoding"));
    if !codings.is_empty() {
        let is_plain = is_11 && lengths.is_empty() && is_chunked_once(&codings);
        return if is_plain { Ok(ParserState::Chunked(Chunk::Start)) } else { Err(MalformedHead::HEAD) };
    }
    let lengths: Option<Vec<u64>> = lengths.into_iter().map(length).collect();
    match lengths.as_deref() {
        Some([]) => Ok(ParserState::Head),
        Some([first, others @ ..]) if others.iter().all(|other| other == first) => Ok(after_sized(*first)),
        _ => Err(MalformedHead::HEAD),
    }
}

/// Returns whether the last coding is `chunked` and no other one is.
fn is_chunked_once(fields: &[&[u8]]) -> bool {
    let codings = fields.iter().flat_map(|field| field.split(|byte| *byte == b','));
    let mut chunked = codings.map(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"chunked")).rev();
    chunked.next() == Some(true) && !chunked.any(|is_chunked| is_chunked)
}

fn length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let length: Option<u64> = is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok())?;
    length.filter(|length| *length <= MAX_LENGTH)
}

impl Chunk {
    /// Returns the state after this byte.
    fn after(self, byte: u8) -> ParserState {
        let next = match (self, byte) {
            (Self::Start, _) => hex(byte).map(Self::Size),
            (Self::Size(size) | Self::Spaces(size) | Self::Extension(size), b'\r') => Some(Self::SizeLf(size)),
            (Self::Size(size) | Self::Spaces(size), b'\t' | b' ') => Some(Self::Spaces(size)),
            (Self::Size(size) | Self::Spaces(size), b';') => Some(Self::Extension(size)),
            (Self::Size(size), _) => hex(byte).and_then(|digit| size.checked_mul(16)?.checked_add(digit)).map(Self::Size),
            (Self::Spaces(_), _) | (Self::Extension(_), b'\n') => None,
            (Self::Extension(size), _) => Some(Self::Extension(size)),
            (Self::SizeLf(size), b'\n') => Some(if size == 0 { Self::EndCr } else { Self::Data(size) }),
            (Self::DataCr, b'\r') => Some(Self::DataLf),
            (Self::DataLf, b'\n') => Some(Self::Start),
            (Self::EndCr, b'\r') => Some(Self::EndLf),
            (Self::EndLf, b'\n') => return ParserState::Head,
            (Self::Trailer, b'\r') => Some(Self::TrailerLf),
            (Self::EndCr | Self::Trailer, _) => Some(Self::Trailer),
            (Self::TrailerLf, b'\n') => Some(Self::EndCr),
            (Self::SizeLf(_) | Self::DataCr | Self::DataLf | Self::EndLf | Self::TrailerLf | Self::Data(_), _) => None,
        };
        next.map_or(ParserState::Refused, ParserState::Chunked)
    }
}

fn hex(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is passed on if the text arrives in pieces of `size`.
    fn passed(text: &str, size: usize) -> String {
        let (mut framing, mut passed) = (Framing::new(), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            framing.pass(piece, &mut passed);
        }
        String::from_utf8(passed).unwrap()
    }

    /// Replacement for a rejected head and everything after it.
    fn refused() -> &'static str {
        std::str::from_utf8(MalformedHead::HEAD).unwrap()
    }

    const HEAD: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    #[test]
    fn passes_valid_requests_unchanged() {
        let sized = "POST / HTTP/1.1\r\nhost: a\r\nContent-Length: 8\r\n\r\n\n\n\r\n\0\r\n\n";
        let chunked = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, Chunked\r\n\r\n\
            3;a=\"b\"\r\n\n\n\n\r\n1 \t\r\n\r\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n";
        let twice = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n\n";
        let empty = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
        for body in [sized, chunked, twice, empty, "GET / HTTP/1.0\r\n\r\n"] {
            let pipelined = format!("{body}{HEAD}{body}{HEAD}");
            for size in [1, 2, 3, 7, 1_000] {
                assert_eq!(passed(&pipelined, size), pipelined.trim_start_matches("\r\n"), "{size}");
            }
            // A new head is validated after each of them.
            let then = format!("{body}GET / HTTP/1.1\nhost: a\r\n\r\n");
            assert_eq!(passed(&then, 5), format!("{}{}", body.trim_start_matches("\r\n"), refused()), "{body}");
        }
    }

    #[test]
    fn rejects_bare_line_feeds_in_trailers() {
        const CHUNKED: &str = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        for (trailers, kept) in [("0\r\nX: y\n\r\n", "0\r\nX: y"), ("0\r\n\n", "0\r\n"), ("0\r\nX: y\n\n", "0\r\nX: y")] {
            for size in [1, 5, 1_000] {
                let expected = format!("{CHUNKED}{kept}\0\r\n\r\n");
                assert_eq!(passed(&format!("{CHUNKED}{trailers}{HEAD}"), size), expected);
            }
        }
    }

    #[test]
    fn a12_rejects_bare_line_feeds_and_carriage_returns() {
        for bad in [
            "\n",
            "GET / HTTP/1.1\n",
            "GET / HTTP/1.1\r\nhost: a\n",
            "GET / HTTP/1.1\r\nhost: a\r\n\n",
            "GET / HTTP/1.1\r\nhost: a\rb",
            "GET / HTTP/1.1\r\r",
        ] {
            for size in [1, 3, 1_000] {
                assert_eq!(passed(bad, size), refused(), "{bad:?}");
                assert_eq!(passed(&format!("{bad}\r\n\r\n{HEAD}"), size), refused(), "{bad:?}");
            }
        }
    }

    #[test]
    fn rejects_ambiguous_lengths_and_codings() {
        for fields in [
            "content-length: 5\r\ntransfer-encoding: chunked",
            "transfer-encoding: chunked\r\ncontent-length: 5",
            "Content-Length: 0\r\nTransfer-Encoding: gzip, chunked",
            "transfer-encoding: identity\r\ncontent-length: 5",
            "transfer-encoding: \r\ncontent-length: x",
            "transfer-encoding: chunked, chunked",
            "transfer-encoding: Chunked,gzip , CHUNKED",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "transfer-encoding: chunked\r\nx: y\r\nTransfer-Encoding: gzip, chunked",
        ] {
            let head = format!("POST / HTTP/1.1\r\n{fields}\r\n\r\n0\r\n\r\n");
            for size in [1, 3, 1_000] {
                assert_eq!(passed(&format!("{HEAD}{head}{HEAD}"), size), format!("{HEAD}{}", refused()), "{fields:?}");
            }
        }
        let coded = "POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n";
        assert_eq!(passed(coded, 3), coded);
    }

    #[test]
    fn validates_heads_up_to_the_size_limit() {
        for size in [1, 1_000, 1_000_000] {
            let long = format!("GET / HTTP/1.1\r\nx: {}\n\r\n", "y".repeat(MAX_HEAD_BYTES - 100));
            assert_eq!(passed(&long, size), refused());
            let endless = format!("GET / HTTP/1.1\r\nx: {}\n\r\n", "y".repeat(5 * MAX_HEAD_BYTES));
            assert_eq!(passed(&endless, size).as_bytes(), MalformedHead::LARGE_HEAD);
            let of_bytes = |bytes: usize| format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(bytes - 23));
            let (largest, larger) = (of_bytes(MAX_HEAD_BYTES), of_bytes(MAX_HEAD_BYTES + 1));
            assert_eq!(passed(&largest, size), largest);
            assert_eq!(passed(&larger, size).as_bytes(), MalformedHead::LARGE_HEAD);
        }
    }

    #[test]
    fn rejects_impossible_lengths_and_the_reserved_host() {
        let sized = |length: &str| format!("POST / HTTP/1.1\r\ncontent-length: {length}\r\n\r\n");
        assert_eq!(passed(&sized("18446744073709551613"), 7), sized("18446744073709551613"), "the maximum that hyper accepts");
        for length in ["18446744073709551614", "18446744073709551615", "18446744073709551616", "99999999999999999999"] {
            assert_eq!(passed(&sized(length), 7), refused(), "{length}");
        }
        assert_eq!(passed(std::str::from_utf8(MalformedHead::LARGE_HEAD).unwrap(), 7), refused());
    }

    #[test]
    fn rejects_what_the_parser_would_reject() {
        for bad in [
            "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n",
            "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\0\r\n\r\n",
            "GET / HTTP/1.1\r\n host: a\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "GET /<x> HTTP/1.1\r\n\r\n",
            "nonsense\r\n\r\n",
        ] {
            assert_eq!(passed(&format!("{bad}\n\n\n"), 4), refused(), "{bad:?}");
        }
        let chunked = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n";
        for (bad, seen) in [("xyz", "x"), ("11111111111111111\r\n", "11111111111111111")] {
            assert_eq!(passed(&format!("{chunked}{bad}"), 4), format!("{chunked}{seen}"), "the body must end in an error");
        }
    }
}
