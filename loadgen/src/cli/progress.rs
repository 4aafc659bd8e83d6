//! Progress of a command that has many parts: a progress bar on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use podstorm_sim::clock::RealClock;

/// Writes progress to standard error; errors are ignored.
#[derive(Debug)]
pub(super) struct Teller {
    /// The progress bar; `None` without a terminal and with `--quiet`.
    bar: Option<ProgressBar>,
    /// The plain lines; `None` on a terminal and with `--quiet`.
    lines: Option<Lines>,
}

#[derive(Debug)]
struct Lines {
    clock: RealClock,
    seconds_per_line: f64,
    next_at: Mutex<f64>,
}

impl Teller {
    /// Creates a writer for this number of parts; `None` if the number is unknown. The bar uses
    /// `template`, in which `{msg}` is the text of [`Teller::tell`]. Plain output begins with the
    /// line `first`.
    pub(super) fn new(
        quiet: bool,
        template: &str,
        parts: Option<u64>,
        first: &str,
        seconds_per_line: f64,
    ) -> Teller {
        let is_terminal = io::stderr().is_terminal();
        let bar = (!quiet && is_terminal).then(|| {
            let style = ProgressStyle::with_template(template)
                .expect("the template is valid")
                .progress_chars("=> ");
            let bar = parts.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
            bar.enable_steady_tick(Duration::from_millis(250));
            bar.with_style(style)
        });
        let lines = (!quiet && !is_terminal).then(|| {
            let _ = writeln!(io::stderr(), "{first}");
            Lines {
                clock: RealClock::start(),
                seconds_per_line,
                next_at: Mutex::new(seconds_per_line),
            }
        });
        Teller { bar, lines }
    }

    /// Reports that `done` parts are done. The text states the number, too.
    pub(super) fn tell(&self, done: u64, text: String) {
        if let Some(lines) = &self.lines {
            let now = lines.clock.seconds();
            let mut next_at = lines
                .next_at
                .lock()
                .expect("nothing panics while the lock is held");
            if now >= *next_at {
                *next_at = now + lines.seconds_per_line;
                let _ = writeln!(io::stderr(), "{text}, {now:.0} s");
            }
        }
        if let Some(bar) = &self.bar {
            bar.set_position(done);
            bar.set_message(text);
        }
    }

    /// Shows the current activity on the terminal's line; an empty string clears the line.
    #[cfg(feature = "faultsim")]
    pub(super) fn say(&self, text: &str) {
        if self.bar.is_some() {
            let _ = write!(io::stderr(), "\r\x1b[K{text}");
        }
    }

    /// Removes the bar, so that it does not mix with the output.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
