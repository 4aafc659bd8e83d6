//! `--flamegraph`, `--pprof` and `--folded`: the run is sampled when one of them is given.

use anyhow::{Result, bail};

use super::flags::RunFlags;
use crate::report::output::{Inputs, Output};

/// Where the profile goes, and how often to sample.
#[derive(Debug)]
#[cfg_attr(
    not(feature = "profile"),
    expect(dead_code, reason = "it can't be made without the feature")
)]
pub(super) struct ProfileOutputs {
    flamegraph: Option<Output>,
    pprof: Option<Output>,
    folded: Option<Output>,
    hertz: u16,
}

impl ProfileOutputs {
    /// Opens what is asked for; none when nothing is.
    ///
    /// # Errors
    /// An output that can't be written or is an input; a rate without an output; a build that can't sample.
    pub(super) fn open(flags: &RunFlags, inputs: &Inputs) -> Result<Option<ProfileOutputs>> {
        let asked = [&flags.flamegraph, &flags.pprof, &flags.folded];
        if asked.iter().all(|path| path.is_none()) {
            if flags.profile_hertz.is_some() {
                bail!("--profile-hertz needs a profile: --flamegraph, --pprof or --folded");
            }
            return Ok(None);
        }
        open(flags, inputs).map(Some)
    }

    /// The outputs that are there.
    pub(super) fn all(&self) -> impl Iterator<Item = &Output> {
        let outputs = [&self.flamegraph, &self.pprof, &self.folded];
        outputs.into_iter().flatten()
    }
}

#[cfg(not(feature = "profile"))]
fn open(_flags: &RunFlags, _inputs: &Inputs) -> Result<ProfileOutputs> {
    bail!(
        "this build of loadgen can't profile a run: build it with the feature `profile`, which is \
         on by default"
    )
}

#[cfg(feature = "profile")]
fn open(flags: &RunFlags, inputs: &Inputs) -> Result<ProfileOutputs> {
    use std::path::PathBuf;
    let open = |flag, path: &Option<PathBuf>| {
        let path = path.as_ref();
        path.map(|path| Output::open(flag, path, inputs))
            .transpose()
    };
    Ok(ProfileOutputs {
        flamegraph: open("--flamegraph", &flags.flamegraph)?,
        pprof: open("--pprof", &flags.pprof)?,
        folded: open("--folded", &flags.folded)?,
        hertz: flags.profile_hertz.unwrap_or(crate::profile::HERTZ),
    })
}

/// Runs `work`, sampled when outputs are given, and then has the profile written; the first value
/// is what `work` gave, the second how the profile fared.
///
/// # Errors
/// The sampler can't be started: nothing has run.
#[cfg(feature = "profile")]
pub(super) fn sampled<T>(
    outputs: Option<ProfileOutputs>,
    title: &str,
    work: impl FnOnce() -> T,
) -> Result<(T, Result<()>)> {
    let Some(outputs) = outputs else {
        return Ok((work(), Ok(())));
    };
    let sampler = crate::profile::Sampler::start(outputs.hertz)?;
    let done = work();
    let profile = sampler.stop();
    let write = || {
        let profile = profile?;
        if let Some(output) = outputs.flamegraph {
            output.write(|out| profile.write_flamegraph(title, out))?;
        }
        if let Some(output) = outputs.pprof {
            output.write(|out| profile.write_pprof(out))?;
        }
        if let Some(output) = outputs.folded {
            output.write(|out| profile.write_folded(out))?;
        }
        Ok(())
    };
    Ok((done, write()))
}

/// Runs `work`; without the feature there are no outputs.
///
/// # Errors
/// None.
#[cfg(not(feature = "profile"))]
pub(super) fn sampled<T>(
    _outputs: Option<ProfileOutputs>,
    _title: &str,
    work: impl FnOnce() -> T,
) -> Result<(T, Result<()>)> {
    Ok((work(), Ok(())))
}
