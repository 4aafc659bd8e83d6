//! The terminal output of `loadgen run`: the bar, the full-screen view, and colors. The terminal
//! must be restored however a run ends.
#![cfg(target_os = "linux")]

mod pty;

use std::fs;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use podstorm_loadgen::report::live::{About, LiveView};
use podstorm_loadgen::settings::Settings;
use podstorm_tests::command::{self, assert_refused, ended, run};
use pty::{Running, Terminal};
use tempfile::TempDir;

/// The escape sequences that enter the alternate screen and leave it.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// A run that would take hours of real time, and so ends by a signal.
const ENDLESS: &str = "run --scenario up-down --pods 1000 --kube-api-qps 1";

fn command(directory: &TempDir, line: &str) -> Command {
    let mut command = command::command(line);
    command.current_dir(directory);
    command
}

/// Starts an endless run on a terminal, with these flags.
fn endless(terminal: &mut Terminal, directory: &TempDir, flags: &str) -> Running {
    let mut command = command(directory, &format!("{ENDLESS} {flags}"));
    command.stdout(terminal.open());
    terminal.start(command)
}

/// Returns what was written after leaving the alternate screen, which must have been entered once.
#[track_caller]
fn after_the_view(text: &str) -> &str {
    assert_eq!(text.matches(ENTER).count(), 1, "{text:?}");
    assert_eq!(text.matches(LEAVE).count(), 1, "{text:?}");
    let (view, after) = text
        .split_once(LEAVE)
        .expect("the alternate screen is left");
    assert!(view.contains(ENTER), "{text:?}");
    let cursor = (view.matches("\u{1b}[?25l"), view.matches("\u{1b}[?25h"));
    assert!(cursor.0.count() > 0, "the cursor is hidden: {view:?}");
    assert!(cursor.1.count() > 0, "the cursor is shown again: {view:?}");
    after
}

/// Reports whether the text sets a foreground or background color.
fn has_colours(text: &str) -> bool {
    text.split("\u{1b}[").skip(1).any(|part| {
        let codes = part.split('m').next().unwrap_or_default();
        codes.split(';').any(|code| {
            let known = code.parse().unwrap_or(0);
            matches!(known, 30..=38 | 40..=48 | 90..=107)
        })
    })
}

#[test]
fn the_view_uses_the_screen_and_the_report_follows() {
    let directory = TempDir::new().expect("a directory");
    let mut terminal = Terminal::new(80, 24);
    let modes = terminal.modes();
    let mut command = command(
        &directory,
        "run --scenario up-down --tui --pods 5k --json result.json",
    );
    command.stdout(terminal.open());
    let running = terminal.start(command);
    assert_eq!(running.end().code(), Some(0));
    assert_eq!(terminal.modes(), modes);
    let text = terminal.into_text();
    let report = after_the_view(&text);
    assert!(
        report.starts_with("\u{1b}[1m\u{1b}[32mup-down: converged in "),
        "{report:?}"
    );
    assert!(report.contains("excess pods  0 created"), "{report:?}");
    assert!(directory.path().join("result.json").exists());
}

#[test]
fn the_view_fits_any_size_and_q_stops_the_run() {
    let directory = TempDir::new().expect("a directory");
    let mut terminal = Terminal::new(80, 24);
    let modes = terminal.modes();
    let running = endless(&mut terminal, &directory, "--tui --json result.json");
    let figures = [
        "phase 2 of 4",
        "scale to 100 %",
        "of 1,000 pods",
        "pod changes ",
    ];
    let more = ["queue ", "time left ", "API calls ", "q or Ctrl-C: stop"];
    terminal.wait_for(&[figures, more].concat(), 80, 24);
    assert_ne!(terminal.modes(), modes, "keys are not shown");
    terminal.resize(40, 10);
    let mut small = figures.to_vec();
    small.extend(["queue ", "time left ", "q or Ctrl-C: stop"]);
    // Everything drawn since the screen was cleared must fit on it.
    terminal.wait_for(&small, 40, 10);
    terminal.press("q");
    assert_eq!(running.end().code(), Some(130));
    assert_eq!(terminal.modes(), modes);
    let text = terminal.into_text();
    let report = after_the_view(&text);
    assert!(report.contains("up-down: interrupted after "), "{report:?}");
    let result = fs::read_to_string(directory.path().join("result.json")).expect("a result");
    let result: serde_json::Value = serde_json::from_str(&result).expect("JSON");
    assert_eq!(result["outcome"]["exit_code"], 130);
}

#[test]
fn a_signal_and_ctrl_c_stop_the_run_as_q_does() {
    let directory = TempDir::new().expect("a directory");
    for by_signal in [true, false] {
        let mut terminal = Terminal::new(100, 30);
        let modes = terminal.modes();
        let running = endless(&mut terminal, &directory, "--tui");
        terminal.wait_for(&["phase 2 of 4"], 100, 30);
        match by_signal {
            true => running.interrupt(),
            false => terminal.press("\u{3}"),
        }
        assert_eq!(running.end().code(), Some(130));
        assert_eq!(terminal.modes(), modes);
        let text = terminal.into_text();
        let report = after_the_view(&text);
        assert!(report.contains("up-down: interrupted after "), "{report:?}");
    }
}

#[test]
fn the_view_leaves_standard_output_free() {
    let directory = TempDir::new().expect("a directory");
    let mut terminal = Terminal::new(80, 24);
    let mut command = command(
        &directory,
        "run --scenario up-down --tui --pods 500 --json -",
    );
    command
        .stdin(terminal.open())
        .stdout(Stdio::piped())
        .stderr(terminal.open())
        .env("NO_COLOR", "1")
        .env("TERM", "xterm");
    let mut running = terminal.start_as_told(command);
    let mut output = running.0.stdout.take().expect("a pipe");
    let json = std::io::read_to_string(&mut output).expect("UTF-8 text");
    assert_eq!(running.end().code(), Some(0));
    let result: serde_json::Value = serde_json::from_str(&json).expect("only JSON");
    assert_eq!(result["scenario"], "up-down");
    let text = terminal.into_text();
    assert!(after_the_view(&text).starts_with("up-down: converged in "));
    assert!(!has_colours(&text), "{text:?}");
}

#[test]
fn a_second_interrupt_restores_the_screen_too() {
    let directory = TempDir::new().expect("a directory");
    let mut terminal = Terminal::new(80, 24);
    let modes = terminal.modes();
    let running = endless(&mut terminal, &directory, "--tui");
    terminal.wait_for(&["phase 2 of 4"], 80, 24);
    // The run may end before it reads the second key. Either way the terminal is restored.
    terminal.press("qq");
    assert_eq!(running.end().code(), Some(130));
    assert_eq!(terminal.modes(), modes);
    after_the_view(&terminal.into_text());
}

#[test]
fn the_screen_is_restored_before_a_panic_message() {
    const CHILD: &str = "PODSTORM_TEST_PANICS_UNDER_THE_VIEW";
    if std::env::var_os(CHILD).is_some() {
        let settings = Settings::of_flags("", 1).expect("the defaults agree");
        let about = About::new(&settings, Vec::new());
        let _view = LiveView::start(about, Arc::default(), || {}).expect("a terminal");
        panic!("a panic during the view");
    }
    let mut terminal = Terminal::new(80, 24);
    let modes = terminal.modes();
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command
        .args([
            "--exact",
            "live_view::the_screen_is_restored_before_a_panic_message",
        ])
        .arg("--nocapture")
        .env(CHILD, "1")
        .stdout(terminal.open());
    let running = terminal.start(command);
    assert_eq!(running.end().code(), Some(101));
    assert_eq!(terminal.modes(), modes);
    let text = terminal.into_text();
    assert!(
        after_the_view(&text).contains("a panic during the view"),
        "{text:?}"
    );
}

#[test]
fn a_bar_is_drawn_on_a_terminal() {
    let directory = TempDir::new().expect("a directory");
    let mut terminal = Terminal::new(120, 30);
    let running = endless(&mut terminal, &directory, "");
    for words in [
        "[2/4] scale to 100 % [",
        " of 1,000 pods",
        "/s",
        "queue ",
        "ETA ",
    ] {
        terminal.wait_until(words, |bytes| {
            String::from_utf8_lossy(bytes).contains(words)
        });
    }
    running.interrupt();
    assert_eq!(running.end().code(), Some(130));
    let text = terminal.into_text();
    assert!(!text.contains(ENTER), "{text:?}");
    assert!(text.contains("interrupted: stopping"), "{text:?}");
    assert!(text.contains("up-down: interrupted after "), "{text:?}");
}

#[test]
fn the_report_has_colors_only_on_a_terminal() {
    let directory = TempDir::new().expect("a directory");
    for (no_color, term, redirected, coloured) in [
        ("", "xterm", false, true),
        ("1", "xterm", false, false),
        ("", "dumb", false, false),
        ("", "xterm", true, false),
    ] {
        let mut terminal = Terminal::new(120, 50);
        let mut command = command(&directory, "run --scenario up-down --pods 100");
        command
            .stdin(terminal.open())
            .stderr(terminal.open())
            .env("NO_COLOR", no_color)
            .env("TERM", term);
        match redirected {
            true => command.stdout(Stdio::piped()),
            false => command.stdout(terminal.open()),
        };
        let mut running = terminal.start_as_told(command);
        let piped = running.0.stdout.take();
        let piped = piped.map(|output| std::io::read_to_string(output).expect("UTF-8 text"));
        assert_eq!(running.end().code(), Some(0));
        let on_terminal = terminal.into_text();
        let text = piped.unwrap_or(on_terminal);
        assert!(text.contains("up-down: converged in "), "{text:?}");
        assert_eq!(has_colours(&text), coloured, "{text:?}");
    }
}

#[test]
fn an_invisible_view_is_refused() {
    // The commands of tests have no terminal.
    assert_refused(
        &run("run --scenario up-down --tui"),
        "--tui | not a terminal | leave",
    );
    assert_refused(
        &run("run --scenario up-down --tui -q"),
        "--tui | --quiet | use only one",
    );
    let mut terminal = Terminal::new(80, 24);
    let mut command = command::command("run --scenario up-down --tui");
    command
        .env("TERM", "dumb")
        .stdout(Stdio::null())
        .stderr(terminal.open());
    let status = terminal.start_as_told(command).end();
    let output = Output {
        status,
        stdout: Vec::new(),
        stderr: terminal.into_text().into_bytes(),
    };
    assert_refused(&output, "--tui | TERM=dumb | leave");
    // A run that only prints its scenario needs no terminal.
    ended(&run("run --scenario up-down --tui --print-scenario"), 0);
}
