//! No bench: the last of them in cargo's order, which is that of the names. After a full
//! `cargo bench` it prints the table of targets and writes it to `bench/results/`, as the program
//! `targets` does; with `--test` it only checks that the table can be made.

use std::time::SystemTime;

use podstorm_bench::results::machine::Machine;
use podstorm_bench::results::run::{Run, TABLE_ELSEWHERE, now, sources_changed};
use podstorm_bench::results::{
    is_smoke_test, measurements_directory, package_directory, render, table, targets,
};

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let targets = targets::load_own()?;
    if is_smoke_test() {
        let nothing = package_directory().join("results/none");
        let lines = table::lines(targets, &nothing, SystemTime::UNIX_EPOCH, &Machine::here())?;
        let run = Run::begin(String::new());
        assert!(render::markdown(&lines, &run).len() > lines.len());
        return Ok(());
    }
    // With a filter, a list or profiles there is no table, nor where another prints it.
    let full = ["--bench", "--quick", "--noplot", "--quiet", "--verbose"];
    let is_full = arguments.iter().all(|argument| full.contains(&&**argument));
    if !is_full || std::env::var_os(TABLE_ELSEWHERE).is_some() {
        return Ok(());
    }

    let quick = arguments.iter().any(|argument| argument == "--quick");
    let quick = if quick { " -- --quick" } else { "" };
    let mut run = Run::begin(format!("cargo bench -p podstorm-bench{quick}"));
    run.load_before = None;
    run.fresh_since = "the last change of the sources".to_owned();
    run.end(now());
    let measurements = measurements_directory();
    let lines = table::lines(targets, &measurements, sources_changed(), &run.machine)?;
    render::write(&lines, &run, &package_directory().join("results"))?;
    #[expect(clippy::print_stdout, reason = "benches report there")]
    {
        println!(
            "\n{}Written: bench/results/targets.md, bench/results/targets.json",
            render::terminal(&lines, &run)
        );
    }
    Ok(())
}
