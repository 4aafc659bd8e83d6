//! How far a sweep is: a bar on a terminal, a plain line now and then elsewhere.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use podstorm_sim::clock::RealClock;

/// Seconds of real time between plain lines.
const SECONDS_PER_LINE: f64 = 5.0;

/// Tells on standard error. A reader that went away takes nothing from the sweep.
#[derive(Debug)]
pub(super) struct Teller {
    bar: Option<ProgressBar>,
    lines: Option<Lines>,
    total: usize,
}

#[derive(Debug)]
struct Lines {
    clock: RealClock,
    next_at: Mutex<f64>,
}

impl Teller {
    pub(super) fn new(quiet: bool, total: usize, threads: usize) -> Teller {
        let is_terminal = io::stderr().is_terminal();
        let bar = (!quiet && is_terminal).then(|| {
            let style = ProgressStyle::with_template(
                "sweep [{bar:30}] {human_pos}/{human_len} runs  {per_sec}  ETA {eta}",
            )
            .expect("the template is well-formed")
            .progress_chars("=> ");
            let bar = ProgressBar::new(total as u64).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(250));
            bar
        });
        let lines = (!quiet && !is_terminal).then(|| {
            let _ = writeln!(
                io::stderr(),
                "sweep: {total} runs, {} at a time",
                threads.min(total)
            );
            Lines {
                clock: RealClock::start(),
                next_at: Mutex::new(SECONDS_PER_LINE),
            }
        });
        Teller { bar, lines, total }
    }

    /// So many runs are done.
    pub(super) fn tell(&self, done: usize) {
        if let Some(bar) = &self.bar {
            bar.set_position(done as u64);
        }
        if let Some(lines) = &self.lines {
            let now = lines.clock.seconds();
            let mut next_at = lines
                .next_at
                .lock()
                .expect("nothing panics while it is held");
            if now >= *next_at {
                *next_at = now + SECONDS_PER_LINE;
                let _ = writeln!(
                    io::stderr(),
                    "sweep: {done} of {} runs, {now:.0} s",
                    self.total
                );
            }
        }
    }

    /// Takes the bar away, so that the table has the screen to itself.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
