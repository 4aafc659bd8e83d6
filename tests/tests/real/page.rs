//! The page of `loadgen run --report` in a real browser: no errors in the console, and every chart
//! drawn.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use podstorm_tests::command::{ended, run_in};
use serde_json::json;
use tempfile::TempDir;

use crate::browser::{Page, browser};

fn open(browser: &Path, page: &Path, profile: &Path, arguments: &[&str]) -> Output {
    Command::new(browser)
        .args(["--headless", "--disable-gpu", "--no-first-run"])
        .arg("--disable-background-networking")
        // Restrictions of a container; the page is our own.
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
fn the_page_is_drawn_without_errors_in_the_console() {
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
        let line = "run --scenario up-down --engine virtual --quiet --report page.html --pods 600";
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
        // The number of desired pods changes rarely, everything else often. The last run creates
        // few pods.
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
        // Without latencies nothing takes time; the run that hits its time limit has two values.
        assert!(bars >= [5, 0, 2][number], "{number}: {bars} bars");
    }
}

/// Returns the elements that extend past the right edge of the page or of a box that does not
/// scroll. A scrolling box must reach the last column of its table.
const WIDE: &str = "(() => {
    const width = document.documentElement.clientWidth;
    const shown = (part) => part.outerHTML.slice(0, 80);
    const scrolls = (part) => ['auto', 'scroll'].includes(getComputedStyle(part).overflowX);
    const boxOf = (part) => { while (part && !scrolls(part)) part = part.parentElement; return part; };
    const wide = [];
    for (const cell of document.querySelectorAll('td')) {
        const text = document.createRange();
        text.selectNodeContents(cell);
        if (/^[0-9,.]+$/.test(cell.textContent) && text.getClientRects().length > 1) wide.push(shown(cell));
    }
    for (const part of document.querySelectorAll('body, body *')) {
        if (part.closest('svg') || getComputedStyle(part).position === 'absolute') continue;
        const box = boxOf(part);
        if (part.getBoundingClientRect().right <= width + 0.5) continue;
        if (!box || box === part) wide.push(shown(part));
    }
    for (const table of document.querySelectorAll('table')) {
        const box = boxOf(table);
        const right = () => table.getBoundingClientRect().right;
        if (box) box.scrollLeft = box.scrollWidth;
        const edge = box ? box.getBoundingClientRect().right : width;
        if (right() > edge + 0.5) wide.push(shown(table));
        if (box) box.scrollLeft = 0;
    }
    if (document.documentElement.scrollWidth > width) wide.push('the page scrolls sideways');
    return wide;
})()";

#[test]
#[ignore = "needs a browser: cargo real"]
fn no_table_is_cut_off_on_a_laptop_or_a_phone() {
    let folder = TempDir::new().unwrap();
    let long = "20 % of the pods of every ReplicaSet are deleted, and the events of their deletions are lost";
    let steps = "- createNamespaces\n  - createNodes\n  - createReplicaSets: {replicas: 100%}\n";
    let scenario = format!(
        "name: long-names\nquestion: Q?\nsuccess: S.\nphases:\n- name: {long}\n  steps:\n  {steps}\
         - name: {long} again\n  steps:\n  - scale: {{replicas: 50%}}\n"
    );
    std::fs::write(folder.path().join("long.yaml"), scenario).unwrap();
    let run = "run --engine virtual --quiet --api-latency 2ms --upstream-defaults";
    for (number, more) in [
        (1, "--pods 600 --scenario long.yaml"),
        (2, "--pods 900 --scenario rollout-storm --deployments"),
    ] {
        let files = format!("--report run{number}.html --json run{number}.json");
        ended(&run_in(&folder, &format!("{run} {more} {files}")), 0);
    }
    let compare = "compare run1.json run2.json --force --report compare.html";
    let compared = run_in(&folder, compare);
    assert!(compared.status.code().is_some_and(|code| code < 2));
    let sweep = "sweep --engine virtual --quiet --pods 200 --vary concurrent-replicaset-syncs=1,2,5 \
                 --vary api-latency=1ms,5ms --seeds 2 --report sweep.html";
    ended(&run_in(&folder, sweep), 0);
    let mut page = Page::new();
    for name in ["run1.html", "run2.html", "compare.html", "sweep.html"] {
        page.go(&format!("file://{}", folder.path().join(name).display()));
        for width in [1280, 400] {
            page.resize(width, 900);
            // Collapsed parts are expanded first.
            page.value(
                "document.querySelectorAll('details').forEach((part) => { part.open = true; })",
            );
            assert_eq!(page.value(WIDE), json!([]), "{name} at {width}");
            // All columns of a run must be visible. Those of other pages are reachable by
            // scrolling.
            if name.starts_with("run") {
                let cut = "[...document.querySelectorAll('.scroll')].filter((box) => \
                           box.scrollWidth > box.clientWidth).map((box) => box.outerHTML.slice(0, 200))";
                assert_eq!(page.value(cut), json!([]), "{name} at {width}");
            }
        }
    }
}
