//! Progress on standard error: a bar on a terminal, a plain line now and then elsewhere, and full
//! screen with `--tui`.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use podstorm_sim::clock::RealClock;

#[cfg(feature = "tui")]
use crate::report::live::{self, LiveView};
use crate::run::{Observer, Progress};
use crate::units::{count_for_people, counted, number_for_people, seconds_for_people};

/// Seconds of real time between plain lines of one phase.
const SECONDS_PER_LINE: f64 = 2.0;

/// Shows progress in one of these ways.
#[derive(Debug)]
pub enum ProgressView {
    /// Nothing is shown.
    Quiet,
    /// A bar, redrawn.
    Bar(Mutex<Bar>),
    /// Lines.
    Lines(Mutex<Lines>),
    /// The whole screen.
    #[cfg(feature = "tui")]
    Live(LiveView),
}

/// The bar of the present phase.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    /// Its number, and whether its target was known.
    phase: Option<(usize, bool)>,
}

/// When and about what the last line was.
#[derive(Debug)]
pub struct Lines {
    clock: RealClock,
    phase: Option<usize>,
    next_at: f64,
}

impl ProgressView {
    /// The way that suits standard error, or none at all.
    pub fn new(quiet: bool) -> ProgressView {
        if quiet {
            ProgressView::Quiet
        } else if io::stderr().is_terminal() {
            ProgressView::Bar(Mutex::new(Bar {
                bar: ProgressBar::hidden(),
                phase: None,
            }))
        } else {
            let clock = RealClock::start();
            ProgressView::Lines(Mutex::new(Lines {
                clock,
                phase: None,
                next_at: 0.0,
            }))
        }
    }

    /// Takes bar and view away, so that the report has the screen to itself.
    pub fn finish(&self) {
        match self {
            ProgressView::Quiet | ProgressView::Lines(_) => {}
            ProgressView::Bar(bar) => locked(bar).bar.finish_and_clear(),
            #[cfg(feature = "tui")]
            ProgressView::Live(view) => view.finish(),
        }
    }
}

/// Gives the terminal back, if a view has all of it. For code that ends the process at once.
pub fn give_screen_back() {
    #[cfg(feature = "tui")]
    live::give_back();
}

impl Observer for ProgressView {
    fn progress(&self, progress: &Progress<'_>) {
        match self {
            ProgressView::Quiet => {}
            ProgressView::Bar(bar) => locked(bar).show(progress),
            ProgressView::Lines(lines) => {
                // A reader that went away takes nothing from the run.
                let _ = locked(lines).show(progress, &mut io::stderr().lock());
            }
            #[cfg(feature = "tui")]
            ProgressView::Live(view) => view.progress(progress),
        }
    }

    fn waits(&self, what: &str) {
        let text = format!("nothing has changed for a while: {what}");
        match self {
            ProgressView::Quiet => {}
            ProgressView::Bar(bar) => locked(bar).bar.println(text),
            ProgressView::Lines(_) => {
                // As above.
                let _ = writeln!(io::stderr().lock(), "{text}");
            }
            // It shows the numbers that stand still.
            #[cfg(feature = "tui")]
            ProgressView::Live(_) => {}
        }
    }
}

/// A panic elsewhere must not become a second one in the display.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Bar {
    fn show(&mut self, progress: &Progress<'_>) {
        let phase = (progress.phase_index, progress.total > 0);
        if self.phase != Some(phase) {
            self.phase = Some(phase);
            self.bar.finish_and_clear();
            self.bar = ProgressBar::new(progress.total).with_style(style(progress.total));
            self.bar.set_prefix(phase_text(progress));
            self.bar.enable_steady_tick(Duration::from_millis(250));
        }
        // The total may not be known yet, or be passed.
        self.bar.set_length(progress.total.max(progress.done));
        self.bar.set_position(progress.done);
        self.bar.set_message(format!(
            "{} exist, queue {}",
            counted(progress.pods, "pod"),
            count_for_people(progress.queue_depth as u64)
        ));
    }
}

/// Without a target there is nothing to be a part of, and no end to foretell.
const fn template(total: u64) -> &'static str {
    match total {
        0 => "{prefix}  {msg}  {elapsed}",
        _ => "{prefix} [{bar:30}] {human_pos}/{human_len} pods  {rate}  {msg}  ETA {eta}",
    }
}

fn style(total: u64) -> ProgressStyle {
    ProgressStyle::with_template(template(total))
        .expect("the template is well-formed")
        .with_key(
            "rate",
            |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                // What can't be written is not shown.
                let _ = write!(out, "{}", rate(state.per_sec()));
            },
        )
        .progress_chars("=> ")
}

fn rate(per_second: f64) -> String {
    format!("{}/s", number_for_people(per_second))
}

impl Lines {
    fn show(&mut self, progress: &Progress<'_>, out: &mut impl Write) -> io::Result<()> {
        let now = self.clock.seconds();
        if self.phase == Some(progress.phase_index) && now < self.next_at {
            return Ok(());
        }
        self.phase = Some(progress.phase_index);
        self.next_at = now + SECONDS_PER_LINE;
        let of_total = match progress.total {
            0 => String::new(),
            total => format!(" of {}", count_for_people(total)),
        };
        writeln!(
            out,
            "{}: {}{of_total} pods, {} exist, queue {}, at {}",
            phase_text(progress),
            count_for_people(progress.done),
            count_for_people(progress.pods),
            progress.queue_depth,
            seconds_for_people(progress.engine_seconds),
        )
    }
}

fn phase_text(progress: &Progress<'_>) -> String {
    format!(
        "[{}/{}] {}",
        progress.phase_index + 1,
        progress.phase_count,
        progress.phase
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_written_for_people() {
        assert_eq!(rate(1_527_002.410_6), "1,527,002/s");
        assert_eq!(rate(21.337), "21.3/s");
    }

    #[test]
    fn without_a_target_the_bar_tells_no_part_of_it_and_no_end() {
        assert!(!template(0).contains("len") && !template(0).contains("eta"));
        assert!(template(1).contains("human_len") && template(1).contains("eta"));
    }

    #[test]
    fn a_phase_has_a_line_at_once_and_then_now_and_then() {
        let mut progress = Progress {
            phase: "scale to 100 %",
            phase_index: 0,
            phase_count: 3,
            done: 1_500,
            total: 100_000,
            pods: 1_600,
            ready: 1_500,
            desired: 100_000,
            created: 1_600,
            deleted: 0,
            api_calls: 1_700,
            queue_depth: 7,
            engine_seconds: 0.25,
        };
        let mut lines = Lines {
            clock: RealClock::start(),
            phase: None,
            next_at: 0.0,
        };
        let mut out = Vec::new();
        lines.show(&progress, &mut out).unwrap();
        lines.show(&progress, &mut out).unwrap();
        progress.phase_index = 1;
        lines.show(&progress, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        let head = "[1/3] scale to 100 %: 1,500 of 100,000 pods, ";
        assert!(text.starts_with(head), "{text}");
    }
}
