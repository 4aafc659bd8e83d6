//! Foreign pages in the user's browser against a `loadgen serve` without credentials: they change
//! nothing and read nothing, neither from another port nor under a name that resolves to the
//! server.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::browser::Page;
use crate::served::Server;

const PODS: &str = "/api/v1/namespaces/default/pods";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

/// Returns the answer to a request of a client other than a browser.
fn ask(address: &str, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream
        .write_all(request.as_bytes())
        .expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// Serves an empty page during the test, and returns its port. Each connection has its own thread,
/// because a browser opens spare connections and leaves them idle while it uses another.
fn page_of_others() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = listener.local_addr().expect("the listener is bound").port();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.expect("a connection");
            thread::spawn(move || {
                let _request = stream.read(&mut [0; 4096]);
                let _gone = stream.write_all(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\nconnection: close\r\n\r\n<html></html>",
                );
            });
        }
    });
    port
}

/// Returns the requests with which a page attacks a server: without permission (`no-cors`), with an
/// attempt to read the answer, and with a form. The value of the expression is everything that the
/// page could read.
fn attack(server: &str) -> String {
    let pod = json!({"metadata": {"name": "planted"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let fault = json!({"effect": "refuse", "code": 500, "times": "always"});
    let posts = json!([
        [PODS, pod],
        ["/podstorm/faults", fault],
        ["/podstorm/clock/advance", {"seconds": 300}],
    ]);
    format!(
        "(async () => {{
            const read = [];
            const send = async (path, options) => {{
                try {{
                    const answer = await fetch({server:?} + path, {{signal: AbortSignal.timeout(2000), ...options}});
                    // Browsers get pretty-printed JSON.
                    const text = (await answer.text()).replace(/\\s+/g, '');
                    read.push(path + ' ' + answer.type + ' ' + text);
                }} catch (error) {{}}
            }};
            for (const [path, body] of {posts}) {{
                const text = JSON.stringify(body);
                for (const kind of ['', 'text/plain']) {{
                    for (const mode of ['no-cors', 'cors']) {{
                        await send(path, {{method: 'POST', mode, body: new Blob([text], {{type: kind}})}});
                    }}
                }}
                const frame = document.body.appendChild(document.createElement('iframe'));
                frame.name = 'frame';
                const form = document.body.appendChild(document.createElement('form'));
                Object.assign(form, {{action: {server:?} + path, method: 'POST', enctype: 'text/plain', target: 'frame'}});
                const field = form.appendChild(document.createElement('input'));
                [field.name, field.value] = [text.slice(0, -1) + ', \"x\": \"', '\"}}'];
                const loaded = new Promise((done) => {{ frame.onload = done; }});
                form.submit();
                await Promise.race([loaded, new Promise((done) => setTimeout(done, 1000))]);
                frame.remove();
                form.remove();
            }}
            for (const path of [{SECRETS:?}, '/podstorm/live', '/']) {{
                await send(path, {{mode: 'no-cors'}});
                await send(path, {{}});
            }}
            return read.join('\\n');
        }})()"
    )
}

#[test]
#[ignore = "needs a browser: cargo real"]
fn foreign_pages_change_nothing_and_read_nothing() {
    let folder = TempDir::new().expect("a folder for temporary files");
    let server = Server::start(folder.path(), "127.0.0.1:0", &["--engine", "virtual"]);
    let address = server.address.as_str();
    let port = address.rsplit(':').next().expect("an address with a port");
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"key": "hidden"}});
    let made = ask(address, "POST", SECRETS, &secret.to_string());
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    let before = ask(address, "GET", "/podstorm/clock", "");
    let time = before.lines().last().expect("the time of the clock");

    let mut page = Page::with("--host-resolver-rules=MAP evil.example 127.0.0.1");
    let others = page_of_others();
    for (from, to) in [
        // Another port of the same host, and another host.
        (
            format!("http://127.0.0.1:{others}/"),
            format!("http://{address}"),
        ),
        (
            format!("http://localhost:{others}/"),
            format!("http://localhost:{port}"),
        ),
        (
            format!("http://evil.example:{others}/"),
            format!("http://{address}"),
        ),
        // A name that now resolves to the server.
        (format!("http://evil.example:{port}/"), String::new()),
    ] {
        page.go(&from);
        page.comes_to("document.readyState", |state| state == "complete");
        let read = page.value(&attack(&to));
        let read = read.as_str().expect("UTF-8 text");
        // The same origin to the browser, so the page can read the answers, which are refusals.
        let told: Vec<&str> = read.lines().filter(|line| !line.is_empty()).collect();
        assert!(!told.is_empty(), "{from}: no request was answered");
        for line in told {
            let opaque =
                line.split(' ').nth(1) == Some("opaque") && line.trim_end().ends_with("opaque");
            assert!(
                opaque || line.contains("\"code\":403") || line.contains("\"code\":415"),
                "{from}: {line}"
            );
        }
        assert!(!read.contains("aGlkZGVu"), "{from}: {read}");
    }

    let refused = ask(address, "GET", "/metrics", "");
    assert!(
        refused.contains("code=\"403\""),
        "the requests arrived: {refused}"
    );
    let pods = ask(address, "GET", PODS, "");
    assert!(pods.contains("\"items\":[]"), "{pods}");
    let faults = ask(address, "GET", "/podstorm/faults", "");
    assert!(!faults.contains("\"effect\""), "{faults}");
    let after = ask(address, "GET", "/podstorm/clock", "");
    assert_eq!(after.lines().last(), Some(time));

    // The server's own page works, also through a link from another page.
    page.go(&format!("http://localhost:{others}/"));
    page.value(&format!("location.href = 'http://localhost:{port}/'; 0"));
    page.comes_to_say("state", "live");
    page.comes_to_say("nodes", "3");
    let seen = page.value("fetch('/podstorm/clock').then((answer) => answer.json())");
    assert_eq!(seen["virtual"], Value::Bool(true));
}
