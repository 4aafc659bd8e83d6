//! Colours for the terminal report.

use std::io::IsTerminal;

const BOLD: &str = "\u{1b}[1m";
const GREEN: &str = "\u{1b}[32m";
const RED: &str = "\u{1b}[31m";
const YELLOW: &str = "\u{1b}[33m";
const PLAIN: &str = "\u{1b}[0m";

/// Reports whether output to this stream should be coloured: it is a terminal that supports
/// colours, and `NO_COLOR` is not set (no-color.org).
pub fn is_wanted(stream: &impl IsTerminal) -> bool {
    let off = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    stream.is_terminal() && !off && !dumb
}

/// Colours the report of a run with this exit code: the verdict, and values that deserve attention.
/// Does not change the text.
pub fn coloured(report: &str, exit_code: u8) -> String {
    let verdict = if exit_code == 0 { GREEN } else { RED };
    let mut text = String::with_capacity(report.len() + 64);
    for (number, line) in report.lines().enumerate() {
        let word = line.trim_start();
        let nothing_in_excess = word.ends_with(" 0 created");
        let colours: &[&str] = match number {
            0 => &[BOLD, verdict],
            _ if word.starts_with("broken: ") => &[RED],
            _ if word.starts_with("excess pods") && !nothing_in_excess => &[YELLOW],
            _ if word.starts_with("note  ") || line.ends_with("not done") => &[YELLOW],
            _ => &[],
        };
        colours.iter().for_each(|colour| text.push_str(colour));
        text.push_str(line);
        if !colours.is_empty() {
            text.push_str(PLAIN);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colouring_adds_nothing_but_colours() {
        let report = "up-down: FAILED after 1 s\n\n  phase one    1 s  not done\n  \
                      excess pods  0 created\n  broken: x\n";
        let text = coloured(report, 3);
        let head = "\u{1b}[1m\u{1b}[31mup-down: FAILED";
        assert!(text.starts_with(head), "{text:?}");
        assert!(!text.contains("\u{1b}[33m  excess"), "{text:?}");
        assert_eq!(text.matches(PLAIN).count(), 3, "{text:?}");
        let mut plain = text.clone();
        for colour in [BOLD, GREEN, RED, YELLOW, PLAIN] {
            plain = plain.replace(colour, "");
        }
        assert_eq!(plain, report);
    }
}
