//! Clients and servers on threads of their own, over plain sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

/// A client of lines.
pub struct LineClient(BufReader<TcpStream>);

/// A server on threads of its own: what it was asked, and over how many connections.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    connections: usize,
    requests: Vec<String>,
}

impl LineClient {
    pub fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).expect("connects"))
    }

    pub fn of(connection: TcpStream) -> Self {
        Self(BufReader::new(connection))
    }

    pub fn send(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).expect("writes");
    }

    /// The rest of a line.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).expect("reads");
        line
    }

    /// Reads up to the next space, and returns the text with it.
    pub fn token(&mut self) -> String {
        let mut token = Vec::new();
        self.0.read_until(b' ', &mut token).expect("reads");
        String::from_utf8(token).expect("text")
    }

    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.line()
    }
}

impl Server {
    /// Serves each connection by `serve`, on a thread of its own.
    pub fn start(serve: impl Fn(&Self, TcpStream) + Clone + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("binds");
        let server = Self {
            address: listener.local_addr().expect("bound"),
            seen: Arc::default(),
        };
        let accepting = server.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let connection = connection.expect("accepts");
                accepting.lock().connections += 1;
                let (server, serve) = (accepting.clone(), serve.clone());
                std::thread::spawn(move || serve(&server, connection));
            }
        });
        server
    }

    /// Answers each line by `answer`; closes where that has none.
    pub fn lines(answer: impl Fn(&Self, &str) -> Option<String> + Clone + Send + 'static) -> Self {
        Self::start(move |server, connection| {
            let mut client = LineClient::of(connection);
            loop {
                let line = client.line();
                if line.is_empty() {
                    return;
                }
                server.record(line.clone());
                let Some(answer) = answer(server, &line) else {
                    return;
                };
                client.send(&answer);
            }
        })
    }

    /// Answers each request of HTTP/1.1 by `answer`.
    pub fn h1(answer: &'static str) -> Self {
        Self::start(move |server, mut connection| {
            while let Some(request) = read_h1(&mut connection) {
                server.record(request);
                connection.write_all(answer.as_bytes()).expect("writes");
            }
        })
    }

    pub fn record(&self, request: String) {
        self.lock().requests.push(request);
    }

    pub fn connections(&self) -> usize {
        self.lock().connections
    }

    pub fn requests(&self) -> Vec<String> {
        self.lock().requests.clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a request of HTTP/1.1 and reads the response.
pub fn ask_h1(client: &mut TcpStream, request: &str) -> String {
    client.write_all(request.as_bytes()).expect("writes");
    read_h1(client).expect("an answer")
}

/// A whole message of HTTP/1.1; `None` at the stream's end.
fn read_h1(connection: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut room = [0; 16 << 10];
    loop {
        // Nobody here sends a message before the last one is answered.
        match connection.read(&mut room).ok()? {
            0 => return None,
            count => bytes.extend_from_slice(&room[..count]),
        }
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, content)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let head = head.to_ascii_lowercase();
        let length = head.split_once("content-length: ").map(|(_, rest)| {
            let digits = rest.split("\r\n").next().expect("split has one");
            digits.parse::<usize>().expect("a number")
        });
        let is_whole = if head.contains("transfer-encoding: chunked") {
            let last = content
                .find("0\r\n")
                .filter(|&at| at == 0 || content[..at].ends_with("\r\n"));
            last.is_some() && content.ends_with("\r\n\r\n")
        } else {
            content.len() == length.unwrap_or(0)
        };
        if is_whole {
            return Some(text.into_owned());
        }
    }
}
