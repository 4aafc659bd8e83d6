//! Profiles of benches: criterion's `--profile-time SECONDS` samples each bench and writes
//! `flamegraph.svg` and `profile.pb` (for `go tool pprof`) to its `target/criterion/<id>/profile/`.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use criterion::Criterion;
use criterion::profiler::Profiler;
use podstorm_loadgen::profile::{HERTZ, Sampler};

/// Returns a criterion with this profiler. The time per bench is chosen so that all benches
/// together take ten minutes.
pub fn criterion() -> Criterion {
    Criterion::default()
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_millis(1_500))
        .with_profiler(BenchProfiler { sampler: None })
}

struct BenchProfiler {
    sampler: Option<Sampler>,
}

impl Profiler for BenchProfiler {
    fn start_profiling(&mut self, _id: &str, _directory: &Path) {
        let sampler = Sampler::start(HERTZ).expect("no other profiler runs in this process");
        self.sampler = Some(sampler);
    }

    fn stop_profiling(&mut self, id: &str, directory: &Path) {
        let Some(sampler) = self.sampler.take() else {
            return;
        };
        let profile = sampler
            .stop()
            .expect("the bench ran long enough to be sampled");
        fs::create_dir_all(directory).expect("criterion's directory can be written");
        let create = |name| {
            File::create(directory.join(name)).expect("criterion's directory can be written")
        };
        let drawn = profile.write_flamegraph(id, create("flamegraph.svg"));
        drawn.expect("samples make a flamegraph");
        let written = profile.write_pprof(create("profile.pb"));
        written.expect("criterion's directory can be written");
    }
}
