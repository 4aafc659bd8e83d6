//! Connections that stay in a state: each ends in time, and none keeps a client with a credential waiting.

use std::io::ErrorKind;
use std::time::Duration;

use podstorm_http::listen::ConnectionLimits;
use podstorm_http::tls::Authority;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Instant, sleep, timeout};

use super::access::{client, jane};
use super::*;

/// Bytes of a connection, with TLS or without.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A server, and how its clients reach it.
struct Reached {
    address: SocketAddr,
    authority: Option<Authority>,
}

impl Reached {
    async fn new(server: ApiServer, has_tls: bool, limits: ConnectionLimits) -> Reached {
        let authority = has_tls.then(|| Authority::new().expect("random numbers"));
        let names = vec!["127.0.0.1".to_owned()];
        let tls = authority
            .as_ref()
            .map(|it| it.server(names).expect("a certificate"));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let forever = std::future::pending();
        tokio::spawn(listen::serve_within(server, listener, tls, limits, forever));
        Reached { address, authority }
    }

    /// A connection whose client holds [`CLIENT_BUFFER`] bytes at most that the test has not read.
    async fn tcp(&self) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(CLIENT_BUFFER)?;
        socket.connect(self.address).await
    }

    /// A connection on which bytes of that protocol can be sent.
    async fn connect(&self, alpn: &str) -> std::io::Result<Box<dyn Stream>> {
        let stream = self.tcp().await?;
        let Some(authority) = &self.authority else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let connector = client(authority, None, &[alpn]);
        Ok(Box::new(connector.connect(name, stream).await?))
    }

    /// The answer to a request with a credential on a new connection.
    async fn is_served(&self) -> std::io::Result<Box<dyn Stream>> {
        let mut stream = self.connect("http/1.1").await?;
        stream.write_all(VERSION).await?;
        let mut head = [0; 12];
        stream.read_exact(&mut head).await?;
        assert_eq!(&head, b"HTTP/1.1 200");
        Ok(stream)
    }
}

const VERSION: &[u8] =
    b"GET /version HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer secret\r\n\r\n";
const HALF_A_HEAD: &[u8] = b"GET /version HTTP/1.1\r\nhost: loc";
const WATCH: &[u8] = b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nhost: localhost\r\n\
    authorization: Bearer secret\r\n\r\n";
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// The bytes with which a client of HTTP/2 begins and asks for a path, on stream 1.
fn http2(path: &str) -> Vec<u8> {
    let mut head = vec![0x82, 0x87];
    for (name, value) in [
        (&[0x01][..], "localhost"),
        (&[0x04], path),
        (&[0x0f, 0x08], "Bearer secret"),
    ] {
        head.extend(name);
        head.push(u8::try_from(value.len()).expect("it is short"));
        head.extend(value.as_bytes());
    }
    let length = u8::try_from(head.len()).expect("it is short");
    let frame = [0, 0, length, 1, 5, 0, 0, 0, 1];
    [SETTINGS, &frame, &head].concat()
}

/// Bytes. Without it the kernel lets the buffer of a fast reader grow, to 32 MB on many machines: as much as a whole answer.
const CLIENT_BUFFER: u32 = 256 << 10;
/// Longer than any test takes.
const NEVER: Duration = Duration::from_secs(3600);
/// In which nothing ends.
const ENDLESS: ConnectionLimits = ConnectionLimits {
    all: 1000,
    unproven: 1000,
    handshake: NEVER,
    head: NEVER,
    idle: NEVER,
    send: NEVER,
    ping: [NEVER; 2],
};
/// What must happen does so within this time.
const SOON: Duration = Duration::from_secs(60);

/// Reads until the server ends the connection.
async fn ended(stream: &mut (impl AsyncRead + Unpin + ?Sized)) {
    let mut back = Vec::new();
    let _reset = stream.read_to_end(&mut back).await;
}

/// What a client does on a connection before it does nothing more.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// Not even shaking hands.
    Tcp(&'static [u8]),
    Says(&'static str, &'static [u8]),
    /// A request of HTTP/2.
    Asks2,
}

impl Reached {
    async fn behave(&self, habit: Habit) -> std::io::Result<Box<dyn Stream>> {
        let (mut stream, bytes) = match habit {
            Habit::Tcp(bytes) => (
                Box::new(self.tcp().await?) as Box<dyn Stream>,
                bytes.to_vec(),
            ),
            Habit::Says(alpn, bytes) => (self.connect(alpn).await?, bytes.to_vec()),
            Habit::Asks2 => (self.connect("h2").await?, http2("/version")),
        };
        stream.write_all(&bytes).await?;
        Ok(stream)
    }
}

#[tokio::test]
async fn every_state_of_a_connection_ends() {
    let h1 = |bytes| Habit::Says("http/1.1", bytes);
    let h2 = |bytes| Habit::Says("h2", bytes);
    let within = Duration::from_secs(1);
    let [handshake, head, idle] = [
        ConnectionLimits {
            handshake: within,
            ..ENDLESS
        },
        ConnectionLimits {
            head: within,
            ..ENDLESS
        },
        ConnectionLimits {
            idle: within,
            ..ENDLESS
        },
    ];
    let cases = [
        (false, h1(b""), head),
        (false, h1(HALF_A_HEAD), head),
        (false, h1(VERSION), idle),
        (true, Habit::Tcp(b""), handshake),
        (true, Habit::Tcp(&[22, 3, 1, 2, 0]), handshake),
        (true, h1(b""), head),
        (true, h1(HALF_A_HEAD), head),
        (true, h1(VERSION), idle),
        (true, h2(b""), head),
        (true, h2(&PREFACE[..5]), head),
        (true, h2(PREFACE), head),
        (true, h2(SETTINGS), head),
        (true, Habit::Asks2, idle),
    ];
    let mut tasks = tokio::task::JoinSet::new();
    for (has_tls, habit, limits) in cases {
        tasks.spawn(async move {
            let server = builder().credentials(jane()).build();
            let reached = Reached::new(server, has_tls, limits).await;
            let began = Instant::now();
            let mut stream = reached.behave(habit).await.expect("it listens");
            let ended = timeout(SOON, ended(&mut stream)).await;
            assert!(ended.is_ok(), "{has_tls} {habit:?}: it stays");
            let waited = began.elapsed();
            assert!(waited >= within, "{has_tls} {habit:?}: {waited:?}");
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a test within this one");
    }
}

#[tokio::test]
async fn a_head_has_its_time_from_its_first_byte_on() {
    let limits = ConnectionLimits {
        head: Duration::from_secs(1),
        ..ENDLESS
    };
    let reached = Reached::new(builder().build(), false, limits).await;
    let mut stream = reached.is_served().await.unwrap();
    sleep(2 * limits.head).await;
    let began = Instant::now();
    // A byte now and then does not help.
    while stream.write_all(b"G").await.is_ok() {
        assert!(began.elapsed() < SOON);
        sleep(limits.head / 10).await;
    }
    assert!(began.elapsed() >= limits.head);
}

#[tokio::test]
async fn a_watch_does_not_end_for_want_of_requests() {
    let short = Duration::from_millis(100);
    let limits = ConnectionLimits {
        head: SOON,
        idle: short,
        send: short,
        ..ENDLESS
    };
    for (has_tls, alpn) in [(false, "http/1.1"), (true, "http/1.1"), (true, "h2")] {
        let server = builder().credentials(jane()).build();
        let reached = Reached::new(server, has_tls, limits).await;
        let mut stream = reached.connect(alpn).await.unwrap();
        let bytes = match alpn {
            "h2" => http2("/api/v1/pods?watch=1"),
            _ => WATCH.to_vec(),
        };
        stream.write_all(&bytes).await.unwrap();
        let ended = timeout(10 * short, ended(&mut stream)).await;
        assert!(ended.is_err(), "{has_tls} {alpn}");
    }
}

#[tokio::test]
async fn a_client_of_http_2_that_answers_no_ping_is_taken_for_dead() {
    let limits = ConnectionLimits {
        ping: [Duration::from_millis(100); 2],
        ..ENDLESS
    };
    let reached = Reached::new(builder().build(), true, limits).await;
    let mut stream = reached.connect("h2").await.unwrap();
    stream
        .write_all(&http2("/api/v1/pods?watch=1"))
        .await
        .unwrap();
    timeout(SOON, ended(&mut stream))
        .await
        .expect("its watch ends");
}

/// A server with 30 MB of objects, far more than the sockets between it and a client hold.
async fn with_much() -> ApiServer {
    let server = with_namespace(builder().credentials(Default::default()), "n").await;
    let data = "x".repeat(1_000_000);
    for number in 0..30 {
        let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"d": data}});
        let made = send(&server, "POST", "/api/v1/namespaces/n/configmaps", &map).await;
        assert_eq!(made.status(), 201);
    }
    server
}

#[tokio::test]
async fn an_answer_that_is_not_read_ends_and_one_that_is_read_slowly_does_not() {
    let limits = ConnectionLimits {
        send: Duration::from_secs(2),
        ..ENDLESS
    };
    let server = with_much().await;
    let mut tasks = tokio::task::JoinSet::new();
    for alpn in ["plain", "http/1.1", "h2"] {
        let server = server.clone();
        tasks.spawn(async move {
            let reached = Reached::new(server, alpn != "plain", limits).await;
            let ask = match alpn {
                "h2" => http2("/api/v1/configmaps"),
                _ => b"GET /api/v1/configmaps HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(),
            };
            let mut stream = reached.connect(alpn).await.unwrap();
            stream.write_all(&ask).await.unwrap();
            if alpn != "h2" {
                // A part now and then, for longer than one may take.
                let mut part = vec![0; 3_000_000];
                for _ in 0..4 {
                    stream.read_exact(&mut part).await.expect("it goes on");
                    sleep(limits.send / 3).await;
                }
            }
            // It reads no more. What it sends meanwhile does not help.
            let sent: &[u8] = match alpn {
                "h2" => b"\0\0\x08\x06\0\0\0\0\0--ping--",
                _ => b"G",
            };
            let began = Instant::now();
            while stream.write_all(sent).await.is_ok() {
                assert!(began.elapsed() < SOON, "{alpn}: it stays");
                sleep(limits.send / 20).await;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a test within this one");
    }
}

#[tokio::test]
async fn silent_connections_keep_no_client_with_a_credential_waiting() {
    let limits = ConnectionLimits {
        all: 20,
        unproven: 10,
        ..ENDLESS
    };
    let h1 = |bytes| Habit::Says("http/1.1", bytes);
    for (has_tls, habit) in [
        (false, h1(b"")),
        (false, h1(HALF_A_HEAD)),
        // Without a credential, or with a wrong one.
        (
            false,
            h1(b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n"),
        ),
        (true, Habit::Tcp(b"")),
        (true, Habit::Tcp(&[22, 3, 1, 2, 0])),
        (true, h1(b"")),
        (true, Habit::Says("h2", PREFACE)),
        (true, Habit::Says("h2", SETTINGS)),
    ] {
        let server = builder().credentials(jane()).build();
        let reached = Reached::new(server, has_tls, limits).await;
        let mut kept = timeout(SOON, reached.is_served()).await.unwrap().unwrap();
        let mut silent = Vec::new();
        for _ in 0..3 {
            // More than there are places, and again.
            for _ in 0..30 {
                // The server may have closed it already.
                silent.extend(
                    timeout(SOON, reached.behave(habit))
                        .await
                        .expect("it is not kept waiting"),
                );
            }
            let served = timeout(SOON, reached.is_served()).await;
            served
                .unwrap_or_else(|_| panic!("{has_tls} {habit:?}: it waits"))
                .unwrap();
        }
        // A proven one stays.
        kept.write_all(VERSION).await.unwrap();
        let mut back = vec![0; 1 << 16];
        let mut answers = String::new();
        while answers.matches("HTTP/1.1 200").count() < 1 {
            let read = timeout(SOON, kept.read(&mut back)).await.unwrap().unwrap();
            assert_ne!(read, 0, "{has_tls} {habit:?}: it was closed");
            answers.push_str(&String::from_utf8_lossy(&back[..read]));
        }
        // Most of the others do not.
        let mut open = tokio::task::JoinSet::new();
        for mut stream in silent {
            open.spawn(async move { timeout(SOON / 60, ended(&mut stream)).await.is_err() });
        }
        let open = open.join_all().await;
        let open = open.into_iter().filter(|is_open| *is_open).count();
        assert!(
            open <= limits.unproven,
            "{has_tls} {habit:?}: {open} are open"
        );
    }
}

#[tokio::test]
async fn without_credentials_talking_connections_are_not_closed_for_silent_ones() {
    let limits = ConnectionLimits {
        all: 6,
        unproven: 3,
        ..ENDLESS
    };
    let reached = Reached::new(builder().build(), false, limits).await;
    let mut talking = Vec::new();
    for _ in 0..3 {
        talking.push(reached.is_served().await.unwrap());
    }
    let mut silent = Vec::new();
    for _ in 0..50 {
        silent.push(reached.tcp().await.unwrap());
    }
    timeout(SOON, reached.is_served()).await.unwrap().unwrap();
    for stream in &mut talking {
        stream.write_all(VERSION).await.unwrap();
        let mut back = [0; 1 << 12];
        assert_ne!(stream.read(&mut back).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_request_is_carried_out_for_a_client_that_sends_no_more() {
    let server = with_much().await;
    for has_tls in [false, true] {
        let reached = Reached::new(server.clone(), has_tls, ENDLESS).await;
        let body = format!(r#"{{"metadata": {{"name": "tls-{has_tls}"}}}}"#);
        let post = format!(
            "POST /api/v1/namespaces HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let list = "GET /api/v1/configmaps HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned();
        for (ask, at_least) in [(post, 100), (list, 30_000_000)] {
            let mut stream = reached.connect("http/1.1").await.unwrap();
            stream.write_all(ask.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            // It reads late: more waits than sockets hold.
            sleep(Duration::from_millis(50)).await;
            let mut back = Vec::new();
            let read = timeout(SOON, stream.read_to_end(&mut back)).await;
            let read = read.expect("the connection ends");
            assert!(read.is_ok() || read.is_err_and(|why| why.kind() == ErrorKind::UnexpectedEof));
            assert!(
                back.starts_with(b"HTTP/1.1 20"),
                "{has_tls}: {} bytes",
                back.len()
            );
            assert!(back.len() > at_least, "{has_tls}: {} bytes", back.len());
        }
        let made = send(
            &server,
            "GET",
            &format!("/api/v1/namespaces/tls-{has_tls}"),
            &Value::Null,
        )
        .await;
        assert_eq!(made.status(), 200);

        // A watch ends with its client, and a request of which a part is missing is none.
        for ask in [
            WATCH,
            b"POST /api HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{",
        ] {
            let mut stream = reached.connect("http/1.1").await.unwrap();
            stream.write_all(ask).await.unwrap();
            stream.shutdown().await.unwrap();
            timeout(SOON, ended(&mut stream)).await.expect("it ends");
        }
    }
}
