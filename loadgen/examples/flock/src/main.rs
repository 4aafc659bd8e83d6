//! `loadgen` with an additional controller for Flocks: `flock serve`,
//! `flock fuzz --workload flock`.

mod campaign;
mod controller;

use std::process::ExitCode;

use podstorm_faultsim::rows::Subjects;
use podstorm_sim::engine::registry::Registry;

use controller::Flocks;

fn main() -> ExitCode {
    let registry = Registry::upstream().with::<Flocks>().install();
    let subjects = Subjects::upstream().with::<Flocks>().install();
    assert!(
        registry.is_ok() && subjects.is_ok(),
        "the rows have not been read before"
    );
    podstorm_loadgen::cli::main()
}
