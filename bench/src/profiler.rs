//! Flamegraphs of benches: criterion's `--profile-time SECONDS` samples each bench and leaves
//! `flamegraph.svg` and `profile.pb` (for `go tool pprof`) in its `target/criterion/<id>/profile/`.
//!
//! Build with `RUSTFLAGS="-C force-frame-pointers=yes"`: stacks are unwound by frame pointers.

use std::fs;
use std::path::Path;

use criterion::Criterion;
use criterion::profiler::Profiler;
use inferno::flamegraph::{self, Options};
use pprof::protos::Message;
use pprof::{ProfilerGuard, ProfilerGuardBuilder, Report};

/// Samples a second; more gains nothing on virtual machines.
const HERTZ: i32 = 199;

/// Criterion with this profiler: the `config` of every `criterion_group!`.
pub fn criterion() -> Criterion {
    Criterion::default().with_profiler(Sampler { guard: None })
}

struct Sampler {
    guard: Option<ProfilerGuard<'static>>,
}

impl Profiler for Sampler {
    fn start_profiling(&mut self, _id: &str, _directory: &Path) {
        let guard = ProfilerGuardBuilder::default().frequency(HERTZ).build();
        self.guard = Some(guard.expect("no other profiler runs in this process"));
    }

    fn stop_profiling(&mut self, id: &str, directory: &Path) {
        let Some(guard) = self.guard.take() else {
            return;
        };
        let report = guard.report().build().expect("samples were taken");
        fs::create_dir_all(directory).expect("criterion's directory can be written");
        write_flamegraph(&report, id, &directory.join("flamegraph.svg"));
        let profile = report.pprof().expect("a report has a profile");
        fs::write(directory.join("profile.pb"), profile.encode_to_vec())
            .expect("criterion's directory can be written");
    }
}

fn write_flamegraph(report: &Report, title: &str, path: &Path) {
    let mut folded: Vec<String> = report
        .data
        .iter()
        .filter(|(stack, _)| !stack.frames.is_empty())
        .map(|(stack, samples)| {
            let calls = stack
                .frames
                .iter()
                .rev()
                .flat_map(|frame| frame.iter().rev());
            let names: Vec<String> = calls.map(|symbol| symbol.name()).collect();
            format!("{} {samples}", names.join(";"))
        })
        .collect();
    folded.sort();
    assert!(
        !folded.is_empty(),
        "no stack was sampled: build with RUSTFLAGS=\"-C force-frame-pointers=yes\", and profile for \
         some seconds"
    );
    let mut options = Options::default();
    options.title = title.to_owned();
    let file = fs::File::create(path).expect("criterion's directory can be written");
    flamegraph::from_lines(&mut options, folded.iter().map(String::as_str), file)
        .expect("folded stacks make a flamegraph");
}
