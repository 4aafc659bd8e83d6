//! Limits on the memory that clients can make a server hold, measured as this process's bytes with
//! generous margins. The tests run one at a time.

#![cfg(target_os = "linux")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use podstorm_apiserver::{Cluster, ClusterOptions, History};
use podstorm_http::{ApiServer, listen};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Mutex;

/// Held while a test measures the memory of the process.
static LOOKING: Mutex<()> = Mutex::const_new(());

const MB: usize = 1 << 20;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Returns the resident memory of this process in bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux has /proc");
    let pages = statm
        .split(' ')
        .nth(1)
        .and_then(|it| it.parse::<usize>().ok());
    pages.expect("the second number") * 4096
}

/// Returns the address of a server that keeps up to `max_bytes` of events per kind, and a client's
/// connection.
async fn served(max_bytes: usize) -> (SocketAddr, Client) {
    let cluster = Cluster::new(ClusterOptions {
        history: History {
            max_bytes,
            ..History::SERVED
        },
        keeps_past: true,
        ..ClusterOptions::default()
    });
    let server = ApiServer::builder(Arc::new(cluster)).build();
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("the listener is bound");
    tokio::spawn(listen::serve(server, listener, std::future::pending()));
    let mut client = Client(
        TcpStream::connect(address)
            .await
            .expect("the server listens"),
    );
    let namespace = json!({"metadata": {"name": "default"}});
    client
        .send("POST", "/api/v1/namespaces", &namespace, 201)
        .await;
    (address, client)
}

struct Client(TcpStream);

impl Client {
    /// Sends a request and returns its answer.
    async fn send(&mut self, method: &str, path: &str, body: &Value, code: u16) -> String {
        let body = body.to_string();
        let kind = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\ncontent-type: {kind}\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        self.0.write_all(head.as_bytes()).await.expect("open");
        self.0.write_all(body.as_bytes()).await.expect("open");
        let (mut answer, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
        loop {
            let read = self.0.read(&mut chunk).await.expect("an answer");
            assert!(read > 0, "the server closed the connection");
            answer.extend_from_slice(&chunk[..read]);
            let head = String::from_utf8_lossy(&answer[..answer.len().min(4096)]);
            let Some((head, _)) = head.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length
                .expect("the answer is not chunked")
                .parse()
                .expect("a number");
            if answer.len() >= head.len() + 4 + length {
                let text = String::from_utf8(answer).expect("text");
                assert!(
                    text.starts_with(&format!("HTTP/1.1 {code}")),
                    "{}",
                    &text[..text.len().min(900)]
                );
                return text;
            }
        }
    }
}

/// Opens a watch that is never read.
async fn unread_watch(address: SocketAddr, path: &str) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.set_recv_buffer_size(4096).expect("a small buffer");
    let mut stream = socket.connect(address).await.expect("the server listens");
    let head = format!("GET {path}?watch=true HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(head.as_bytes()).await.expect("open");
    stream
}

fn map(name: &str, number: usize, bytes: usize) -> Value {
    let text = format!("{number}{}", "x".repeat(bytes));
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": text}})
}

#[tokio::test]
async fn an_unread_watch_holds_no_more_than_the_history() {
    let _alone = LOOKING.lock().await;
    let (address, mut client) = served(4 * MB).await;
    client.send("POST", MAPS, &map("a", 0, 200_000), 201).await;
    let mut watch = unread_watch(address, MAPS).await;
    let path = format!("{MAPS}/a");
    let before = resident();
    for number in 0..250 {
        let map = map("a", number, 200_000);
        client.send("PUT", &path, &map, 200).await;
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 25 * MB, "{} MB of 50 MB are held", grown / MB);
    // The watch ends with an error, because the events that it has not read are gone.
    let (mut read, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
    let error = br#"{"type":"ERROR","object":{"#;
    while !read.windows(error.len()).any(|text| text == error) {
        let more = tokio::time::timeout(Duration::from_secs(20), watch.read(&mut chunk)).await;
        let more = more
            .expect("the stream continues")
            .expect("an open connection");
        assert!(more > 0, "the watch ended without an error");
        let keep = read.len().saturating_sub(error.len());
        read.drain(..keep);
        read.extend_from_slice(&chunk[..more]);
    }
    let end = String::from_utf8_lossy(&read);
    assert!(end.contains(r#""code":410"#), "{end}");
}

#[tokio::test]
async fn unread_watches_share_their_lines() {
    let _alone = LOOKING.lock().await;
    let (address, mut client) = served(64 * MB).await;
    for number in 0..50 {
        let map = map(&format!("a{number}"), number, 20_000);
        client.send("POST", MAPS, &map, 201).await;
    }
    let mut open = Vec::new();
    let mut watch = async |watches: usize| {
        for _ in 0..watches {
            open.push(unread_watch(address, MAPS).await);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    };
    watch(10).await;
    let before = resident();
    watch(500).await;
    let grown = resident().saturating_sub(before);
    // Without sharing, each would hold some 300 kB of lines: 150 MB.
    assert!(grown < 50 * MB, "{} MB", grown / MB);
    // They also share later events if all of them get these.
    for number in 0..20 {
        let map = map(&format!("b{number}"), number, 20_000);
        client.send("POST", MAPS, &map, 201).await;
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 60 * MB, "{} MB", grown / MB);
    // A watch that is read gets complete lines.
    let mut reader = TcpStream::connect(address)
        .await
        .expect("the server listens");
    let head = format!("GET {MAPS}?watch=true HTTP/1.1\r\nhost: localhost\r\n\r\n");
    reader.write_all(head.as_bytes()).await.expect("open");
    let (mut text, mut chunk) = (Vec::new(), vec![0; 64 << 10]);
    while text.len() < 70 * 20_100 {
        let read = reader.read(&mut chunk).await.expect("events");
        assert!(read > 0, "it ends");
        text.extend_from_slice(&chunk[..read]);
    }
    let added = String::from_utf8_lossy(&text)
        .matches(r#"{"type":"ADDED","object":{"#)
        .count();
    assert_eq!(added, 70);
}

#[tokio::test]
async fn a_body_costs_its_bytes_however_it_is_chunked() {
    const BYTES: usize = 300_000;
    let _alone = LOOKING.lock().await;
    let (address, _client) = served(MB).await;
    let before = resident();
    let mut open = Vec::new();
    let chunks = "1\r\nx\r\n".repeat(BYTES);
    for _ in 0..5 {
        let mut stream = TcpStream::connect(address)
            .await
            .expect("the server listens");
        let head = format!(
            "POST {MAPS} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).await.expect("open");
        stream.write_all(chunks.as_bytes()).await.expect("open");
        open.push(stream);
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    // As a list of chunks, each body would take some 13 MB.
    let grown = resident().saturating_sub(before + chunks.len());
    assert!(grown < 20 * MB, "{} MB", grown / MB);
}

#[tokio::test]
async fn a_changed_definition_frees_the_old_one() {
    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let _alone = LOOKING.lock().await;
    let (_address, mut client) = served(2 * MB).await;
    let definition = |number: usize| {
        let schema =
            json!({"type": "object", "description": format!("{number}{}", "x".repeat(300_000))});
        json!({"metadata": {"name": "things.example.com"}, "spec": {
            "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
    };
    client.send("POST", DEFINITIONS, &definition(0), 201).await;
    let path = format!("{DEFINITIONS}/things.example.com");
    let mut change = async |numbers: std::ops::Range<usize>| {
        for number in numbers {
            client.send("PATCH", &path, &definition(number), 200).await;
        }
    };
    change(1..11).await;
    let before = resident();
    change(11..111).await;
    let grown = resident().saturating_sub(before);
    // If each definition were held three times over, it would be 100 MB.
    assert!(grown < 25 * MB, "{} MB", grown / MB);
}
