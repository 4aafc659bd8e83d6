//! `--flamegraph`, `--pprof` and `--folded`: any of these flags makes loadgen sample the run.

use anyhow::{Result, bail};

use super::flags::RunFlags;
use super::outputs::Outputs;
use crate::report::output::{Inputs, Output};

/// Opens the requested output files for profiles.
///
/// # Errors
/// An output can't be written or is an input, a sampling rate is given without an output, or the
/// build can't sample.
pub(super) fn open(flags: &RunFlags, inputs: &Inputs, outputs: &mut Outputs) -> Result<()> {
    let asked = [
        ("--flamegraph", &flags.flamegraph),
        ("--pprof", &flags.pprof),
        ("--folded", &flags.folded),
    ];
    let is_asked = asked.iter().any(|(_, path)| path.is_some());
    if !is_asked && flags.profile_hertz.is_some() {
        bail!("--profile-hertz needs an output: --flamegraph, --pprof or --folded");
    }
    if is_asked && cfg!(not(feature = "profile")) {
        bail!(
            "this build of loadgen can't profile a run: build it with `--features profile`, or run \
             without these flags"
        );
    }
    for (flag, path) in asked {
        outputs.open(flag, path.as_ref(), inputs)?;
    }
    Ok(())
}

/// Runs `work`. If there are outputs, samples it `hertz` times per second of CPU time and then
/// writes the profile. Returns the result of `work` and the outcome of writing the profile.
///
/// # Errors
/// The sampler can't be started; `work` has not run then.
#[cfg(feature = "profile")]
pub(super) fn sampled<T>(
    outputs: Vec<Output>,
    hertz: Option<u16>,
    title: &str,
    work: impl FnOnce() -> T,
) -> Result<(T, Result<()>)> {
    if outputs.is_empty() {
        return Ok((work(), Ok(())));
    }
    let sampler = crate::profile::Sampler::start(hertz.unwrap_or(crate::profile::HERTZ))?;
    let done = work();
    let profile = sampler.stop();
    let write = || {
        let profile = profile?;
        for output in outputs {
            match output.flag() {
                "--flamegraph" => output.write(|out| profile.write_flamegraph(title, out))?,
                "--pprof" => output.write(|out| profile.write_pprof(out))?,
                _ => output.write(|out| profile.write_folded(out))?,
            }
        }
        Ok(())
    };
    Ok((done, write()))
}

/// Runs `work`. Without the feature `profile` there are no outputs.
///
/// # Errors
/// Never fails.
#[cfg(not(feature = "profile"))]
pub(super) fn sampled<T>(
    _outputs: Vec<Output>,
    _hertz: Option<u16>,
    _title: &str,
    work: impl FnOnce() -> T,
) -> Result<(T, Result<()>)> {
    Ok((work(), Ok(())))
}
