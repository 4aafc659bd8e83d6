//! A third-party client: `wrk`.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::Programs;
use crate::client::Taken;
use crate::server::Server;

/// Runs `wrk` against a path for `seconds` seconds, on 32 connections. The requests post the body
/// if one is given. Returns the requests per second and the server's CPU time per request.
///
/// # Errors
/// Fails if `wrk` is missing, or if more than one answer in a thousand is not a success.
pub(crate) fn run(
    programs: &Programs<'_>,
    server: &Server,
    path: &str,
    body: Option<&str>,
    seconds: u32,
) -> anyhow::Result<String> {
    let script = programs.folder.join("wrk.lua");
    let mut lua = String::from("wrk.headers[\"Content-Type\"] = \"application/json\"\n");
    if let Some(token) = server.token {
        lua.push_str(&format!(
            "wrk.headers[\"Authorization\"] = \"Bearer {token}\"\n"
        ));
    }
    if let Some(body) = body {
        lua.push_str(&format!(
            "wrk.method = \"POST\"\nwrk.body = [==[{body}]==]\n"
        ));
    }
    fs::write(&script, lua)?;
    let scheme = if server.tls.is_some() {
        "https"
    } else {
        "http"
    };
    let before = server.cpu();
    let output = Command::new("wrk")
        .args(["-t2", "-c32", "-d", &seconds.to_string(), "-s"])
        .arg(&script)
        .arg(format!("{scheme}://{}{path}", server.address))
        .output()
        .context("cannot run wrk; install the package wrk")?;
    let after = server.cpu();
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "wrk: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let word = |label: &str, at: usize| -> Option<f64> {
        let line = text.lines().find(|line| line.contains(label))?;
        line.split_ascii_whitespace().nth(at)?.parse().ok()
    };
    let rate = word("Requests/sec:", 1).filter(|rate| *rate > 0.0);
    let rate = rate.context("wrk reports no rate")?;
    let requests = word(" requests in ", 0).context("wrk reports no requests")?;
    // Two pods may get the same name, which the real server answers with a conflict.
    let refused = word("Non-2xx", 4).unwrap_or(0.0);
    ensure!(refused * 1000.0 <= requests, "wrk: {text}");
    let taken = Taken {
        requests: requests as u64,
        wall: Duration::from_secs_f64(requests / rate),
        cpu: [after[0] - before[0], after[1] - before[1]],
    };
    Ok(taken.text(server))
}
