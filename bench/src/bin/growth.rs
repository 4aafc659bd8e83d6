//! `growth`: the factor by which the instructions of a request grow if it has ten times the
//! entries. Callgrind counts the instructions, so the result does not depend on the machine's load.
//! Fails if a factor exceeds twelve.

use std::fs;
use std::hint::black_box;
use std::io::{self, Write};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};
use clap::Parser;
use comfy_table::Table;
use podstorm_bench::growth::{CASES, Case, Prepared};

/// The maximum growth factor of the instructions for ten times the entries.
const GROWTH_MAX: f64 = 12.0;

/// Count the instructions of requests with some number of entries, and with ten times as many.
#[derive(Debug, Parser)]
struct Flags {
    /// The smaller number of entries.
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u32).range(10..=10_000))]
    entries: u32,
    /// Only requests whose names contain this text.
    #[arg(long, default_value = "", value_name = "TEXT")]
    only: String,
    /// Send the requests, for callgrind.
    #[arg(long, hide = true)]
    send: bool,
}

fn main() -> Result<ExitCode> {
    let flags = Flags::parse();
    let cases = CASES.iter().filter(|case| case.name.contains(&flags.only));
    let cases: Vec<&Case> = cases.collect();
    ensure!(
        !cases.is_empty(),
        "no request's name contains {:?} (--only)",
        flags.only
    );
    let few = usize::try_from(flags.entries)?;
    let sizes = [few, 10 * few];
    if flags.send {
        for case in cases {
            // Build everything that a process builds only once, such as schemas.
            case.prepare(3).ask();
            for entries in sizes {
                counting_begins(&case.prepare(entries)).ask();
                counting_ends();
            }
        }
        return Ok(ExitCode::SUCCESS);
    }
    let counts = instructions(&flags)?;
    ensure!(
        counts.len() == 2 * cases.len(),
        "callgrind counted {} of {} requests",
        counts.len(),
        2 * cases.len()
    );
    let mut table = Table::new();
    table.load_style(comfy_table::presets::ASCII_MARKDOWN);
    let [few, many] = sizes.map(|entries| format!("{entries} entries"));
    table.set_header(["request", &few, &many, "times"]);
    let mut steepest: f64 = 0.0;
    for (case, counts) in cases.iter().zip(counts.chunks_exact(2)) {
        let times = counts[1] / counts[0];
        steepest = steepest.max(times);
        let millions = |count: f64| format!("{:.1} M", count / 1e6);
        let row = [
            millions(counts[0]),
            millions(counts[1]),
            format!("{times:.1}"),
        ];
        table.add_row([case.name.to_owned()].into_iter().chain(row));
    }
    writeln!(io::stdout(), "{table}")?;
    ensure!(
        steepest <= GROWTH_MAX,
        "a request takes more than {GROWTH_MAX} times as many instructions with ten times the entries"
    );
    Ok(ExitCode::SUCCESS)
}

/// Callgrind resets its counters when it enters this function.
#[inline(never)]
fn counting_begins(prepared: &Prepared) -> &Prepared {
    black_box(prepared)
}

/// Callgrind writes its counters when it enters this function.
#[inline(never)]
fn counting_ends() {
    black_box(());
}

/// Returns the instructions of each request, summed over all threads.
fn instructions(flags: &Flags) -> Result<Vec<f64>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("counts");
    let run = Command::new("valgrind")
        .args(["--quiet", "--tool=callgrind"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg("--dump-before=*growth::counting_*")
        .arg(std::env::current_exe()?)
        .args(["--send", "--only", &flags.only])
        .args(["--entries", &flags.entries.to_string()])
        .stdin(Stdio::null())
        .status()
        .context("cannot run valgrind; install it")?;
    ensure!(run.success(), "the requests failed under valgrind: {run}");
    let mut counts = Vec::new();
    for number in (2..).step_by(2) {
        let Ok(text) = fs::read_to_string(file.with_extension(number.to_string())) else {
            break;
        };
        let total = text.lines().find_map(|line| line.strip_prefix("totals: "));
        let total = total.context("callgrind wrote no total")?;
        counts.push(total.trim().parse().context("callgrind's total")?);
    }
    Ok(counts)
}
