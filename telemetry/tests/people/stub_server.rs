//! A server with scripted responses, for failures and delays that are rare with the real service.

use flate2::read::GzDecoder;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) target: String,
    /// Empty if the request had no key.
    key: String,
    pub(crate) body: String,
}

pub(crate) struct Stub {
    pub(crate) url: String,
    requests: mpsc::Receiver<Request>,
}

impl Stub {
    /// Starts a server. `answer` returns the raw response to the n-th request, counted from 0.
    pub(crate) fn start(mut answer: impl FnMut(usize, &Request) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (told, requests) = mpsc::channel();
        std::thread::spawn(move || {
            for (n, stream) in listener.incoming().enumerate() {
                let mut stream = stream.unwrap();
                let Some(request) = read(&stream) else { continue };
                let said = answer(n, &request);
                // The test may have ended.
                let _ = told.send(request);
                let _ = stream.write_all(said.as_bytes());
            }
        });
        Self { url, requests }
    }

    /// Returns and clears the bodies received so far.
    pub(crate) fn bodies(&self) -> String {
        self.requests.try_iter().map(|request| request.body).collect()
    }

    /// Returns and clears the keys received so far.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.requests.try_iter().map(|request| request.key).collect()
    }
}

pub(crate) fn ok(json: &str) -> String {
    response(200, json)
}

pub(crate) fn response(status: u16, json: &str) -> String {
    format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{json}", json.len())
}

fn read(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let target = head.split(' ').nth(1)?.to_owned();
    let key = head.lines().find_map(|line| line.strip_prefix("x-api-key: ")).unwrap_or_default().to_owned();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).map_or(Some(0), |text| text.parse().ok());
    let mut sent = vec![0; length?];
    reader.read_exact(&mut sent).ok()?;
    let mut body = String::new();
    if head.contains("content-encoding: gzip") {
        GzDecoder::new(sent.as_slice()).read_to_string(&mut body).ok()?;
    } else {
        body = String::from_utf8(sent).ok()?;
    }
    Some(Request { target, key, body })
}
