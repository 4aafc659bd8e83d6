//! Progress on standard error: a bar on a terminal, occasional plain lines elsewhere, and the full
//! screen with `--tui`.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressState, ProgressStyle};

use podstorm_sim::clock::RealClock;

#[cfg(feature = "tui")]
use crate::report::live::{self, LiveView};
use crate::run::{Observer, Progress};
use crate::units::{count_for_people, counted, cut, number_for_people, seconds_for_people};

/// The width of the progress line, on a terminal and elsewhere.
const COLUMNS: usize = 80;

/// The width of the bar itself.
const BAR: usize = 8;

/// The columns of a bar with a target that are not its phase, bar or message.
const BESIDE_BAR: usize = " [] 1,234,567/s ETA 100m".len();

/// The minimum width of the name of a phase.
const PHASE_MIN: usize = 20;

/// The real time between two plain lines for the same phase, in seconds.
const SECONDS_PER_LINE: f64 = 2.0;

/// A way to show progress.
#[derive(Debug)]
pub enum ProgressView {
    /// No progress.
    Quiet,
    /// A bar that is redrawn.
    Bar(Mutex<Bar>),
    /// Plain lines.
    Lines(Mutex<Lines>),
    /// The full-screen view.
    #[cfg(feature = "tui")]
    Live(LiveView),
}

/// The bar of the current phase.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    /// The number of the phase, and whether its target was known when the bar was created.
    phase: Option<(usize, bool)>,
    counts: PhaseStart,
}

/// The state of the plain lines.
#[derive(Debug)]
pub struct Lines {
    clock: RealClock,
    phase: Option<usize>,
    next_at: f64,
    /// The content of the last line. A line with the same content is not repeated.
    told: String,
    counts: PhaseStart,
}

/// The pods created and deleted before the current phase.
#[derive(Debug, Default)]
struct PhaseStart {
    phase: Option<usize>,
    created: u64,
    deleted: u64,
}

impl PhaseStart {
    /// Describes the progress of the phase in at most `columns` columns: how many of its pods are
    /// done or, without a target, how many pods were created and deleted; then the number of
    /// existing pods if `is_wanted`, and the number of waiting keys. Omits zeros and parts that do
    /// not fit.
    fn told(&mut self, progress: &Progress<'_>, is_wanted: bool, columns: usize) -> String {
        if self.phase != Some(progress.phase_index) {
            *self = PhaseStart {
                phase: Some(progress.phase_index),
                created: progress.created,
                deleted: progress.deleted,
            };
        }
        let (done, total) = (count_for_people(progress.done), progress.total);
        let in_phase = |count: u64, before: u64| match total {
            0 => count.saturating_sub(before),
            _ => 0,
        };
        let existing = if is_wanted { progress.pods } else { 0 };
        let queued = progress.queue_depth as u64;
        let mut text = String::new();
        for (count, before, after) in [
            (total, &*format!("{done} of "), ""),
            (in_phase(progress.created, self.created), "", " created"),
            (in_phase(progress.deleted, self.deleted), "", " deleted"),
            (existing, "", " existing"),
            (queued, "queue ", ""),
        ] {
            // Only the first number of pods is followed by the noun.
            let noun = text.is_empty() && before != "queue ";
            let number = match noun {
                true => counted(count, "pod"),
                false => count_for_people(count),
            };
            let comma = if text.is_empty() { "" } else { ", " };
            let part = format!("{comma}{before}{number}{after}");
            if count > 0 && text.len() + part.len() <= columns {
                text += &part;
            }
        }
        match text.is_empty() {
            true => "under way".to_owned(),
            false => text,
        }
    }
}

impl ProgressView {
    /// Returns the view that suits standard error; [`ProgressView::Quiet`] if `quiet` is set.
    pub fn new(quiet: bool) -> ProgressView {
        if quiet {
            ProgressView::Quiet
        } else if io::stderr().is_terminal() {
            ProgressView::Bar(Mutex::new(Bar {
                bar: ProgressBar::hidden(),
                phase: None,
                counts: PhaseStart::default(),
            }))
        } else {
            let clock = RealClock::start();
            ProgressView::Lines(Mutex::new(Lines {
                clock,
                phase: None,
                next_at: 0.0,
                told: String::new(),
                counts: PhaseStart::default(),
            }))
        }
    }

    /// Removes the bar or the view, so that the report has the screen to itself.
    pub fn finish(&self) {
        match self {
            ProgressView::Quiet | ProgressView::Lines(_) => {}
            ProgressView::Bar(bar) => locked(bar).bar.finish_and_clear(),
            #[cfg(feature = "tui")]
            ProgressView::Live(view) => view.finish(),
        }
    }
}

/// Restores the terminal if a view has taken it over. For code that exits immediately.
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
                // Ignore the error: a closed standard error does not affect the run.
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
                // Ignore the error, as above.
                let _ = writeln!(io::stderr().lock(), "{text}");
            }
            // The view itself shows that the numbers stand still.
            #[cfg(feature = "tui")]
            ProgressView::Live(_) => {}
        }
    }
}

/// Locks a mutex even if it is poisoned: a panic elsewhere must not cause a second panic in the
/// display.
fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Bar {
    fn show(&mut self, progress: &Progress<'_>) {
        let (message, text) = self.texts(progress);
        let phase = (progress.phase_index, progress.total > 0);
        if self.phase != Some(phase) {
            self.phase = Some(phase);
            self.bar.finish_and_clear();
            // Set the texts first, so that the bar is never drawn without them.
            self.bar = ProgressBar::new(progress.total)
                .with_style(style(progress.total))
                .with_prefix(text.clone())
                .with_message(message.clone());
            self.bar.enable_steady_tick(Duration::from_millis(250));
        }
        // The total may still be unknown, or exceeded.
        self.bar.set_length(progress.total.max(progress.done));
        self.bar.set_position(progress.done);
        self.bar.set_prefix(text);
        self.bar.set_message(message);
    }

    /// Returns the phase and the message of the bar.
    fn texts(&mut self, progress: &Progress<'_>) -> (String, String) {
        let columns = COLUMNS - BAR - BESIDE_BAR;
        let is_wanted = progress.total == 0;
        let message = self.counts.told(progress, is_wanted, columns - PHASE_MIN);
        let phase = phase_text(progress, columns - message.len());
        (message, phase)
    }
}

/// Returns the template of the bar. Without a target, it has no fraction and no estimate.
fn template(total: u64) -> String {
    match total {
        0 => "{prefix}: {msg}, {elapsed}".to_owned(),
        _ => format!("{{prefix}} [{{bar:{BAR}}}] {{msg}} {{rate}} ETA {{eta}}"),
    }
}

fn style(total: u64) -> ProgressStyle {
    ProgressStyle::with_template(&template(total))
        .expect("the template is valid")
        .with_key(
            "rate",
            |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                // Ignore the error: the rate is then not shown.
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
        self.next_at = now + SECONDS_PER_LINE;
        let at = format!(", at {}", seconds_for_people(progress.engine_seconds));
        let columns = COLUMNS - ": ".len() - at.len();
        let told = self.counts.told(progress, true, columns - PHASE_MIN);
        if self.phase == Some(progress.phase_index) && told == self.told {
            return Ok(());
        }
        self.phase = Some(progress.phase_index);
        let phase = phase_text(progress, columns - told.len());
        writeln!(out, "{phase}: {told}{at}")?;
        self.told = told;
        Ok(())
    }
}

/// Formats the phase as `[2/3] roll out`, shortened to `columns` columns.
fn phase_text(progress: &Progress<'_>, columns: usize) -> String {
    let place = format!("[{}/{}] ", progress.phase_index + 1, progress.phase_count);
    let left = columns.saturating_sub(place.len()).max(1);
    format!("{place}{}", cut(progress.phase, left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_readable() {
        assert_eq!(rate(1_527_002.410_6), "1,527,002/s");
        assert_eq!(rate(21.337), "21.3/s");
    }

    #[test]
    fn without_a_target_the_bar_has_no_fraction_and_no_estimate() {
        assert!(!template(0).contains("bar") && !template(0).contains("eta"));
        assert!(template(1).contains("bar") && template(1).contains("eta"));
    }

    fn progress() -> Progress<'static> {
        Progress {
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
        }
    }

    fn lines() -> Lines {
        Lines {
            clock: RealClock::start(),
            phase: None,
            next_at: 0.0,
            told: String::new(),
            counts: PhaseStart::default(),
        }
    }

    #[test]
    fn a_phase_has_a_line_immediately_and_then_occasionally() {
        let mut progress = progress();
        let (mut lines, mut out) = (lines(), Vec::new());
        lines.show(&progress, &mut out).unwrap();
        lines.show(&progress, &mut out).unwrap();
        progress.phase_index = 1;
        lines.show(&progress, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
        let head =
            "[1/3] scale to 100 %: 1,500 of 100,000 pods, 1,600 existing, queue 7, at 250 ms\n";
        assert!(text.starts_with(head), "{text}");
    }

    #[test]
    fn a_line_without_news_is_not_written() {
        let mut progress = progress();
        let (mut lines, mut out) = (lines(), Vec::new());
        for done in [1_500, 1_500, 1_501] {
            progress.done = done;
            progress.engine_seconds += 2.0;
            lines.show(&progress, &mut out).unwrap();
            // The next line is due.
            lines.next_at = 0.0;
        }
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 2, "{text}");
    }

    #[test]
    fn a_phase_without_a_target_shows_created_and_deleted_pods() {
        let mut counts = PhaseStart::default();
        let mut progress = Progress {
            total: 0,
            done: 0,
            queue_depth: 0,
            ..progress()
        };
        assert_eq!(counts.told(&progress, true, 60), "1,600 pods existing");
        (progress.created, progress.deleted) = (1_601, 12);
        let told = "1 pod created, 12 deleted, 1,600 existing";
        assert_eq!(counts.told(&progress, true, 60), told);
        progress.phase_index = 1;
        assert_eq!(counts.told(&progress, false, 60), "under way");
    }

    #[test]
    fn progress_fits_eighty_columns() {
        let large = Progress {
            phase: "20 % of the pods are deleted, and the events of their deletions are lost",
            phase_index: 11,
            phase_count: 12,
            done: 1_234_567,
            total: 2_345_678,
            pods: 2_345_678,
            created: 9_876_543,
            deleted: 8_765_432,
            queue_depth: 1_234_567,
            engine_seconds: 86_399.0,
            ..progress()
        };
        for total in [0, large.total] {
            let began = Progress {
                created: 0,
                deleted: 0,
                total,
                ..large
            };
            let large = Progress { total, ..large };
            let mut lines = lines();
            lines.counts.told(&began, true, 60);
            let mut out = Vec::new();
            lines.show(&large, &mut out).unwrap();
            let line = String::from_utf8(out).unwrap();
            let columns = line.trim_end().chars().count();
            assert!(columns <= COLUMNS, "{columns}: {line}");
        }
        let mut bar = Bar {
            bar: ProgressBar::hidden(),
            phase: None,
            counts: PhaseStart::default(),
        };
        let (message, phase) = bar.texts(&large);
        let columns = phase.chars().count() + message.len() + BAR + BESIDE_BAR;
        assert!(columns <= COLUMNS, "{phase} {message}");
        assert!(message.contains("1,234,567 of 2,345,678 pods"), "{message}");
    }
}
