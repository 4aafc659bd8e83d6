//! Clients that behave badly, on a socket: each gets a clear answer or a closed connection, and the
//! others are served all the while.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_http::{ApiServer, listen};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn server() -> SocketAddr {
    let options = ClusterOptions {
        keeps_past: true,
        ..ClusterOptions::default()
    };
    let server = ApiServer::builder(Arc::new(Cluster::new(options))).build();
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(listen::serve(server, listener, std::future::pending()));
    address
}

/// What comes back for these bytes until the server closes, or for a second.
async fn say(address: SocketAddr, bytes: &[u8]) -> String {
    let mut client = TcpStream::connect(address).await.expect("it listens");
    // The server may close before it has read everything.
    let _closed = client.write_all(bytes).await;
    let mut back = Vec::new();
    let read = client.read_to_end(&mut back);
    let _in_time = tokio::time::timeout(Duration::from_secs(1), read).await;
    String::from_utf8_lossy(&back).into_owned()
}

async fn is_served(address: SocketAddr) {
    let version = b"GET /version HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answer = say(address, version).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn post(length: usize, body: &str) -> Vec<u8> {
    format!(
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[tokio::test]
async fn what_is_no_request_is_refused() {
    let address = server().await;
    let long = "a".repeat(1 << 20);
    for (bytes, answer) in [
        (b"hello, is anybody there?\r\n\r\n".to_vec(), "HTTP/1.1 400"),
        // A client that wants to speak TLS.
        (
            vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 0, 13, 10, 13, 10],
            "",
        ),
        (
            format!("GET /{long} HTTP/1.1\r\nhost: a\r\n\r\n").into_bytes(),
            "HTTP/1.1 4",
        ),
        (
            format!("GET / HTTP/1.1\r\nhost: a\r\nx: {long}\r\n\r\n").into_bytes(),
            "HTTP/1.1 431",
        ),
        (
            b"BREW /api/v1/pods HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n".to_vec(),
            "HTTP/1.1 405",
        ),
        (post(4 << 20, &"x".repeat(4 << 20)), "HTTP/1.1 413"),
        (post(9, "[[[[[[[[["), "HTTP/1.1 400"),
        (post(200_000, &"[".repeat(200_000)), "HTTP/1.1 400"),
    ] {
        let back = say(address, &bytes).await;
        let begin = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
        assert!(back.starts_with(answer), "{begin}: {back}");
        is_served(address).await;
    }
}

#[tokio::test]
async fn a_request_that_breaks_off_leaves_nothing() {
    let address = server().await;
    let body = r#"{"metadata": {"name": "half"}}"#;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(&post(body.len() + 1, body)).await.unwrap();
    client.shutdown().await.unwrap();
    let mut back = String::new();
    let _closed = client.read_to_string(&mut back).await;
    let get = b"GET /api/v1/namespaces/half HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let answer = say(address, get).await;
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_never_comes_is_not_waited_for() {
    let server = ApiServer::builder(Arc::new(Cluster::new(ClusterOptions::default()))).build();
    let never = Never;
    let request = http::Request::post("/api/v1/namespaces")
        .body(never)
        .unwrap();
    assert_eq!(server.answer(request).await.status(), 504);
}

/// The frames of a body that never come.
struct Never;

impl http_body::Body for Never {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<bytes::Bytes>, Self::Error>>> {
        std::task::Poll::Pending
    }
}

#[tokio::test]
async fn idle_and_deaf_clients_hold_nobody_up() {
    let address = server().await;
    let mut kept = Vec::new();
    for number in 0..500 {
        let mut client = TcpStream::connect(address).await.unwrap();
        if number % 2 == 0 {
            // Half a head, and a watch that is never read.
            let half: &[u8] = b"GET /api/v1/pods HTTP/1.1\r\nho";
            client.write_all(half).await.unwrap();
        } else {
            let watch: &[u8] = b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nhost: a\r\n\r\n";
            client.write_all(watch).await.unwrap();
        }
        kept.push(client);
    }
    is_served(address).await;
    drop(kept);
    is_served(address).await;
}

#[tokio::test]
async fn requests_sent_at_once_are_answered_in_order() {
    let address = server().await;
    let twice = b"GET /api HTTP/1.1\r\nhost: a\r\n\r\n\
        GET /nowhere HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let back = say(address, twice).await;
    let codes: Vec<&str> = back
        .match_indices("HTTP/1.1 ")
        .map(|(at, head)| &back[at + head.len()..at + head.len() + 3])
        .collect();
    assert_eq!(codes, ["200", "404"]);
}
