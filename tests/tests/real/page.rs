//! The page of `loadgen run --report` in a real browser: no error in its console, every chart drawn.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use podstorm_tests::command::{ended, run_in};
use tempfile::TempDir;

use crate::browser::browser;

fn open(browser: &Path, page: &Path, profile: &Path, arguments: &[&str]) -> Output {
    Command::new(browser)
        .args(["--headless", "--disable-gpu", "--no-first-run"])
        .arg("--disable-background-networking")
        // What a container has no room for; the page is our own.
        .args(["--no-sandbox", "--disable-dev-shm-usage"])
        .args(["--enable-logging=stderr", "--v=0"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .output()
        .expect("the browser starts")
}

#[test]
#[ignore = "needs a browser: cargo real"]
fn the_page_is_drawn_and_its_console_is_silent() {
    let browser = browser();
    let directory = TempDir::new().unwrap();
    for (number, (flags, code)) in [
        ("--api-latency 2ms --pod-startup-latency p50=1s,p99=4s", 0),
        ("", 0),
        ("--api-latency 1s --time-limit 3s", 1),
    ]
    .into_iter()
    .enumerate()
    {
        let line = "run --engine virtual --quiet --report page.html --pods 600";
        ended(&run_in(&directory, &format!("{line} {flags}")), code);
        let page = directory.path().join("page.html");
        let profile = directory.path().join("profile");
        let seen = open(&browser, &page, &profile, &["--dump-dom"]);
        let (dom, log) = (
            String::from_utf8_lossy(&seen.stdout),
            String::from_utf8_lossy(&seen.stderr),
        );
        let console: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("CONSOLE"))
            .collect();
        assert_eq!(console, [""; 0], "{flags}");
        let points = |path: &str| {
            let commands = path.split('"').next().unwrap_or_default();
            commands.matches(['H', 'V']).count()
        };
        let lines: Vec<usize> = dom
            .split("<path class=\"line ")
            .skip(1)
            .map(|path| points(path.split("d=\"").nth(1).unwrap_or_default()))
            .collect();
        assert!(lines.len() >= 6, "{flags}: {lines:?}");
        // Desired pods change few times, everything else often; the last run creates few pods.
        let busy = lines.iter().filter(|points| **points > 20).count();
        assert!(
            lines.iter().all(|points| *points >= 1),
            "{number}: {lines:?}"
        );
        assert!(
            busy >= if number == 2 { 1 } else { 3 },
            "{number}: {lines:?}"
        );
        let bars = dom.matches("<rect class=\"bar\"").count();
        // Without latencies all takes no time; the run that is cut off has two values.
        assert!(bars >= [5, 0, 2][number], "{number}: {bars} bars");
    }
}
