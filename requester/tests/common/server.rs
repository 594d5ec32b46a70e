//! A real HTTP/1.1 server on loopback that answers what it is told, also what no server should.

use std::collections::VecDeque;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
    /// Counts the connections, from 0.
    pub connection: usize,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }
}

/// What to answer.
#[derive(Debug, Clone)]
pub enum Reply {
    Answer {
        status: u16,
        headers: Vec<(String, Vec<u8>)>,
        body: Vec<u8>,
    },
    /// An answer whose body comes in small pieces and never ends.
    Endless { status: u16 },
    /// The connection breaks (RST).
    Reset,
    /// The connection is closed without a word.
    Close,
    /// Nothing, for a long time.
    Hang,
}

impl Reply {
    pub fn status(status: u16) -> Reply {
        Reply::Answer {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub fn json(status: u16, body: &serde_json::Value) -> Reply {
        Reply::status(status)
            .with("content-type", "application/json")
            .body(body.to_string())
    }

    pub fn with(mut self, name: &str, value: impl AsRef<[u8]>) -> Reply {
        if let Reply::Answer { headers, .. } = &mut self {
            headers.push((name.to_owned(), value.as_ref().to_vec()));
        }
        self
    }

    pub fn body(mut self, text: impl Into<Vec<u8>>) -> Reply {
        if let Reply::Answer { body, .. } = &mut self {
            *body = text.into();
        }
        self
    }
}

#[derive(Clone)]
pub struct Server {
    port: u16,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Answers what `answer` says.
    pub fn start(answer: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let server = Server {
            port,
            seen: Arc::clone(&seen),
        };
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for (connection, stream) in listener.incoming().flatten().enumerate() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                std::thread::spawn(move || {
                    // A client that goes away ends its thread.
                    let _ = serve(stream, connection, &seen, &*answer);
                });
            }
        });
        server
    }

    /// Answers these in turn, then 500 with a word about it.
    pub fn script(replies: impl IntoIterator<Item = Reply>) -> Server {
        let replies = Mutex::new(replies.into_iter().collect::<VecDeque<_>>());
        Server::start(move |_| {
            let next = replies.lock().expect("replies").pop_front();
            next.unwrap_or_else(|| Reply::status(500).body("the script is at its end"))
        })
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("seen").clone()
    }

    pub fn calls(&self) -> usize {
        self.seen().len()
    }
}

fn serve(
    mut stream: TcpStream,
    connection: usize,
    seen: &Mutex<Vec<Seen>>,
    answer: &dyn Fn(&Seen) -> Reply,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    while let Some(request) = read(&mut stream, &mut buffer, connection)? {
        seen.lock().expect("seen").push(request.clone());
        match answer(&request) {
            Reply::Answer {
                status,
                headers,
                body,
            } => {
                let mut head =
                    format!("HTTP/1.1 {status} Whatever\r\ncontent-length: {}\r\n", body.len()).into_bytes();
                for (name, value) in headers {
                    head.extend_from_slice(name.as_bytes());
                    head.extend_from_slice(b": ");
                    head.extend_from_slice(&value);
                    head.extend_from_slice(b"\r\n");
                }
                head.extend_from_slice(b"\r\n");
                if request.method != "HEAD" {
                    head.extend_from_slice(&body);
                }
                stream.write_all(&head)?;
            }
            Reply::Endless { status } => {
                let head = format!("HTTP/1.1 {status} Whatever\r\ntransfer-encoding: chunked\r\n\r\n");
                stream.write_all(head.as_bytes())?;
                loop {
                    stream.write_all(b"4\r\nmore\r\n")?;
                    std::thread::park_timeout(Duration::from_millis(5));
                }
            }
            Reply::Reset => {
                socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))?;
                return Ok(());
            }
            Reply::Close => return stream.shutdown(Shutdown::Both),
            Reply::Hang => std::thread::park(),
        }
    }
    Ok(())
}

fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>, connection: usize) -> std::io::Result<Option<Seen>> {
    let mut more = |buffer: &mut Vec<u8>| -> std::io::Result<bool> {
        let mut chunk = [0; 4096];
        let length = stream.read(&mut chunk)?;
        buffer.extend_from_slice(&chunk[..length]);
        Ok(length > 0)
    };
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if !more(buffer)? {
            return Ok(None);
        }
    };
    let head = String::from_utf8_lossy(&buffer[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ').map(str::to_owned);
    let mut seen = Seen {
        method: words.next().unwrap_or_default(),
        target: words.next().unwrap_or_default(),
        headers: lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        body: String::new(),
        connection,
    };
    let length: usize = seen
        .header("content-length")
        .map_or(0, |text| text.parse().unwrap_or(0));
    while buffer.len() < end + length {
        if !more(buffer)? {
            return Ok(None);
        }
    }
    seen.body = String::from_utf8_lossy(&buffer[end..end + length]).into_owned();
    buffer.drain(..end + length);
    Ok(Some(seen))
}
