//! The results as JSON and as Markdown. A run without the feature `contention` replaces the
//! throughput in the file; a run with it replaces the counts. The other part remains.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::paired::Paired;
use super::{PerEvent, Subject, modelled};
use crate::write_whole;

/// The number of threads and of cores of the modelled machine.
pub const MODELLED_CORES: usize = 16;

/// The content of `scaling.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// The throughput, measured without the feature.
    pub throughput: Option<Throughput>,
    /// The paired rounds, also measured without the feature.
    #[serde(default)]
    pub paired: Option<Paired>,
    /// The counts, measured with the feature.
    pub counts: Option<CountReport>,
}

/// The origin of a set of figures.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Source {
    /// The command that repeats the measurement.
    pub command: String,
    /// The processor model.
    pub cpu_model: String,
    /// The number of processors that the run could use.
    pub cores: usize,
    /// The commit of the source tree, and whether there were changes.
    pub commit: String,
    /// The compiler.
    pub rustc: String,
    /// The average number of runnable threads in the minute before the run, if known.
    pub load_before: Option<f64>,
}

/// The throughput of all subjects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Throughput {
    /// The origin of the curves.
    pub source: Source,
    /// Nanoseconds for a cache line to move between cores; `None` with a single core.
    pub transfer_ns: Option<f64>,
    /// The curve of each subject.
    pub curves: Vec<Curve>,
    /// Whole runs of the threaded engine, by number of threads.
    pub engine: Vec<EngineRun>,
}

/// The throughput of one subject at several numbers of threads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Curve {
    /// The part under test: `expectations`, `workqueue` or `handlers`.
    pub subject: String,
    /// The keys of the threads: `distinct` or `shared`.
    pub keys: String,
    /// The description of the work that one event takes.
    pub event: String,
    /// Transfers of the most contended cache line per event. The number follows from the design.
    pub transfers: f64,
    /// The measured points.
    pub points: Vec<Point>,
    /// The events per second that the model predicts for 16 cores, which were not measured.
    pub modelled_16: Option<f64>,
}

/// The events per second of all threads together, in a round than which one in 20 was faster.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// The number of threads.
    pub threads: usize,
    /// Our throughput.
    pub ours: f64,
    /// The plain rival's throughput.
    pub plain: f64,
}

/// A whole run of the threaded engine: the fastest of several runs.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct EngineRun {
    /// The number of threads.
    pub threads: usize,
    /// The wall time from the start to the end of the process.
    pub wall_seconds: f64,
    /// The CPU time of all threads of the process.
    pub cpu_seconds: f64,
}

/// The counts of all subjects.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CountReport {
    /// The origin of the counts.
    pub source: Source,
    /// The counts of each subject at each number of threads.
    pub rows: Vec<CountRow>,
}

/// The locks and exchanges of one of our subjects at one number of threads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CountRow {
    /// The subject, as in `Curve`.
    pub subject: String,
    /// The keys of the threads, as in `Curve`.
    pub keys: String,
    /// The number of threads.
    pub threads: usize,
    /// The counts, per event.
    pub per_event: PerEvent,
}

impl Curve {
    /// Creates the curve of a subject, with the model's prediction for 16 cores.
    pub fn new(subject: &Subject, points: Vec<Point>, transfer_ns: Option<f64>) -> Curve {
        let one = points.first().map_or(0.0, |point| point.ours);
        let model = |transfer_ns| modelled(one, MODELLED_CORES, subject.transfers, transfer_ns);
        Curve {
            subject: subject.name.to_owned(),
            keys: subject.keys.to_owned(),
            event: subject.event.to_owned(),
            transfers: subject.transfers,
            points,
            modelled_16: transfer_ns.map(model),
        }
    }
}

impl Report {
    /// Reads the file. Returns an empty report if the file is missing or has another form.
    pub fn read(path: &Path) -> Report {
        let text = fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Writes `scaling.json` and `scaling.md` to a folder.
    ///
    /// # Errors
    /// Fails if the files can't be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let json =
            serde_json::to_string_pretty(self).context("a report can be written as JSON")? + "\n";
        for (name, text) in [("scaling.json", json), ("scaling.md", self.markdown())] {
            write_whole("the report", &folder.join(name), &text)?;
        }
        Ok(())
    }

    /// Renders the report for human readers.
    pub fn markdown(&self) -> String {
        let throughput = self.throughput.as_ref().map(Throughput::markdown);
        let counts = self.counts.as_ref().map(CountReport::markdown);
        let paired = self.paired.as_ref().map(Paired::markdown);
        let parts = [throughput, paired, counts].into_iter().flatten();
        String::from("# Scaling\n") + &parts.collect::<String>()
    }
}

impl Source {
    pub(super) fn markdown(&self) -> String {
        let load = self.load_before;
        let load = load.map_or(String::new(), |load| format!(", load {load:.1} before"));
        format!(
            "`{}` on {}, {} cores{load}; commit {}; {}.",
            self.command, self.cpu_model, self.cores, self.commit, self.rustc
        )
    }
}

const THROUGHPUT: &str = "\
Millions of events per second, all threads together, in the round that a twentieth of the rounds beat,
among those in which all threads ran concurrently. In parentheses: the share of the throughput that as many cores (at most those of the machine) would have
without disturbing each other. The plain rival does the same behind one lock around everything.

The last column is **modelled, not measured**: the throughputs of threads that share no cache line add up. A shared
line moves between cores as often per event as the design requires, one move at a time.
";

impl Throughput {
    fn markdown(&self) -> String {
        let transfer = match self.transfer_ns {
            Some(ns) => format!(
                "A move takes {ns:.0} ns between the cores of this machine (two threads writing one word alternately).\n\
                 Between distant cores of a large machine it takes longer, and the modelled figures that include moves \
                 are lower."
            ),
            None => "With one core, no move could be measured.".to_owned(),
        };
        let points = self.curves.first().map_or(&[][..], |curve| &curve.points);
        let titles = join(points, |point| format!(" {} threads |", point.threads));
        format!(
            "\n## Throughput\n\n{}\n\n{THROUGHPUT}{transfer}\n\n\
             | work | implementation |{titles} moves per event | 16 cores, modelled |\n|---|---|{}---:|---:|\n{}{}",
            self.source.markdown(),
            "---:|".repeat(points.len()),
            join(&self.curves, |curve| self.rows(curve)),
            self.engine(),
        )
    }

    /// Returns the two rows of a curve: ours, and the plain rival's.
    fn rows(&self, curve: &Curve) -> String {
        let modelled = curve.modelled_16.map_or("–".to_owned(), |modelled| {
            share(modelled, curve.points[0].ours, MODELLED_CORES)
        });
        let cells = |of: fn(&Point) -> f64| {
            join(&curve.points, |point| {
                let cores = point.threads.min(self.source.cores.max(1));
                format!(" {} |", share(of(point), of(&curve.points[0]), cores))
            })
        };
        format!(
            "| {}, {} keys: {} | podstorm |{} {} | {modelled} |\n| | plain |{} | |\n",
            curve.subject,
            curve.keys,
            curve.event,
            cells(|point| point.ours),
            curve.transfers,
            cells(|point| point.plain),
        )
    }

    fn engine(&self) -> String {
        let Some(first) = self.engine.first() else {
            return String::new();
        };
        let rows = join(&self.engine, |run| {
            let speed_up = first.wall_seconds / run.wall_seconds;
            format!(
                "| {} | {:.2} s | {:.2} s | {speed_up:.2} |\n",
                run.threads, run.wall_seconds, run.cpu_seconds
            )
        });
        format!(
            "\nThe threaded engine, a whole `loadgen run --scenario up-down --pods 20k --replicasets 400` with its cluster and nodes in\n\
             the same process; the fastest of several runs.\n\n\
             | threads | wall | CPU | speed-up |\n|---:|---:|---:|---:|\n{rows}"
        )
    }
}

impl CountReport {
    fn markdown(&self) -> String {
        let rows = join(&self.rows, |row| {
            let count = row.per_event;
            format!(
                "| {}, {} keys | {} | {:.2} | {:.4} | {:.2} | {:.4} |\n",
                row.subject,
                row.keys,
                row.threads,
                count.locks,
                count.locks_contended,
                count.exchanges,
                count.exchanges_failed
            )
        });
        format!(
            "\n## Locks and exchanges per event\n\n{}\n\n\
             Only podstorm's words and locks are counted.\n\n\
             | work | threads | locks | contended | exchanges | failed |\n\
             |---|---:|---:|---:|---:|---:|\n{rows}",
            self.source.markdown()
        )
    }
}

fn join<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect()
}

/// Formats a throughput in millions per second, and its share of `threads` times the throughput of
/// one thread.
fn share(events_per_second: f64, one_thread: f64, threads: usize) -> String {
    let share = events_per_second / (one_thread * threads as f64);
    format!("{:.1} ({share:.2})", events_per_second / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_matches_the_committed_report() {
        let folder = crate::results::package_directory().join("results");
        let page = fs::read_to_string(folder.join("scaling.md")).unwrap();
        assert_eq!(Report::read(&folder.join("scaling.json")).markdown(), page);
    }

    #[test]
    fn counts_and_throughput_replace_each_other_independently() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scaling.json");
        let mut report = Report::read(&path);
        report.counts = Some(CountReport::default());
        report.write(folder.path()).unwrap();
        let mut again = Report::read(&path);
        assert!(again.counts.is_some() && again.throughput.is_none());
        again.throughput = Some(Throughput::default());
        again.write(folder.path()).unwrap();
        assert!(Report::read(&path).counts.is_some());
        let text = fs::read_to_string(folder.path().join("scaling.md")).unwrap();
        assert!(text.contains("modelled, not measured"));
    }

    #[test]
    fn the_share_is_relative_to_as_many_cores() {
        assert_eq!(share(15e6, 10e6, 2), "15.0 (0.75)");
    }
}
