//! Thousands of connections to `loadgen serve`, from another process.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use podstorm_tests::command::send;

use super::folder;
use super::serve::{Serving, until};

/// The number of open watches, and of connections without a request.
const WATCHES: usize = 5_000;
const SILENT: usize = 1_000;
/// File descriptors of each process, with some to spare for concurrent tests.
const DESCRIPTORS: u64 = 8_000;
/// Maximum memory of the server per connection in bytes.
const MEMORY: usize = 64 << 10;

#[test]
fn thousands_of_clients_are_served_and_cleaned_up() {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit on file descriptors");
    assert!(
        hard >= DESCRIPTORS,
        "{hard} open files at most: raise the limit (ulimit -Hn) to {DESCRIPTORS}"
    );
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)
        .expect("a process may raise its limit to the hard limit");
    let folder = folder();
    // As from a shell with a low soft limit, which the server raises.
    let few = "ulimit -S -n 256 && exec \"$0\" \"$@\"";
    let line = "serve --listen 127.0.0.1:0";
    let mut serving = Serving::start_by(&["sh", "-c", few], &folder, line, false);
    let before = resident(&serving);

    let silent: Vec<TcpStream> = (0..SILENT).map(|_| connect(&serving)).collect();
    let mut watches: Vec<TcpStream> = (0..WATCHES).map(|_| connect(&serving)).collect();
    let watch = "GET /api/v1/namespaces/default/pods?watch=true&resourceVersion=0 HTTP/1.1\r\n\
                 host: localhost\r\n\r\n";
    for stream in &mut watches {
        stream
            .write_all(watch.as_bytes())
            .expect("the server reads");
    }
    for stream in &mut watches {
        reads(stream, "\r\n\r\n");
    }
    assert_eq!(open_watches(&serving), WATCHES);
    let pod = "{\"metadata\":{\"name\":\"told\"},\"spec\":{\"containers\":[{\"name\":\"c\",\
               \"image\":\"i\"}]}}";
    let path = "/api/v1/namespaces/default/pods";
    let created = serving.ask("POST", path, "content-type: application/json\r\n", pod);
    assert!(created.starts_with("HTTP/1.1 201"), "{created}");
    for stream in &mut watches {
        reads(stream, "\"name\":\"told\"");
    }
    let grown = resident(&serving).saturating_sub(before);
    let most = MEMORY * (WATCHES + SILENT);
    assert!(grown < most, "grown by {grown} B, more than {most} B");

    drop((watches, silent));
    until(
        || open_watches(&serving) == 0,
        "watches of disconnected clients remain",
    );
    send("TERM", &serving.child);
    assert!(serving.child.wait().expect("an exit status").success());
}

fn connect(serving: &Serving) -> TcpStream {
    let stream = TcpStream::connect(serving.address).expect("the server listens");
    let timeout = Some(Duration::from_secs(60));
    stream.set_read_timeout(timeout).expect("a valid timeout");
    stream
}

/// Reads until the text has arrived.
#[track_caller]
fn reads(stream: &mut TcpStream, wanted: &str) {
    let mut all = Vec::new();
    let mut some = [0; 4096];
    while !String::from_utf8_lossy(&all).contains(wanted) {
        let read = stream.read(&mut some).expect("data within a minute");
        assert!(read > 0, "closed before {wanted:?}");
        all.extend_from_slice(&some[..read]);
    }
}

/// Returns the server's number of open watches of pods. The controllers in its process are not
/// counted, as they don't use HTTP.
fn open_watches(serving: &Serving) -> usize {
    let metrics = serving.get("/metrics");
    let of_pods = |line: &&str| {
        line.starts_with("apiserver_longrunning_requests{") && line.contains("resource=\"pods\"")
    };
    let line = metrics.lines().find(of_pods);
    let number = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    number.unwrap_or(0)
}

/// Returns the server's resident memory in bytes.
fn resident(serving: &Serving) -> usize {
    let status = format!("/proc/{}/status", serving.child.id());
    let status = fs::read_to_string(status).expect("a running process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<usize>().ok());
    kib.expect("a number of kB") << 10
}
