//! Misbehaving clients on a socket. Each gets a clear answer or a closed connection, and other
//! clients are served meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_http::{ApiServer, listen};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

async fn server() -> SocketAddr {
    served().await.1
}

/// Returns a server and its address.
async fn served() -> (ApiServer, SocketAddr) {
    let options = ClusterOptions {
        keeps_past: true,
        ..ClusterOptions::default()
    };
    let server = ApiServer::builder(Arc::new(Cluster::new(options))).build();
    let listener = TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a port is free");
    let address = listener.local_addr().expect("the listener is bound");
    let forever = std::future::pending();
    tokio::spawn(listen::serve(server.clone(), listener, forever));
    (server, address)
}

/// Sends bytes and returns what arrives until the server closes the connection, or within one
/// second.
async fn say(address: SocketAddr, bytes: &[u8]) -> String {
    let mut client = TcpStream::connect(address)
        .await
        .expect("the server listens");
    // The server may close the connection before it has read everything.
    let _closed = client.write_all(bytes).await;
    let mut back = Vec::new();
    let read = client.read_to_end(&mut back);
    let _in_time = tokio::time::timeout(Duration::from_secs(1), read).await;
    String::from_utf8_lossy(&back).into_owned()
}

/// Asserts that a request for the path gets an answer with the code.
async fn expect(address: SocketAddr, path: &str, code: u16) {
    let get = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    let answer = say(address, get.as_bytes()).await;
    assert!(answer.starts_with(&format!("HTTP/1.1 {code}")), "{answer}");
}

async fn is_served(address: SocketAddr) {
    expect(address, "/version", 200).await;
}

fn post(length: usize, body: &str) -> Vec<u8> {
    format!(
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

#[tokio::test]
async fn invalid_and_oversized_requests_are_refused() {
    let address = server().await;
    let (long, longish) = ("a".repeat(1 << 20), "a".repeat(70_000));
    let many: String = (0..200).map(|n| format!("x-{n}: 1\r\n")).collect();
    let get = |path: &str, headers: &str| {
        format!("GET /{path} HTTP/1.1\r\nhost: localhost\r\n{headers}\r\n").into_bytes()
    };
    let long_header = format!("x: {long}\r\n");
    for (bytes, answer) in [
        (b"hello, is anybody there?\r\n\r\n".to_vec(), "HTTP/1.1 400"),
        // A client that tries TLS.
        (
            vec![22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3, 0, 13, 10, 13, 10],
            "",
        ),
        (get(&long, ""), "HTTP/1.1 4"),
        (get(&longish, ""), "HTTP/1.1 414"),
        (get("", &long_header), "HTTP/1.1 431"),
        (get("version", &many), "HTTP/1.1 431"),
        (
            b"BREW /api/v1/pods HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".to_vec(),
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
async fn an_incomplete_request_has_no_effect() {
    let address = server().await;
    let body = r#"{"metadata": {"name": "half"}}"#;
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(&post(body.len() + 1, body)).await.unwrap();
    client.shutdown().await.unwrap();
    let mut back = String::new();
    let _closed = client.read_to_string(&mut back).await;
    expect(address, "/api/v1/namespaces/half", 404).await;
}

#[tokio::test]
async fn idle_and_unreading_clients_block_no_others() {
    let address = server().await;
    let mut kept = Vec::new();
    for number in 0..500 {
        let mut client = TcpStream::connect(address).await.unwrap();
        // An incomplete head, or a watch that is never read.
        let request = match number % 2 {
            0 => "GET /api/v1/pods HTTP/1.1\r\nho",
            _ => "GET /api/v1/pods?watch=1 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        };
        client.write_all(request.as_bytes()).await.unwrap();
        kept.push(client);
    }
    is_served(address).await;
    drop(kept);
    is_served(address).await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let address = server().await;
    let twice = b"GET /api HTTP/1.1\r\nhost: localhost\r\n\r\n\
        GET /nowhere HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let back = say(address, twice).await;
    let codes: Vec<&str> = back
        .match_indices("HTTP/1.1 ")
        .map(|(at, head)| &back[at + head.len()..at + head.len() + 3])
        .collect();
    assert_eq!(codes, ["200", "404"]);
}

#[tokio::test]
async fn a_half_closed_client_is_answered() {
    let address = server().await;
    let mut client = TcpStream::connect(address).await.unwrap();
    let version = b"GET /version HTTP/1.1\r\nhost: localhost\r\n\r\n";
    client.write_all(version).await.unwrap();
    client.shutdown().await.unwrap();
    let mut back = String::new();
    let read = client.read_to_string(&mut back);
    tokio::time::timeout(Duration::from_secs(5), read)
        .await
        .expect("the connection ends")
        .unwrap();
    assert!(back.starts_with("HTTP/1.1 200"), "{back}");
}

#[tokio::test]
async fn a_truncated_request_does_no_harm() {
    let address = server().await;
    let whole = post(27, r#"{"metadata": {"name": "a"}}"#);
    for end in (0..whole.len()).step_by(7) {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&whole[..end]).await.unwrap();
        drop(client);
    }
    is_served(address).await;
    expect(address, "/api/v1/namespaces/a", 404).await;
}

#[tokio::test]
async fn a_compressed_body_is_not_decompressed() {
    use std::io::Write;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..64 {
        packed.write_all(&[b' '; 1 << 20]).unwrap();
    }
    let packed = packed.finish().unwrap();
    let address = server().await;
    let mut request = format!(
        "POST /api/v1/namespaces HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-encoding: gzip\r\n\
         content-length: {}\r\n\r\n",
        packed.len()
    )
    .into_bytes();
    request.extend(packed);
    let answer = say(address, &request).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    is_served(address).await;
}

#[tokio::test]
async fn web_pages_cannot_use_a_server_without_credentials() {
    let address = server().await;
    let ask = async |head: &str, body: &str| {
        let length = body.len();
        let request = format!("{head}connection: close\r\ncontent-length: {length}\r\n\r\n{body}");
        let answer = say(address, request.as_bytes()).await;
        let code = answer.split(' ').nth(1).map(str::to_owned);
        (code.unwrap_or_default(), answer)
    };
    let create = "POST /api/v1/namespaces HTTP/1.1\r\n";
    let namespace = r#"{"metadata": {"name": "n"}}"#;
    for (head, body, code, told) in [
        (
            "GET /api/v1/secrets HTTP/1.1\r\nhost: evil.example\r\n",
            "",
            "403",
            "--allowed-host",
        ),
        (
            "GET http://evil.example/api HTTP/1.1\r\nhost: localhost\r\n",
            "",
            "403",
            "evil.example",
        ),
        (
            "GET /api HTTP/1.1\r\nhost: localhost\r\norigin: null\r\n",
            "",
            "403",
            "null",
        ),
        (
            "GET /api HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: cross-site\r\n",
            "",
            "403",
            "another site",
        ),
        (
            &format!("{create}host: localhost\r\n"),
            namespace,
            "415",
            "--json",
        ),
        (
            &format!("{create}host: localhost\r\ncontent-type: text/plain\r\n"),
            namespace,
            "415",
            "--json",
        ),
        (
            "POST /podstorm/faults HTTP/1.1\r\nhost: localhost\r\n",
            r#"{"effect": "end-watch"}"#,
            "415",
            "--json",
        ),
        (
            "POST /podstorm/clock/advance HTTP/1.1\r\nhost: localhost\r\n",
            "",
            "415",
            "--json",
        ),
        (
            &format!("{create}host: localhost\r\ncontent-type: application/json\r\n"),
            namespace,
            "201",
            "n",
        ),
    ] {
        let (found, answer) = ask(head, body).await;
        assert_eq!(found, code, "{head}: {answer}");
        assert!(answer.contains(told), "{head}: {answer}");
    }
    expect(address, "/podstorm/faults", 200).await;
}

/// Returns the resident memory of this process in bytes.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.map_or(0, |pages: u64| pages * 4096)
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn unread_watches_do_not_buffer_events() {
    use http_body_util::{BodyExt, Full};
    let (server, address) = served().await;
    let send = async |method: &str, path: &str, body: String| {
        let request = http::Request::builder().method(method).uri(path);
        let request = request
            .header("content-type", "application/json")
            .body(Full::new(bytes::Bytes::from(body)));
        server
            .answer(request.unwrap())
            .await
            .expect("no fault is armed")
            .status()
            .as_u16()
    };
    let namespace = r#"{"metadata": {"name": "n"}}"#.to_owned();
    assert_eq!(send("POST", "/api/v1/namespaces", namespace).await, 201);
    let mut deaf = Vec::new();
    for _ in 0..20 {
        let mut client = TcpStream::connect(address).await.unwrap();
        let watch = b"GET /api/v1/configmaps?watch=1 HTTP/1.1\r\nhost: localhost\r\n\r\n";
        client.write_all(watch).await.unwrap();
        let mut head = [0; 12];
        client.read_exact(&mut head).await.unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        deaf.push(client);
    }
    let watch = http::Request::get("/api/v1/configmaps?watch=1");
    let watch = watch.body(Full::new(bytes::Bytes::new())).unwrap();
    let mut heard = server.answer(watch).await.unwrap().into_body();
    let before = resident();
    // 300 changes of 100 kB, which would be 600 MB if each of these watches buffered them.
    let maps = "/api/v1/namespaces/n/configmaps";
    for number in 0..300 {
        let data = format!("{number}{}", "x".repeat(100_000));
        let map = format!(r#"{{"metadata": {{"name": "m"}}, "data": {{"d": "{data}"}}}}"#);
        let (method, path) = match number {
            0 => ("POST", maps.to_owned()),
            _ => ("PUT", format!("{maps}/m")),
        };
        assert!(send(method, &path, map).await < 300);
        // A watch that is read gets each event promptly.
        let frame = heard.frame().await.unwrap().unwrap();
        let text = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        assert!(text.contains(&format!("\"d\":\"{number}x")), "{number}");
        is_alive(address, number).await;
    }
    let grown = resident().saturating_sub(before) >> 20;
    assert!(grown < 250, "{grown} MB");
    drop(deaf);
}

/// Occasionally checks that other clients are served.
#[cfg(target_os = "linux")]
async fn is_alive(address: SocketAddr, number: u32) {
    if number.is_multiple_of(100) {
        is_served(address).await;
    }
}
