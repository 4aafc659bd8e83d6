//! `fuzz TARGET [--time 1h] [--runs N] [--seed S] [--out DIR]`: runs a fuzz target, or `all` in turn, until
//! an input breaks its claim; that one is made small and saved. `fuzz TARGET --input FILE` runs one input
//! again, `fuzz --list` shows the targets.
//!
//! Exit status: 0 when no input broke a claim, 1 when one did, took longer than [`SLOWEST`] or something
//! can't be read, 2 for wrong usage. Where an input ends the process at once (a stack that overflows),
//! `DIR/TARGET-running` tells the seed and about how many inputs it takes to come there again.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, io, panic, thread};

use podstorm_loadgen::units::parse_duration_ns;
use podstorm_tests::fuzz::{self, Limit, TARGETS, Target};

const USAGE: &str = "usage: fuzz TARGET|all [--time 1h] [--runs N] [--seed S] [--out DIR]
       fuzz TARGET --input FILE
       fuzz --list";

/// How long one input may take; beyond it the parser is as good as stuck.
const SLOWEST: Duration = Duration::from_secs(10);

/// How often progress is told and noted down.
const NOTED_EVERY: Duration = Duration::from_secs(5);

struct Args {
    targets: Vec<Target>,
    limit: Limit,
    seed: u64,
    out: PathBuf,
    input: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    if args == ["--list"] {
        for target in TARGETS {
            tell(&format!("{:18} {}", target.name, target.claim));
        }
        return ExitCode::SUCCESS;
    }
    match read_args(&args) {
        Err(problem) => {
            complain(&format!("fuzz: {problem}\n\n{USAGE}"));
            ExitCode::from(2)
        }
        Ok(args) => match run(&args) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(error) => {
                complain(&format!("fuzz: {error}"));
                ExitCode::FAILURE
            }
        },
    }
}

fn read_args(args: &[String]) -> Result<Args, String> {
    let (name, rest) = args.split_first().ok_or("no target")?;
    let targets = match Target::by_name(name) {
        Some(target) => vec![target],
        None if name == "all" => TARGETS.to_vec(),
        None => {
            let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            return Err(format!(
                "no target {name:?}; there are {}",
                names.join(", ")
            ));
        }
    };
    let mut read = Args {
        targets,
        limit: Limit {
            runs: None,
            time: None,
        },
        seed: 1,
        out: PathBuf::from("target/fuzz"),
        input: None,
    };
    for pair in rest.chunks(2) {
        let [flag, value] = pair else {
            return Err(format!("{} needs a value", pair[0]));
        };
        let number = || {
            value
                .parse()
                .map_err(|_| format!("{flag}: {value:?} is no number"))
        };
        match flag.as_str() {
            "--time" => {
                let ns = parse_duration_ns(value).map_err(|error| format!("--time: {error}"))?;
                read.limit.time = Some(Duration::from_nanos(ns.unsigned_abs()));
            }
            "--runs" => read.limit.runs = Some(number()?),
            "--seed" => read.seed = number()?,
            "--out" => read.out = PathBuf::from(value),
            "--input" => read.input = Some(PathBuf::from(value)),
            other => return Err(format!("unknown flag {other}")),
        }
    }
    if read.limit.runs.is_none() && read.limit.time.is_none() {
        read.limit.time = Some(Duration::from_secs(60));
    }
    Ok(read)
}

/// Whether all claims held.
fn run(args: &Args) -> io::Result<bool> {
    if let Some(path) = &args.input {
        // A panic is the answer, with its backtrace.
        let input = fs::read(path)?;
        for target in &args.targets {
            (target.run)(&input);
        }
        tell("The claim holds for this input.");
        return Ok(true);
    }
    fs::create_dir_all(&args.out)?;
    panic::set_hook(Box::new(|_| ()));
    let mut all_hold = true;
    for target in &args.targets {
        all_hold &= run_target(target, args)?;
    }
    Ok(all_hold)
}

/// What the watchdog knows of the run: the input, and since when.
type Running = Arc<Mutex<Option<(Vec<u8>, Instant)>>>;

fn run_target(target: &Target, args: &Args) -> io::Result<bool> {
    let running = Running::default();
    watch(target.name, args.out.clone(), &running);
    let note = args.out.join(format!("{}-running", target.name));
    let (begin, mut noted) = (now(), None::<Instant>);
    let summary = fuzz::run(
        target,
        target.corpus()?,
        args.seed,
        args.limit,
        |run, input| {
            let now = now();
            *running.lock().unwrap_or_else(PoisonError::into_inner) = Some((input.to_vec(), now));
            if noted.is_none_or(|at| now - at >= NOTED_EVERY) {
                noted = Some(now);
                let seconds = begin.elapsed().as_secs();
                let text = format!(
                    "{}: {run} inputs in {seconds} s, seed {}",
                    target.name, args.seed
                );
                // Should the disk be full the run goes on; only the note is missing.
                let _ = fs::write(&note, &text);
                if seconds > 0 {
                    complain(&text);
                }
            }
        },
    );
    *running.lock().unwrap_or_else(PoisonError::into_inner) = None;
    fs::remove_file(&note)?;
    let counts = format!("{} inputs, {} outcomes", summary.runs, summary.outcomes);
    let Some(crash) = summary.crash else {
        tell(&format!("{:18} ok, {counts}", target.name));
        return Ok(true);
    };
    let small = fuzz::minimise(target, &crash);
    let path = save(&args.out, &format!("{}-crash", target.name), &small.input)?;
    tell(&format!(
        "{:18} FAILED after {counts}: {}\n  claim: {}\n  input ({} bytes, from {}): {:?}\n  again: fuzz {} --input {}",
        target.name,
        small.message,
        target.claim,
        small.input.len(),
        crash.input.len(),
        String::from_utf8_lossy(&small.input),
        target.name,
        path.display(),
    ));
    Ok(false)
}

#[expect(
    clippy::disallowed_methods,
    reason = "progress and time-outs are for people, not for the results"
)]
fn now() -> Instant {
    Instant::now()
}

/// Ends the process over an input that takes too long, and saves it.
fn watch(name: &'static str, out: PathBuf, running: &Running) {
    let running = running.clone();
    thread::spawn(move || {
        loop {
            thread::sleep(Duration::from_secs(1));
            let running = running.lock().unwrap_or_else(PoisonError::into_inner);
            match &*running {
                Some((input, since)) if since.elapsed() > SLOWEST => {
                    let saved = save(&out, &format!("{name}-slow"), input);
                    tell(&format!(
                        "{name:18} FAILED: an input takes over {SLOWEST:?}: {saved:?}"
                    ));
                    std::process::exit(1);
                }
                _ => {}
            }
        }
    });
}

fn save(folder: &Path, prefix: &str, input: &[u8]) -> io::Result<PathBuf> {
    let free = |number: &u32| !folder.join(format!("{prefix}-{number}")).exists();
    let number = (0..).find(free).expect("numbers don't end");
    let path = folder.join(format!("{prefix}-{number}"));
    fs::write(&path, input)?;
    Ok(path)
}

fn tell(text: &str) {
    // Nobody listens when the output is closed.
    let _ = writeln!(io::stdout(), "{text}");
}

fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}
