//! Profiles the CPU time of the process: samples the stacks of all threads with a timer, and writes
//! them as a flamegraph, as folded stacks, or for `go tool pprof`.
//!
//! Stacks are unwound with the unwind tables, which every build has; frame pointers are not needed.
//! The timer's signal handler allocates nothing and takes no lock that it would have to wait for,
//! except when the unwind tables are read on first use. [`Sampler::start`] therefore takes one
//! sample immediately, at a point where no allocation is in progress.
//!
//! Samples are added up per *compiled function*, so inlined code counts for the function into which
//! it was inlined. (Only one place per distinct stack is kept; naming the inlined call at that
//! place would attribute all other places to this call, too.)

mod symbols;

use std::collections::BTreeMap;
use std::io::{self, Write};

use inferno::flamegraph::{self, Options, Palette, color::BasicPalette};
use nix::sys::signal::{Signal, raise};
use pprof::protos::Message;
use pprof::{Frames, ProfilerGuard, ProfilerGuardBuilder, Report, Symbol, UnresolvedReport};

use crate::units::counted;
use symbols::Names;

/// The default number of samples per second of CPU time; a higher rate gains nothing on virtual
/// machines. It is not a round number, so that samples do not align with periodic work.
pub const HERTZ: u16 = 199;

/// Frames that are narrower than this percentage of all samples are left out of a flamegraph: at a
/// width of 1,200 points they would be a third of a point wide.
const FRAME_WIDTH_MIN_PERCENT: f64 = 0.03;

/// The maximum number of samples in a profile. A thousand cores, sampled a thousand times a second,
/// do not reach it within a century.
const SAMPLES_MAX: u64 = 1 << 53;

/// Why no profile could be created.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The sampler can't be started.
    #[error("the profiler can't be started: {0}")]
    Start(String),
    /// The samples can't be read.
    #[error("the profile can't be created: {0}")]
    Report(String),
    /// No sample was taken.
    #[error(
        "no sample was taken: one is due every {period_ms:.1} ms of processor time; make the run \
         longer, or sample it more often with --profile-hertz"
    )]
    Empty {
        /// The CPU time between two samples, in milliseconds.
        period_ms: f64,
    },
}

/// Samples all threads of this process until it is stopped or dropped. Only one sampler can exist
/// at a time.
pub struct Sampler {
    guard: ProfilerGuard<'static>,
    hertz: u16,
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler")
            .field("hertz", &self.hertz)
            .finish_non_exhaustive()
    }
}

impl Sampler {
    /// Starts to take `hertz` samples per second of CPU time of all threads together.
    ///
    /// # Errors
    /// Another sampler is running, or the system refuses the timer, the signal handler or the
    /// temporary file.
    pub fn start(hertz: u16) -> Result<Sampler, ProfileError> {
        let problem = |error: &dyn std::fmt::Display| ProfileError::Start(error.to_string());
        let guard = ProfilerGuardBuilder::default()
            .frequency(i32::from(hertz))
            .build()
            .map_err(|error| problem(&error))?;
        // The first sample reads the unwind tables, which allocates memory, so it must not
        // interrupt an allocation.
        raise(Signal::SIGPROF).map_err(|error| problem(&error))?;
        Ok(Sampler { guard, hertz })
    }

    /// Stops sampling and adds up the samples. Reads the program's symbols, which takes about a
    /// second.
    ///
    /// # Errors
    /// No sample was taken, or the samples can't be read back.
    pub fn stop(self) -> Result<Profile, ProfileError> {
        let report = self.guard.report().build_unresolved();
        drop(self.guard);
        let report = report.map_err(|error| ProfileError::Report(error.to_string()))?;
        let profile = Profile::from_report(report, self.hertz);
        if profile.samples == 0 {
            let period_ms = 1000.0 / f64::from(self.hertz);
            return Err(ProfileError::Empty { period_ms });
        }
        Ok(profile)
    }
}

/// The collected samples of a process.
pub struct Profile {
    report: Report,
    hertz: u16,
    samples: u64,
}

impl std::fmt::Debug for Profile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Profile")
            .field("samples", &self.samples)
            .field("hertz", &self.hertz)
            .finish_non_exhaustive()
    }
}

impl Profile {
    fn from_report(report: UnresolvedReport, hertz: u16) -> Profile {
        let mut names = Names::new();
        let mut samples = 0;
        let mut data = Vec::new();
        for (stack, count) in report.data {
            let calls = names.functions(stack.frames.iter().map(|frame| frame.ip), |depth| {
                let mut alone = stack.clone();
                alone.frames.truncate(depth + 1);
                alone.frames.drain(..depth);
                // Inlined calls come first; the last entry is the function itself.
                Frames::from(alone).frames.pop()?.pop()
            });
            let is_own = |call: &Symbol| call.name().contains("profile::Sampler");
            if !calls.is_empty() && !calls.iter().any(is_own) {
                samples += count as u64;
                let thread = &stack.thread_name[..stack.thread_name_length];
                let frames = Frames {
                    frames: calls.into_iter().map(|call| vec![call]).collect(),
                    thread_name: String::from_utf8_lossy(thread).into_owned(),
                    thread_id: stack.thread_id,
                    sample_timestamp: stack.sample_timestamp,
                };
                data.push((frames, count));
            }
        }
        let report = Report {
            data: data.into_iter().collect(),
            timing: report.timing,
        };
        Profile {
            report,
            hertz,
            samples,
        }
    }

    /// Returns the number of samples.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the stacks of all threads together, each with its number of samples: lines such as
    /// `a;b;c 12`, outermost call first, sorted.
    pub fn folded(&self) -> Vec<String> {
        let mut stacks: BTreeMap<String, u64> = BTreeMap::new();
        for (stack, samples) in &self.report.data {
            let calls = stack.frames.iter().rev().flatten();
            let names: Vec<String> = calls.map(|call| plain_name(&call.name())).collect();
            *stacks.entry(names.join(";")).or_default() += *samples as u64;
        }
        stacks
            .into_iter()
            .map(|(stack, samples)| format!("{stack} {samples}"))
            .collect()
    }

    /// Writes the folded stacks.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn write_folded(&self, mut out: impl Write) -> io::Result<()> {
        for line in self.folded() {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }

    /// Draws the flamegraph (SVG).
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn write_flamegraph(&self, title: &str, out: impl Write) -> io::Result<()> {
        let subtitle = format!("{} at {} Hz", counted(self.samples, "sample"), self.hertz);
        draw(title, &subtitle, &self.folded(), out)
    }

    /// Writes the profile for `go tool pprof`, as an uncompressed protocol buffer.
    ///
    /// # Errors
    /// Writing to `out` fails.
    pub fn write_pprof(&self, mut out: impl Write) -> io::Result<()> {
        let profile = self.report.pprof().map_err(io::Error::other)?;
        out.write_all(&profile.encode_to_vec())
    }
}

/// Draws folded stacks as a flamegraph (SVG); the output is deterministic.
///
/// # Errors
/// No line is a stack with a number of samples, or writing to `out` fails.
pub fn draw(title: &str, subtitle: &str, folded: &[String], out: impl Write) -> io::Result<()> {
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subtitle.to_owned());
    options.min_width = FRAME_WIDTH_MIN_PERCENT;
    options.colors = Palette::Basic(BasicPalette::Hot);
    // Derive the colour from the name instead of from chance: a function has the same colour in
    // every flamegraph.
    options.hash = true;
    flamegraph::from_lines(&mut options, folded.iter().map(String::as_str), out)
}

/// Draws the increase (red) and decrease (blue) from one folded profile to another. The widths are
/// those of `after`; the counts of `before` are scaled to the same total.
///
/// # Errors
/// A profile is invalid or empty, or writing to `out` fails.
pub fn draw_difference(title: &str, before: &str, after: &str, out: impl Write) -> io::Result<()> {
    let mut lines = Vec::new();
    let options = inferno::differential::Options {
        normalize: true,
        ..Default::default()
    };
    inferno::differential::from_readers(options, before.as_bytes(), after.as_bytes(), &mut lines)?;
    let lines = String::from_utf8(lines).map_err(io::Error::other)?;
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some("red: more of the time than before; blue: less".to_owned());
    options.min_width = FRAME_WIDTH_MIN_PERCENT;
    flamegraph::from_lines(&mut options, lines.lines(), out)
}

/// Why folded stacks are invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FoldedError {
    /// This line, counted from 1, is not a stack followed by a number.
    #[error("line {0}: expected calls separated by `;`, a blank and the number of samples")]
    Line(usize),
    /// There are no lines, or none of them has a sample.
    #[error("there is no stack with a sample")]
    Empty,
    /// At this line, counted from 1, the total exceeds the maximum number of samples.
    #[error("line {0}: the total number of samples exceeds the exact range of a number (2^53)")]
    TooMany(usize),
}

/// Parses folded stacks, each with its number of samples.
///
/// # Errors
/// A line is invalid, there are no samples, or there are too many.
pub fn parse_folded(text: &str) -> Result<Vec<(String, u64)>, FoldedError> {
    let mut stacks = Vec::new();
    let mut total = 0_u64;
    for (number, line) in (1..).zip(text.lines()) {
        let found = line.rsplit_once(' ').and_then(|(stack, samples)| {
            let samples = samples.parse().ok()?;
            (!stack.is_empty()).then(|| (stack.to_owned(), samples))
        });
        let (stack, samples) = found.ok_or(FoldedError::Line(number))?;
        total = total.saturating_add(samples);
        // The drawing library adds the counts up and scales them as floating-point numbers.
        if total > SAMPLES_MAX {
            return Err(FoldedError::TooMany(number));
        }
        stacks.push((stack, samples));
    }
    if total == 0 {
        return Err(FoldedError::Empty);
    }
    Ok(stacks)
}

/// Returns the name of a function without the compiler's hash suffix and without characters that
/// have a meaning in folded stacks.
fn plain_name(name: &str) -> String {
    let name = match name.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            name
        }
        _ => name,
    };
    name.replace([';', '\n'], ",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_hash_and_nothing_else() {
        assert_eq!(plain_name("a::b::h0123456789abcdef"), "a::b");
        assert_eq!(plain_name("a::b::help"), "a::b::help");
        assert_eq!(plain_name("[u8; 4]"), "[u8, 4]");
    }

    #[test]
    fn folded_stacks_parse_back_or_name_the_invalid_line() {
        let read = parse_folded("a;<b as c>::d 12\nmain 1\n").unwrap();
        let stacks = [("a;<b as c>::d".to_owned(), 12), ("main".to_owned(), 1)];
        assert_eq!(read, stacks);
        assert_eq!(parse_folded("a 1\nb x\n"), Err(FoldedError::Line(2)));
        for nothing in ["", "a 0\n"] {
            assert_eq!(parse_folded(nothing), Err(FoldedError::Empty));
        }
        let most = format!("a {SAMPLES_MAX}\n");
        assert!(parse_folded(&most).is_ok());
        assert!(draw_difference("t", &most, &most, &mut Vec::new()).is_ok());
        for more in ["b 1", "b 18446744073709551615"] {
            let text = format!("{most}{more}\n");
            assert_eq!(parse_folded(&text), Err(FoldedError::TooMany(2)));
        }
    }

    #[test]
    fn the_same_stacks_give_the_same_drawing() {
        let folded = ["main;a 3".to_owned(), "main;b 1".to_owned()];
        let mut drawings = [Vec::new(), Vec::new()];
        for drawing in &mut drawings {
            draw("t", "s", &folded, drawing).unwrap();
        }
        assert_eq!(drawings[0], drawings[1]);
        let text = String::from_utf8(drawings[0].clone()).unwrap();
        assert!(text.contains("a (3 samples, 75.00%)"), "{text}");
    }

    #[test]
    fn a_difference_names_both_sides() {
        let (before, after) = ("main;a 3\nmain;b 1\n", "main;a 1\nmain;b 3\n");
        let mut drawing = Vec::new();
        draw_difference("t", before, after, &mut drawing).unwrap();
        let text = String::from_utf8(drawing).unwrap();
        assert!(text.contains("+50.00%"), "{text}");
        assert!(text.contains("-50.00%"), "{text}");
        assert!(draw_difference("t", "", "", &mut Vec::new()).is_err());
    }

    /// A single test, because there is one sampler per process. It also samples the threads of
    /// other tests, so a short window may contain none of this thread; the test then tries the next
    /// one.
    #[test]
    fn work_is_found_where_it_was_done() {
        let mut sampled = Vec::new();
        let profile = (0..60).find_map(|window| {
            let sampler = Sampler::start(997).unwrap();
            assert!(matches!(Sampler::start(99), Err(ProfileError::Start(_))));
            assert_ne!((0..50).map(|round| busy(window + round)).sum::<u64>(), 0);
            let profile = sampler.stop().ok()?;
            sampled = profile.folded();
            let is_found = sampled.iter().any(|line| line.contains("tests::busy"));
            is_found.then_some(profile)
        });
        let profile = profile.unwrap_or_else(|| panic!("{sampled:#?}"));
        assert!(profile.samples() > 0);
        let mut bytes = Vec::new();
        profile.write_pprof(&mut bytes).unwrap();
        let read = pprof::protos::Profile::decode(bytes.as_slice()).unwrap();
        let counted: i64 = read.sample.iter().map(|sample| sample.value[0]).sum();
        assert_eq!(u64::try_from(counted).unwrap(), profile.samples());
    }

    #[inline(never)]
    fn busy(round: u64) -> u64 {
        (0..1_000_000_u64).fold(round, |sum, i| std::hint::black_box(sum ^ i.rotate_left(7)))
    }
}
