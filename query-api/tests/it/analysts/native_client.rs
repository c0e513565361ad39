//! A minimal client for ClickHouse's native protocol: sends a statement and reads strings and numbers. Uses an old revision, which has
//! fewer packets and no settings as text.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Has client information, but no time zones and no settings as text.
const REVISION: u64 = 54_032;

pub(super) struct NativeClient {
    stream: BufReader<TcpStream>,
}

/// The values of a result, or the exception.
pub(super) type QueryResult = Result<Vec<String>, String>;

fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    bytes.push(u8::try_from(value).unwrap());
    bytes
}

fn text(value: &str) -> Vec<u8> {
    [number(u64::try_from(value.len()).unwrap()), value.as_bytes().to_vec()].concat()
}

impl NativeClient {
    /// Signs in. Returns the exception if the server rejects it.
    pub(super) fn open(port: u16, user: &str, password: &str) -> Result<Self, String> {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut native = Self { stream: BufReader::new(stream) };
        let hello = [number(0), text("test"), number(1), number(1), number(REVISION), text(""), text(user), text(password)];
        native.send(&hello.concat());
        match native.number() {
            0 => {
                native.text();
                native.skip_numbers(3);
                Ok(native)
            }
            _ => Err(native.exception()),
        }
    }

    /// Runs a statement. The connection stays usable after an exception.
    pub(super) fn ask(&mut self, statement: &str) -> QueryResult {
        self.run(1, "", statement)
    }

    /// Runs a statement as a server that forwards the statement of `user`.
    pub(super) fn ask_for(&mut self, user: &str, statement: &str) -> QueryResult {
        self.run(2, user, statement)
    }

    fn run(&mut self, kind: u8, user: &str, statement: &str) -> QueryResult {
        let client = [text("me"), text("host"), text("test"), number(1), number(1), number(REVISION)].concat();
        let information = [vec![kind], text(user), text(""), text("127.0.0.1:1"), vec![1], client].concat();
        let settings = text("");
        let query = [number(1), text(""), information, settings, number(2), number(0), text(statement)].concat();
        // The statement has no data, so the block is empty.
        let block_info = [number(1), vec![0], number(2), (-1_i32).to_le_bytes().to_vec(), number(0)].concat();
        let data = [number(2), text(""), block_info, number(0), number(0)].concat();
        self.send(&[query, data].concat());
        let mut values = Vec::new();
        loop {
            match self.number() {
                1 | 7 | 8 => values.extend(self.block()),
                2 => return Err(self.exception()),
                3 => self.skip_numbers(3),
                5 => return Ok(values),
                6 => self.profile(),
                other => panic!("unknown packet {other}"),
            }
        }
    }

    fn block(&mut self) -> Vec<String> {
        self.text();
        loop {
            match self.number() {
                0 => break,
                1 => drop(self.bytes(1)),
                2 => drop(self.bytes(4)),
                other => panic!("unknown block field {other}"),
            }
        }
        let (columns, rows) = (self.number(), self.number());
        let mut values = Vec::new();
        for _ in 0..columns {
            self.text();
            let kind = self.text();
            values.extend((0..rows).map(|_| self.value(&kind)));
        }
        values
    }

    fn value(&mut self, kind: &str) -> String {
        match kind {
            "UInt64" => u64::from_le_bytes(self.bytes(8).try_into().unwrap()).to_string(),
            "UInt8" => self.bytes(1)[0].to_string(),
            "String" => self.text(),
            other => panic!("unsupported column type {other}"),
        }
    }

    fn profile(&mut self) {
        self.skip_numbers(3);
        self.bytes(1);
        self.number();
        self.bytes(1);
    }

    fn exception(&mut self) -> String {
        self.bytes(4);
        let (name, message, _trace) = (self.text(), self.text(), self.text());
        self.bytes(1);
        format!("{name}: {message}")
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    fn number(&mut self) -> u64 {
        let mut value = 0;
        for place in 0.. {
            let byte = self.bytes(1)[0];
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    fn skip_numbers(&mut self, count: usize) {
        for _ in 0..count {
            self.number();
        }
    }

    fn text(&mut self) -> String {
        let length = usize::try_from(self.number()).unwrap();
        String::from_utf8(self.bytes(length)).unwrap()
    }
}
