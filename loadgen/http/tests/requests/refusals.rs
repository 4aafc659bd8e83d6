//! Requests that every server refuses, and those that a server short of memory refuses.

use std::time::Duration;

use podstorm_http::Memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

#[tokio::test]
async fn connect_is_not_allowed() {
    let address = on_socket(builder().build(), None).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let connect = b"CONNECT localhost:443 HTTP/1.1\r\nhost: localhost:443\r\n\r\n";
    stream.write_all(connect).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = String::new();
    let read = stream.read_to_string(&mut back);
    let read = tokio::time::timeout(Duration::from_secs(60), read).await;
    read.expect("the connection ends").unwrap();
    assert!(back.starts_with("HTTP/1.1 405"), "{back}");
    assert!(back.contains(r#""kind":"Status""#), "{back}");
}

#[tokio::test]
async fn a_server_short_of_memory_refuses_new_work() {
    let memory = Arc::new(Memory::default());
    let server = with_namespace(builder().memory(Arc::clone(&memory)), "n").await;
    let maps = "/api/v1/namespaces/n/configmaps";
    let map = json!({"metadata": {"name": "m"}});
    assert_eq!(send(&server, "POST", maps, &map).await.status(), 201);
    memory.set(900 << 20, 800 << 20);
    let named = format!("{maps}/m");
    let watch = format!("{maps}?watch=1");
    let fault = json!({"effect": "end-watch"});
    for (method, path, body) in [
        ("POST", maps, &map),
        ("PUT", &named, &map),
        ("PATCH", &named, &map),
        ("GET", maps, &Value::Null),
        ("GET", &watch, &Value::Null),
        ("GET", "/podstorm/live", &Value::Null),
        ("POST", "/podstorm/faults", &fault),
    ] {
        let refused = send(&server, method, path, body).await;
        assert_eq!(refused.status(), 503, "{method} {path}");
        assert_eq!(refused.headers()["retry-after"], "1");
        let message = json(refused).await["message"].to_string();
        let told = ["memory", "900 MiB of at most 800 MiB", "--memory-limit"];
        assert!(told.iter().all(|told| message.contains(told)), "{message}");
    }
    for path in [
        &named,
        "/livez",
        "/readyz",
        "/version",
        "/metrics",
        "/podstorm/faults",
    ] {
        assert_eq!(
            send(&server, "GET", path, &Value::Null).await.status(),
            200,
            "{path}"
        );
    }
    assert_eq!(
        send(&server, "DELETE", &named, &Value::Null).await.status(),
        200
    );
    assert_eq!(
        send(&server, "DELETE", maps, &Value::Null).await.status(),
        200
    );
    memory.set(700 << 20, 800 << 20);
    assert_eq!(send(&server, "POST", maps, &map).await.status(), 201);
}
