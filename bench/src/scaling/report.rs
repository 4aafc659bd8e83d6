//! What was measured, as JSON and as Markdown. A run without the feature `contention` replaces the
//! throughput in the file, a run with it the counts: both stay beside each other.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::paired::Paired;
use super::{PerEvent, Subject, modelled};
use crate::write_whole;

/// Threads and cores of the machine that is modelled.
pub const MODELLED_CORES: usize = 16;

/// The file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// Taken without the feature.
    pub throughput: Option<Throughput>,
    /// Taken without it too.
    #[serde(default)]
    pub paired: Option<Paired>,
    /// Taken with it.
    pub counts: Option<Counts>,
}

/// Where figures come from.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Source {
    /// What takes them again.
    pub command: String,
    /// Processor model.
    pub cpu_model: String,
    /// Processors that the run might use.
    pub cores: usize,
    /// The state of the source tree.
    pub commit: String,
    /// The compiler.
    pub rustc: String,
    /// Runnable threads on average over the minute before.
    pub load_before: Option<f64>,
}

/// All curves.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Throughput {
    /// Where they come from.
    pub source: Source,
    /// Nanoseconds to move a line of memory from core to core; `None` with one core.
    pub transfer_ns: Option<f64>,
    /// By subject.
    pub curves: Vec<Curve>,
    /// The threaded engine.
    pub engine: Vec<EngineRun>,
}

/// One subject at several numbers of threads.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Curve {
    /// `expectations`, `workqueue` or `handlers`.
    pub subject: String,
    /// `distinct` or `shared`.
    pub keys: String,
    /// What one event does.
    pub event: String,
    /// Moves of the line that threads share most, per event; known from the design.
    pub transfers: f64,
    /// Measured.
    pub points: Vec<Point>,
    /// Events per second on 16 cores by the model; not measured.
    pub modelled_16: Option<f64>,
}

/// Events per second of all threads together, in the round that a twentieth of the rounds beat.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Point {
    /// Threads.
    pub threads: usize,
    /// Ours.
    pub ours: f64,
    /// The plain rival's.
    pub plain: f64,
}

/// A whole run of the threaded engine: the quickest of several.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct EngineRun {
    /// Threads.
    pub threads: usize,
    /// From start to end of the process.
    pub wall_seconds: f64,
    /// Of all its threads.
    pub cpu_seconds: f64,
}

/// What was counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Where they come from.
    pub source: Source,
    /// By subject and number of threads.
    pub rows: Vec<CountRow>,
}

/// Locks and exchanges of one subject at one number of threads, ours.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CountRow {
    /// As in `Curve`.
    pub subject: String,
    /// As in `Curve`.
    pub keys: String,
    /// Threads.
    pub threads: usize,
    /// Per event.
    pub per_event: PerEvent,
}

impl Curve {
    /// Of a subject, with what the model says for 16 cores.
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
    /// What the file says; nothing where there is none or it is of another form.
    pub fn read(path: &Path) -> Report {
        let text = fs::read_to_string(path).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Writes `scaling.json` and `scaling.md` into a folder.
    ///
    /// # Errors
    /// Where they can't be written.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        let json = serde_json::to_string_pretty(self).context("a report is JSON")? + "\n";
        for (name, text) in [("scaling.json", json), ("scaling.md", self.markdown())] {
            write_whole("the report", &folder.join(name), &text)?;
        }
        Ok(())
    }

    /// For a reader.
    pub fn markdown(&self) -> String {
        let throughput = self.throughput.as_ref().map(Throughput::markdown);
        let counts = self.counts.as_ref().map(Counts::markdown);
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
Millions of events a second, all threads together, in the round that a twentieth of the rounds beat,
of those in which all threads ran at the same time. In parentheses the share of what as many cores would do without disturbing each other (never more than there are).
The plain rival does the same behind one lock around everything.

The last column is **modelled, not measured**: threads that share no line of memory add up; where
they share one, it moves from core to core so often an event as the design says, one move at a time.
";

impl Throughput {
    fn markdown(&self) -> String {
        let transfer = match self.transfer_ns {
            Some(ns) => format!(
                "A move takes {ns:.0} ns between the cores of this machine (two threads writing one word in turn);\n\
                 between distant cores of a large machine it is longer, and the modelled figures with a move in \
                 them less."
            ),
            None => "With one core, no move could be measured.".to_owned(),
        };
        let points = self.curves.first().map_or(&[][..], |curve| &curve.points);
        let titles = join(points, |point| format!(" {} threads |", point.threads));
        format!(
            "\n## Throughput\n\n{}\n\n{THROUGHPUT}{transfer}\n\n\
             | what | who |{titles} moves per event | 16 cores, modelled |\n|---|---|{}---:|---:|\n{}{}",
            self.source.markdown(),
            "---:|".repeat(points.len()),
            join(&self.curves, |curve| self.rows(curve)),
            self.engine(),
        )
    }

    /// Returns a curve's two rows, ours and the plain rival's.
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
             the same process; the quickest of several runs.\n\n\
             | threads | wall | CPU | speed-up |\n|---:|---:|---:|---:|\n{rows}"
        )
    }
}

impl Counts {
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
             Of podstorm's words and locks.\n\n\
             | what | threads | locks | found taken | exchanges | too late |\n\
             |---|---:|---:|---:|---:|---:|\n{rows}",
            self.source.markdown()
        )
    }
}

fn join<T>(items: &[T], text: impl Fn(&T) -> String) -> String {
    items.iter().map(text).collect()
}

/// Millions a second, and the share of `threads` times one thread's.
fn share(events_per_second: f64, one_thread: f64, threads: usize) -> String {
    let share = events_per_second / (one_thread * threads as f64);
    format!("{:.1} ({share:.2})", events_per_second / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_page_is_that_of_the_committed_report() {
        let folder = crate::results::package_directory().join("results");
        let page = fs::read_to_string(folder.join("scaling.md")).unwrap();
        assert_eq!(Report::read(&folder.join("scaling.json")).markdown(), page);
    }

    #[test]
    fn counts_and_throughput_stay_beside_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scaling.json");
        let mut report = Report::read(&path);
        report.counts = Some(Counts::default());
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
    fn the_share_is_of_what_as_many_cores_would_do() {
        assert_eq!(share(15e6, 10e6, 2), "15.0 (0.75)");
    }
}
