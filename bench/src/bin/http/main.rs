//! The API server over HTTP, with server and clients in separate processes: our server, plain and
//! with TLS and a token, and for comparison a real kube-apiserver 1.20.2 with etcd. The clients are
//! our own, `wrk`, and the real kube-controller-manager. Writes `bench/results/http.md`.
//!
//! This program is not part of the library, because code that is compiled together with the counted
//! hot loops changes how these are inlined.

mod client;
mod manager;
mod rows;
mod server;
mod soak;
mod table;
mod wrk;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, ensure};
use clap::Parser;
use podstorm_bench::results::package_directory;
use podstorm_bench::results::render::circumstances;
use podstorm_bench::results::run::{Run, now};
use podstorm_bench::write_whole;
use rows::Sizes;

/// Measure the API server over HTTP, ours and a real one, and write bench/results/http.md
///
/// Needs `wrk` and the output of tests/control-plane/build; builds loadgen. Takes about ten
/// minutes.
#[derive(Debug, Parser)]
struct Arguments {
    /// Do a little of everything, to show that it runs; writes nothing
    #[arg(long)]
    smoke: bool,

    /// Instead put only our server under mixed load, and check whether its memory stays flat;
    /// writes nothing
    ///
    /// Prints the resident memory of each minute and a verdict. Exits with 1 if the second half is
    /// not within 5 %.
    #[arg(long, conflicts_with = "smoke")]
    soak: bool,

    /// How long --soak takes: at least 2 minutes, half of them to fill the server and half to judge
    /// it
    #[arg(long, requires = "soak", default_value_t = 15, value_parser = clap::value_parser!(u64).range(2..=1440))]
    minutes: u64,

    /// The program that --soak serves with [default: a release build]
    #[arg(long, requires = "soak")]
    loadgen: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.soak {
        true => soaked(&arguments),
        false => run(&arguments).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "http: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Runs the soak. Returns whether the server's memory was flat.
fn soaked(arguments: &Arguments) -> anyhow::Result<bool> {
    let loadgen = match &arguments.loadgen {
        Some(loadgen) => loadgen.clone(),
        None => podstorm_bench::whole::loadgen()?,
    };
    runtime()?.block_on(soak::soak(loadgen, arguments.minutes))
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    runtime.context("cannot start threads")
}

fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let root = package_directory().join("..");
    let loadgen = podstorm_bench::whole::loadgen()?;
    let control_plane = Command::new(root.join("tests/control-plane/build"))
        .arg("--where")
        .output()
        .context("tests/control-plane/build")?;
    let said = String::from_utf8_lossy(&control_plane.stderr);
    ensure!(control_plane.status.success(), "{}", said.trim());
    let control_plane = String::from_utf8_lossy(&control_plane.stdout);
    let folder = tempfile::TempDir::new().context("cannot create a temporary folder")?;
    let programs = Programs {
        loadgen: &loadgen,
        control_plane: &PathBuf::from(control_plane.trim()),
        folder: folder.path(),
    };
    let sizes = match arguments.smoke {
        true => Sizes::SMALL,
        false => Sizes::FULL,
    };
    raise_open_files()?;
    let mut run = Run::begin("cargo run --release --bin http".to_owned());
    let rows = runtime()?.block_on(rows::all(&programs, &sizes, |line| {
        let _ = writeln!(io::stderr(), "{line}");
    }))?;
    run.end(now());
    let text = table::render(&rows, &format!("{}.", circumstances(&run)));
    if !arguments.smoke {
        let path = package_directory().join("results/http.md");
        write_whole("the results", &path, &text)?;
    }
    io::stdout().write_all(text.as_bytes())?;
    Ok(())
}

/// The programs to measure, and the folder for their files.
#[derive(Clone, Copy, Debug)]
struct Programs<'a> {
    /// The release build of `loadgen`.
    loadgen: &'a Path,
    /// The folder with etcd, kube-apiserver and kube-controller-manager.
    control_plane: &'a Path,
    /// The folder in which the programs' files are created.
    folder: &'a Path,
}

/// Raises this process's limit on open files to the maximum allowed.
///
/// # Errors
/// Fails if the system refuses.
fn raise_open_files() -> anyhow::Result<()> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, most) =
        getrlimit(Resource::RLIMIT_NOFILE).context("cannot raise the limit of open files")?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most).context("cannot raise the limit of open files")
}
