//! `loadgen serve` with outputs that are pipes without a reader: requests are still answered, and
//! signals end it.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use podstorm_tests::command::send;
use serde_json::Value;
use tempfile::TempDir;

use super::serve::{Serving, until};
use super::{folder, json_in, read};

/// A number of requests whose log is several times larger than all pipes and buffers.
const REQUESTS: usize = 20_000;
const FEWER: usize = 8_000;
/// Requests that are sent before their answers are read.
const AT_ONCE: usize = 100;

/// Starts a server whose standard error is the pipe `errors`. This process holds the pipe open, and
/// reads it only explicitly.
fn start(folder: &TempDir, line: &str) -> (Serving, fs::File) {
    let made = Command::new("mkfifo")
        .arg(folder.path().join("errors"))
        .status();
    assert!(made.is_ok_and(|status| status.success()), "mkfifo");
    // A process that opens both ends blocks on neither.
    let pipe = fs::File::options()
        .read(true)
        .write(true)
        .open(folder.path().join("errors"))
        .expect("a pipe opens");
    let shell = ["sh", "-c", "exec \"$@\" 2>errors", "sh"];
    (Serving::start_by(&shell, folder, line, false), pipe)
}

/// Sends requests over one connection and reads the answers.
fn ask_many(serving: &Serving, requests: usize) {
    let mut stream = TcpStream::connect(serving.address).expect("the server listens");
    let timeout = Some(Duration::from_secs(30));
    stream.set_read_timeout(timeout).expect("a valid timeout");
    let path = format!("/livez?{}", "x".repeat(500));
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    let (mut answered, mut some) = (0, [0; 1 << 16]);
    for _ in 0..requests / AT_ONCE {
        let sent = stream.write_all(request.repeat(AT_ONCE).as_bytes());
        sent.expect("the server reads");
        let wanted = answered + AT_ONCE;
        while answered < wanted {
            let read = match stream.read(&mut some) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                read => read.expect("answers come"),
            };
            assert!(read > 0, "it closes");
            // Each answer ends with the body `ok`, whose `k` occurs nowhere else.
            answered += some[..read].iter().filter(|byte| **byte == b'k').count();
        }
    }
}

/// Waits for the server's end, and kills it if it does not end.
#[track_caller]
fn ended(serving: &mut Serving) -> ExitStatus {
    let mut status = None;
    until(
        || {
            status = serving.child.try_wait().expect("a child process");
            status.is_some()
        },
        "the server does not end",
    );
    status.expect("just found")
}

/// Returns a number in `/metrics`.
fn metric(serving: &Serving, name: &str) -> u64 {
    let metrics = serving.get("/metrics");
    let line = metrics.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.split(' ').next_back());
    number
        .expect("the metric exists")
        .parse()
        .expect("a number")
}

#[test]
fn an_unread_log_blocks_neither_requests_nor_the_end() {
    let folder = folder();
    let (mut serving, _pipe) = start(&folder, "serve --listen :0 --log-requests");
    ask_many(&serving, REQUESTS);
    let dropped = metric(&serving, "podstorm_request_log_dropped_total");
    assert!(dropped > 0 && dropped < REQUESTS as u64, "{dropped}");
    send("TERM", &serving.child);
    assert!(ended(&mut serving).success());
}

#[test]
fn a_log_that_is_read_late_reports_what_it_lacks() {
    let folder = folder();
    let (mut serving, mut pipe) = start(&folder, "serve --listen :0 --log-requests");
    ask_many(&serving, FEWER);
    let dropped = metric(&serving, "podstorm_request_log_dropped_total");
    let reader = std::thread::spawn(move || {
        let (mut text, mut some) = (Vec::new(), [0; 1 << 16]);
        while !text.ends_with(b"\"last\" \"system:anonymous\"\n") {
            let read = pipe.read(&mut some).expect("lines come");
            text.extend_from_slice(&some[..read]);
        }
        String::from_utf8(text).expect("UTF-8 text")
    });
    let mut later = 0;
    until(
        || {
            later += 1;
            serving.ask("GET", "/livez", "user-agent: last\r\n", "");
            reader.is_finished()
        },
        "the log does not continue",
    );
    let text = reader.join().expect("the server reads");
    let told: Vec<u64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("warning: --log-requests: "))
        .map(|line| line.split(' ').next().expect("a word"))
        .map(|number| number.parse().expect("a number"))
        .collect();
    assert!(!told.is_empty() && told.len() < 10, "{told:?}");
    // Requests after the count was read may be missing too.
    let missing = told.iter().sum::<u64>();
    assert!(missing >= dropped, "{missing} of {dropped}");
    let logged = text.matches("GET /").count() as u64;
    let asked = FEWER as u64 + later + 1;
    assert!(
        logged + missing <= asked,
        "{logged} and {missing} of {asked}"
    );
    let logged = text.matches("GET /livez?").count() as u64;
    assert!(logged + missing >= FEWER as u64, "{logged} and {missing}");
    send("TERM", &serving.child);
    assert!(ended(&mut serving).success());
}

#[test]
fn an_unread_snapshot_blocks_no_request() {
    for signals in [["TERM", "INT"], ["HUP", "TERM"]] {
        let folder = folder();
        let made = Command::new("mkfifo")
            .arg(folder.path().join("snap"))
            .status();
        assert!(made.is_ok_and(|status| status.success()), "mkfifo");
        let line = "serve --listen :0 --snapshot snap";
        let mut serving = Serving::start(&folder, line, false);
        for _ in 0..3 {
            send("USR1", &serving.child);
            ask_many(&serving, 200);
        }
        send(signals[0], &serving.child);
        // The server no longer listens, and waits for a reader of its last snapshot.
        until(
            || TcpStream::connect(serving.address).is_err(),
            "the server still listens",
        );
        assert_eq!(serving.child.try_wait().expect("a child process"), None);
        send(signals[1], &serving.child);
        assert_eq!(ended(&mut serving).code(), Some(130), "{signals:?}");
    }
}

#[test]
fn repeated_hangups_still_write_the_last_snapshot() {
    let folder = folder();
    let line = "serve --listen :0 --nodes 7 --snapshot snap";
    let mut serving = Serving::start(&folder, line, false);
    let mut status = None;
    until(
        || {
            // As the shell and the system do when a terminal closes.
            send("HUP", &serving.child);
            status = serving.child.try_wait().expect("a child process");
            status.is_some()
        },
        "the server does not end",
    );
    assert!(status.is_some_and(|status| status.success()), "{status:?}");
    let items = json_in(&folder, "snap")["items"].take();
    let is_node = |item: &&Value| item["kind"] == "Node";
    let nodes = items.as_array().expect("a list").iter();
    assert_eq!(nodes.filter(is_node).count(), 7);
}

#[test]
fn a_snapshot_can_go_to_standard_output_and_descriptors() {
    for file in ["-", "/dev/stdout", "/dev/fd/3"] {
        let folder = folder();
        let line = format!("serve --listen :0 --snapshot {file} --kubeconfig config");
        // Standard output is a pipe only until this test has read the address.
        let shell = ["sh", "-c", "exec \"$@\" 3>snap", "sh"];
        let mut serving = Serving::start_by(&shell, &folder, &line, false);
        send("TERM", &serving.child);
        assert!(ended(&mut serving).success(), "{file}");
        let written = read(&folder, "snap");
        assert_eq!(written.contains("\"kind\":\"Node\""), file.ends_with('3'));
    }
}
