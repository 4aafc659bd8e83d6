//! All timed benches in one program: every hot path next to its plain rivals, other criterion
//! benches, the packages, throughput by number of threads, and whole runs. After a full run the
//! program prints the table of targets.
//!
//! `cargo bench -p podstorm-bench -- ranking` runs every bench whose id contains `ranking`. With
//! `-- --test`, and under `cargo test`, every bench runs once, untimed, and whole runs are tiny.

mod cache;
mod cold_start;
mod expectations;
mod handlers;
mod job;
mod loading;
mod packages;
mod ranking;
mod scaling;
mod selectors;
mod slow_start;
mod statefulset;
mod sync;
mod whole_runs;
mod workqueue;

use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};

use anyhow::ensure;
use criterion::{BenchmarkId, Criterion};
use podstorm_bench::asked::Asked;
use podstorm_bench::hot::{self, Operation, Work};
use podstorm_bench::results::after_run;

/// A subject that criterion does not time.
type Subject = fn(&Asked) -> anyhow::Result<()>;

/// A bench that criterion times.
struct Timed {
    id: String,
    /// The number of samples; fewer for slow calls.
    samples: usize,
    prepare: Box<dyn Fn() -> Operation>,
}

impl Timed {
    fn new<W: Work + 'static>(id: impl Into<String>, prepare: impl Fn() -> W + 'static) -> Timed {
        Timed {
            id: id.into(),
            samples: 100,
            prepare: Box::new(move || Box::new(prepare())),
        }
    }

    /// Like `new`, for slow calls.
    fn slow<W: Work + 'static>(id: impl Into<String>, prepare: impl Fn() -> W + 'static) -> Timed {
        Timed {
            samples: 10,
            ..Timed::new(id, prepare)
        }
    }

    fn measure(&self, criterion: &mut Criterion) {
        let parts: Vec<&str> = self.id.splitn(3, '/').collect();
        let mut group = criterion.benchmark_group(parts[0]);
        let mut operation = None;
        group.sample_size(self.samples);
        group.bench_function(BenchmarkId::new(parts[1], parts[2]), |bencher| {
            let operation = operation.get_or_insert_with(&self.prepare);
            bencher.iter_custom(|calls| operation.time(calls));
        });
        group.finish();
    }
}

/// Returns all benches that criterion times. The rivals of a hot path follow it directly, so that
/// both are measured within the same minute.
fn timed() -> Vec<Timed> {
    let mut others: Vec<Timed> = [
        cache::timed(),
        expectations::timed(),
        handlers::timed(),
        job::timed(),
        loading::timed(),
        ranking::timed(),
        selectors::timed(),
        slow_start::timed(),
        statefulset::timed(),
        sync::timed(),
        workqueue::timed(),
        cold_start::timed(),
        packages::timed(),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut all = Vec::new();
    // The small whole runs of `hot` serve the gate's counts; `whole_runs` times full-size runs.
    let paths = hot::paths().into_iter();
    for path in paths.filter(|path| !path.id.starts_with("run/")) {
        all.push(Timed {
            id: path.id.to_owned(),
            samples: 100,
            prepare: Box::new(path.prepare),
        });
        let (start, size) = path.id.rsplit_once('/').expect("an id has three parts");
        let is_rival = |other: &mut Timed| {
            let variant = other
                .id
                .strip_suffix(size)
                .and_then(|id| id.strip_suffix('/'));
            variant == Some(&format!("{start}-plain")) || variant == Some(&format!("{start}-named"))
        };
        all.extend(others.extract_if(.., is_rival));
    }
    all.extend(others);
    all
}

fn main() -> anyhow::Result<()> {
    let asked = Asked::here();
    if asked.lists_only() && asked.is_smoke_test {
        return Ok(());
    }
    let mut failed = Vec::new();
    let mut criterion = podstorm_bench::profiler::criterion();
    if !asked.is_smoke_test {
        criterion = criterion.configure_from_args();
    }
    for timed in timed() {
        let work = || {
            if !asked.is_smoke_test {
                timed.measure(&mut criterion);
            } else if asked.wants(&timed.id) {
                say(&format!("Testing {}", timed.id));
                (timed.prepare)().time(1);
            }
        };
        // A bench that fails does not stop the others.
        if catch_unwind(AssertUnwindSafe(work)).is_err() {
            failed.push(timed.id);
        }
    }
    if !asked.lists_only() {
        let subjects: [(&str, Subject); 4] = [
            ("packages/allocator", packages::allocators),
            ("scaling", scaling::run),
            ("whole_runs", whole_runs::run),
            ("table", after_run::print),
        ];
        for (name, run) in subjects {
            if let Err(error) = run(&asked) {
                say(&format!("{name}: {error:#}"));
                failed.push(name.to_owned());
            }
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Prints a line to standard output, where benches report.
fn say(text: &str) {
    let _ = writeln!(io::stdout(), "{text}");
}
