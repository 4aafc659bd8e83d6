//! The output of a run: progress while the run lasts, one screen afterwards, and the requested
//! files. Writing never panics: if a reader closes its end, the output stops silently.

mod brake;
pub mod colour;
pub mod csv;
pub mod html;
pub mod junit;
#[cfg(feature = "tui")]
pub mod live;
pub mod output;
pub(crate) mod page;
pub mod perf_dash;
pub(crate) mod placed;
pub mod progress;
mod stale_watch;
pub mod terminal;
#[cfg(test)]
pub(crate) mod tests;

use podstorm::row::RunsIn;
use podstorm_sim::options::WorkerCounts;
use podstorm_sim::rows::Rows;

use crate::settings::{EngineKind, Settings};
use crate::units::counted;

/// Formats the engine of a run: `virtual engine`, `threads engine, 4 threads`.
pub(crate) fn engine_text(settings: &Settings) -> String {
    match settings.engine {
        EngineKind::Threads => {
            let threads = counted(settings.threads as u64, "thread");
            format!("threads engine, {threads}")
        }
        EngineKind::Virtual => "virtual engine".to_owned(),
    }
}

/// Formats the number of workers per controller in a run: one number if all have the same.
fn workers_text(workers: &WorkerCounts) -> String {
    let flags = Rows::installed().worker_flags();
    let flags = flags.filter(|(row, _)| row.runs_in == RunsIn::Manager);
    let counts: Vec<_> = flags
        .map(|(row, flag)| (counted(workers.by(flag) as u64, "worker"), row.purpose))
        .collect();
    match counts.first() {
        Some((first, _)) if counts.iter().all(|(count, _)| count == first) => first.clone(),
        _ => {
            let each = counts
                .iter()
                .map(|(count, purpose)| format!("{count} for {purpose}"));
            each.collect::<Vec<_>>().join(", ")
        }
    }
}
