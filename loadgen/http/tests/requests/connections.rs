//! Deadlines of connections: each state ends in time, and no connection makes an authenticated
//! client wait.

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

/// A connection, with or without TLS.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A server with the means to connect to it.
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
        let address = listener.local_addr().expect("the listener is bound");
        let forever = std::future::pending();
        tokio::spawn(listen::serve_within(server, listener, tls, limits, forever));
        Reached { address, authority }
    }

    /// Opens a connection whose client buffers at most [`CLIENT_BUFFER`] unread bytes.
    async fn tcp(&self) -> std::io::Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(CLIENT_BUFFER)?;
        socket.connect(self.address).await
    }

    /// Opens a connection for a protocol.
    async fn connect(&self, alpn: &str) -> std::io::Result<Box<dyn Stream>> {
        let stream = self.tcp().await?;
        let Some(authority) = &self.authority else {
            return Ok(Box::new(stream));
        };
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let connector = client(authority, None, &[alpn]);
        Ok(Box::new(connector.connect(name, stream).await?))
    }

    /// Asserts that an authenticated request on a new connection is answered. Returns the
    /// connection.
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

/// Returns the bytes with which an HTTP/2 client begins and requests a path on stream 1.
fn http2(path: &str) -> Vec<u8> {
    let mut head = vec![0x82, 0x87];
    for (name, value) in [
        (&[0x01][..], "localhost"),
        (&[0x04], path),
        (&[0x0f, 0x08], "Bearer secret"),
    ] {
        head.extend(name);
        head.push(u8::try_from(value.len()).expect("a short value"));
        head.extend(value.as_bytes());
    }
    let length = u8::try_from(head.len()).expect("a short value");
    let frame = [0, 0, length, 1, 5, 0, 0, 0, 1];
    [SETTINGS, &frame, &head].concat()
}

/// In bytes. Otherwise the kernel grows a fast reader's buffer, on many machines to 32 MB, which
/// holds a whole answer.
const CLIENT_BUFFER: u32 = 256 << 10;
/// Longer than any test.
const NEVER: Duration = Duration::from_secs(3600);
/// Limits that never apply.
const ENDLESS: ConnectionLimits = ConnectionLimits {
    all: 1000,
    unproven: 1000,
    handshake: NEVER,
    head: NEVER,
    idle: NEVER,
    send: NEVER,
    ping: [NEVER; 2],
};
/// The time limit for everything that must happen.
const SOON: Duration = Duration::from_secs(60);

/// Reads until the server closes the connection.
async fn ended(stream: &mut (impl AsyncRead + Unpin + ?Sized)) {
    let mut back = Vec::new();
    let _reset = stream.read_to_end(&mut back).await;
}

/// What a client does before it goes silent.
#[derive(Clone, Copy, Debug)]
enum Habit {
    /// Sends bytes without a TLS handshake.
    Tcp(&'static [u8]),
    Says(&'static str, &'static [u8]),
    /// Sends an HTTP/2 request.
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
            let mut stream = reached.behave(habit).await.expect("the server listens");
            let ended = timeout(SOON, ended(&mut stream)).await;
            assert!(
                ended.is_ok(),
                "{has_tls} {habit:?}: the connection stays open"
            );
            let waited = began.elapsed();
            assert!(waited >= within, "{has_tls} {habit:?}: {waited:?}");
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a subtest");
    }
}

#[tokio::test]
async fn the_deadline_of_a_head_starts_with_its_first_byte() {
    let limits = ConnectionLimits {
        head: Duration::from_secs(1),
        ..ENDLESS
    };
    let reached = Reached::new(builder().build(), false, limits).await;
    let mut stream = reached.is_served().await.unwrap();
    sleep(2 * limits.head).await;
    let began = Instant::now();
    // Sending single bytes does not extend the deadline.
    while stream.write_all(b"G").await.is_ok() {
        assert!(began.elapsed() < SOON);
        sleep(limits.head / 10).await;
    }
    assert!(began.elapsed() >= limits.head);
}

#[tokio::test]
async fn a_watch_is_never_idle() {
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
async fn an_http_2_client_that_ignores_pings_is_disconnected() {
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
        .expect("the watch ends");
}

/// Returns a server with 30 MB of objects, far more than the sockets between it and a client can
/// hold.
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
async fn an_unread_answer_ends_but_a_slowly_read_one_does_not() {
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
                // Reads occasionally, in total for longer than the limit on a single pause.
                let mut part = vec![0; 3_000_000];
                for _ in 0..4 {
                    stream
                        .read_exact(&mut part)
                        .await
                        .expect("the stream continues");
                    sleep(limits.send / 3).await;
                }
            }
            // Stops reading. What the client sends meanwhile does not extend the deadline.
            let sent: &[u8] = match alpn {
                "h2" => b"\0\0\x08\x06\0\0\0\0\0--ping--",
                _ => b"G",
            };
            let began = Instant::now();
            while stream.write_all(sent).await.is_ok() {
                assert!(began.elapsed() < SOON, "{alpn}: the connection stays open");
                sleep(limits.send / 20).await;
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("a subtest");
    }
}

#[tokio::test]
async fn silent_connections_do_not_block_authenticated_clients() {
    let limits = ConnectionLimits {
        all: 20,
        unproven: 10,
        ..ENDLESS
    };
    let h1 = |bytes| Habit::Says("http/1.1", bytes);
    for (has_tls, habit) in [
        (false, h1(b"")),
        (false, h1(HALF_A_HEAD)),
        // Without a credential.
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
            // More connections than slots, three times.
            for _ in 0..30 {
                // The server may have closed the connection already.
                silent.extend(
                    timeout(SOON, reached.behave(habit))
                        .await
                        .expect("the connection is accepted"),
                );
            }
            let served = timeout(SOON, reached.is_served()).await;
            served
                .unwrap_or_else(|_| panic!("{has_tls} {habit:?}: an authenticated client waits"))
                .unwrap();
        }
        // A proven connection stays.
        kept.write_all(VERSION).await.unwrap();
        let mut back = vec![0; 1 << 16];
        let mut answers = String::new();
        while answers.matches("HTTP/1.1 200").count() < 1 {
            let read = timeout(SOON, kept.read(&mut back)).await.unwrap().unwrap();
            assert_ne!(
                read, 0,
                "{has_tls} {habit:?}: a proven connection was closed"
            );
            answers.push_str(&String::from_utf8_lossy(&back[..read]));
        }
        // Most of the silent ones do not.
        let mut open = tokio::task::JoinSet::new();
        for mut stream in silent {
            open.spawn(async move { timeout(SOON / 60, ended(&mut stream)).await.is_err() });
        }
        let open = open.join_all().await;
        let open = open.into_iter().filter(|is_open| *is_open).count();
        assert!(
            open <= limits.unproven,
            "{has_tls} {habit:?}: {open} silent connections are open"
        );
    }
}

#[tokio::test]
async fn active_connections_outlive_silent_ones() {
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
async fn a_half_closed_clients_request_is_executed() {
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
            // The client reads late, so more data waits than sockets can hold.
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

        // A watch ends when its client closes its side, and an incomplete request has no effect.
        for ask in [
            WATCH,
            b"POST /api HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{",
        ] {
            let mut stream = reached.connect("http/1.1").await.unwrap();
            stream.write_all(ask).await.unwrap();
            stream.shutdown().await.unwrap();
            timeout(SOON, ended(&mut stream))
                .await
                .expect("the connection ends");
        }
    }
}
