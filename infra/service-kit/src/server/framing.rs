//! Where the heads of requests stand among the bytes of a connection, and that each of their lines ends in CR LF.
//!
//! The parser behind takes a bare LF for the end of a line; other servers and proxies do not, and two readers that see different
//! requests in the same bytes can be played against each other. What is wrong here becomes a NUL, which that parser refuses with
//! 400 wherever it stands in a head.
//!
//! Must not judge a byte of a body, and must find the end of a body exactly where hyper finds it.

use super::MAX_HEAD_BYTES;

/// Bytes of a head beyond which it is spoilt. hyper refuses one that is not whole once it holds [`MAX_HEAD_BYTES`], but takes one that
/// its last read made whole, so that some larger ones get through.
const MOST_HEAD_BYTES: usize = 4 * MAX_HEAD_BYTES;
/// Header fields of one head that hyper takes; a head with more is refused there.
const MAX_FIELDS: usize = 100;

/// What the next byte of a connection belongs to.
#[derive(Debug)]
pub(super) struct Framing {
    place: Place,
    /// The head so far, while one arrives.
    head: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A head, or before one.
    Head,
    /// A body that has so many more bytes.
    Sized(u64),
    /// A body in chunks.
    Chunked(Chunk),
    /// Nothing more is judged: the parser refuses what was seen last, and closes.
    Refused,
}

/// The places in a body of chunks, as hyper tells them apart.
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
        Self { place: Place::Head, head: Vec::new() }
    }

    /// Looks at what has arrived, and spoils the head whose lines do not end as they must.
    pub(super) fn check(&mut self, bytes: &mut [u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let here = &mut bytes[at..];
            at += match self.place {
                Place::Refused => return,
                Place::Head => self.head(here),
                Place::Sized(left) => {
                    let taken = here.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    self.place = after_sized(left - taken as u64);
                    taken
                }
                Place::Chunked(Chunk::Data(left)) => {
                    let taken = here.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                    let rest = left - taken as u64;
                    self.place = Place::Chunked(if rest == 0 { Chunk::DataCr } else { Chunk::Data(rest) });
                    taken
                }
                Place::Chunked(Chunk::EndCr | Chunk::Trailer) if here[0] == b'\n' => {
                    // A trailer is made of lines like a head; the parser behind refuses a NUL in it too.
                    here[0] = 0;
                    self.refuse();
                    1
                }
                Place::Chunked(chunk) => {
                    self.place = chunk.after(here[0]);
                    1
                }
            };
        }
    }

    /// Takes the bytes of a head up to its end; answers how many those were.
    fn head(&mut self, bytes: &mut [u8]) -> usize {
        for (at, byte) in bytes.iter_mut().enumerate() {
            let is_after_cr = self.head.last() == Some(&b'\r');
            if is_after_cr != (*byte == b'\n') || self.head.len() >= MOST_HEAD_BYTES {
                *byte = 0;
                self.refuse();
                return at + 1;
            }
            self.head.push(*byte);
            if self.head == b"\r\n" {
                // Empty lines before a request are skipped, as hyper skips them.
                self.head.clear();
            } else if self.head.ends_with(b"\r\n\r\n") {
                match body_after(&self.head) {
                    Some(place) => self.place = place,
                    None => {
                        *byte = 0;
                        self.refuse();
                    }
                }
                self.head.clear();
                return at + 1;
            }
        }
        bytes.len()
    }

    fn refuse(&mut self) {
        self.place = Place::Refused;
        self.head = Vec::new();
    }
}

fn after_sized(left: u64) -> Place {
    if left == 0 { Place::Head } else { Place::Sized(left) }
}

/// What follows a head: the same decision that hyper takes, and [`Place::Refused`] wherever hyper refuses. None where a length
/// stands beside a transfer coding: hyper goes by the coding, and who stands before us may go by the length (RFC 9112, 6.1).
fn body_after(head: &[u8]) -> Option<Place> {
    let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    if !matches!(request.parse(head), Ok(httparse::Status::Complete(_))) {
        return Some(Place::Refused);
    }
    let is_11 = request.version == Some(1);
    let values = |name: &str| {
        let own = request.headers.iter().filter(move |field| field.name.eq_ignore_ascii_case(name));
        own.map(|field| field.value).collect::<Vec<_>>()
    };
    let lengths = values("content-length");
    if let Some(last) = values("transfer-encoding").last() {
        if !lengths.is_empty() {
            return None;
        }
        let is_chunked =
            last.rsplit(|byte| *byte == b',').next().is_some_and(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"chunked"));
        return Some(if is_11 && is_chunked { Place::Chunked(Chunk::Start) } else { Place::Refused });
    }
    let lengths: Option<Vec<u64>> = lengths.into_iter().map(digits).collect();
    Some(match lengths.as_deref() {
        Some([]) => Place::Head,
        Some([first, others @ ..]) if others.iter().all(|other| other == first) => after_sized(*first),
        _ => Place::Refused,
    })
}

fn digits(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok())?
}

impl Chunk {
    /// Where the byte after this one stands.
    fn after(self, byte: u8) -> Place {
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
            (Self::EndLf, b'\n') => return Place::Head,
            (Self::Trailer, b'\r') => Some(Self::TrailerLf),
            (Self::EndCr | Self::Trailer, _) => Some(Self::Trailer),
            (Self::TrailerLf, b'\n') => Some(Self::EndCr),
            (Self::SizeLf(_) | Self::DataCr | Self::DataLf | Self::EndLf | Self::TrailerLf | Self::Data(_), _) => None,
        };
        next.map_or(Place::Refused, Place::Chunked)
    }
}

fn hex(byte: u8) -> Option<u64> {
    char::from(byte).to_digit(16).map(u64::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes after they were looked at, in pieces of `size`.
    fn checked(text: &str, size: usize) -> String {
        let (mut framing, mut bytes) = (Framing::new(), text.as_bytes().to_vec());
        for piece in bytes.chunks_mut(size) {
            framing.check(piece);
        }
        String::from_utf8(bytes).unwrap()
    }

    const HEAD: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    #[test]
    fn a12_what_ends_its_lines_properly_passes_untouched_however_it_is_cut() {
        let sized = "POST / HTTP/1.1\r\nhost: a\r\nContent-Length: 8\r\n\r\n\n\n\r\n\0\r\n\n";
        let chunked = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, Chunked\r\n\r\n\
            3;a=\"b\"\r\n\n\n\n\r\n1 \t\r\n\r\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n";
        let twice = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n\n";
        let empty = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n";
        for body in [sized, chunked, twice, empty, "\r\n\r\n\r\n", "GET / HTTP/1.0\r\n\r\n"] {
            let pipelined = format!("{body}{HEAD}{body}{HEAD}");
            for size in [1, 2, 3, 7, 1_000] {
                assert_eq!(checked(&pipelined, size), pipelined, "{size}");
            }
            // After each of them a head is a head again.
            let then = format!("{body}GET / HTTP/1.1\nhost: a\r\n\r\n");
            assert!(checked(&then, 5).ends_with("GET / HTTP/1.1\0host: a\r\n\r\n"), "{body}");
        }
    }

    #[test]
    fn a12_a_bare_line_feed_among_the_trailers_of_a_body_in_chunks_is_spoilt_too() {
        const CHUNKED: &str = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n";
        for (trailers, spoilt) in
            [("0\r\nX: y\n\r\n", "0\r\nX: y\0\r\n"), ("0\r\n\n", "0\r\n\0"), ("0\r\nX: y\n\n", "0\r\nX: y\0\n")]
        {
            for size in [1, 5, 1_000] {
                assert_eq!(checked(&format!("{CHUNKED}{trailers}{HEAD}"), size), format!("{CHUNKED}{spoilt}{HEAD}"));
            }
        }
    }

    #[test]
    fn a12_a_bare_line_feed_and_a_bare_carriage_return_are_spoilt_wherever_they_stand_in_a_head() {
        for (bad, spoilt) in [
            ("\nGET / HTTP/1.1\r\n", "\0GET / HTTP/1.1\r\n"),
            ("GET / HTTP/1.1\nhost: a\r\n\r\n", "GET / HTTP/1.1\0host: a\r\n\r\n"),
            ("GET / HTTP/1.1\r\nhost: a\n\r\n", "GET / HTTP/1.1\r\nhost: a\0\r\n"),
            ("GET / HTTP/1.1\r\nhost: a\r\n\n", "GET / HTTP/1.1\r\nhost: a\r\n\0"),
            ("GET / HTTP/1.1\r\nhost: a\rb\r\n\r\n", "GET / HTTP/1.1\r\nhost: a\r\0\r\n\r\n"),
            ("GET / HTTP/1.1\r\r\n", "GET / HTTP/1.1\r\0\n"),
        ] {
            for size in [1, 3, 1_000] {
                assert_eq!(checked(bad, size), spoilt);
            }
        }
    }

    #[test]
    fn a12_a_head_with_a_length_beside_a_transfer_coding_is_spoilt_at_its_end() {
        for fields in [
            "content-length: 5\r\ntransfer-encoding: chunked",
            "transfer-encoding: chunked\r\ncontent-length: 5",
            "Content-Length: 0\r\nTransfer-Encoding: gzip, chunked",
            "transfer-encoding: identity\r\ncontent-length: 5",
            "transfer-encoding: \r\ncontent-length: x",
        ] {
            let head = format!("POST / HTTP/1.1\r\n{fields}\r\n\r");
            for size in [1, 3, 1_000] {
                let all = format!("{head}\n0\r\n\r\n{HEAD}");
                assert_eq!(checked(&all, size), format!("{head}\00\r\n\r\n{HEAD}"), "{fields:?}");
            }
        }
    }

    #[test]
    fn a12_a_head_is_looked_at_to_its_end_however_large_it_is() {
        let long = format!("GET / HTTP/1.1\r\nx: {}\n\r\n", "y".repeat(3 * MAX_HEAD_BYTES));
        assert_eq!(checked(&long, 1_000), long.replace("y\n\r", "y\0\r"));
        let endless = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(5 * MAX_HEAD_BYTES));
        assert_eq!(checked(&endless, 1_000).matches('\0').count(), 1);
    }

    #[test]
    fn what_the_parser_refuses_is_judged_no_further() {
        for refused in [
            "POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n",
            "POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n11111111111111111\r\n",
            "nonsense\r\n\r\n",
        ] {
            let then = format!("{refused}\n\n\n");
            assert_eq!(checked(&then, 4), then);
        }
    }
}
