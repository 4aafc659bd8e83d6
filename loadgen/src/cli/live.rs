//! `--tui`: checks that the full-screen view is possible, and starts it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Result;

use super::flags::RunFlags;
use super::interrupt::Interrupter;
use crate::report::progress::ProgressView;
use crate::settings::Settings;

/// Refuses `--tui` if the full-screen view can't be shown.
///
/// # Errors
/// `--tui` is used with `--quiet`, without a terminal, on a terminal that does not support drawing,
/// or in a build without the view.
pub(super) fn check(flags: &RunFlags) -> Result<()> {
    if !flags.tui || flags.print_scenario.is_some() || flags.dry_run {
        return Ok(());
    }
    if flags.quiet {
        anyhow::bail!("--tui shows the run and --quiet shows nothing: use only one of them");
    }
    refuse_blind()
}

#[cfg(not(feature = "tui"))]
fn refuse_blind() -> Result<()> {
    anyhow::bail!(
        "--tui: this build of loadgen has no full-screen view: build it with `--features tui`, or \
         leave the flag out"
    )
}

#[cfg(feature = "tui")]
fn refuse_blind() -> Result<()> {
    use std::io::{self, IsTerminal};
    if !io::stderr().is_terminal() {
        anyhow::bail!(
            "--tui: standard error, which the view is drawn on, is not a terminal: leave the flag \
             out, and progress is printed in plain lines"
        );
    }
    if std::env::var_os("TERM").is_some_and(|value| value == "dumb") {
        anyhow::bail!(
            "--tui: the terminal can't be drawn on, says TERM=dumb: leave the flag out, or set \
             TERM to what the terminal is, such as xterm"
        );
    }
    Ok(())
}

/// Starts the view. `metrics` is the address at which the run's metrics are served.
///
/// # Errors
/// The terminal can't be drawn on.
#[cfg(feature = "tui")]
pub(super) fn start(
    settings: &Settings,
    metrics: Option<SocketAddr>,
    cancel: &Arc<AtomicBool>,
    interrupter: Interrupter,
) -> Result<ProgressView> {
    use crate::report::live::{About, LiveView};
    use anyhow::Context;
    let notes = metrics.map(|address| format!("metrics at http://{address}/metrics"));
    let about = About::new(settings, notes.into_iter().collect());
    let view = LiveView::start(about, Arc::clone(cancel), move || interrupter.interrupt());
    Ok(ProgressView::Live(view.context(
        "--tui: the view can't be shown; run without --tui",
    )?))
}

/// Never called, because `check` refuses `--tui`.
///
/// # Errors
/// Always fails.
#[cfg(not(feature = "tui"))]
pub(super) fn start(
    _settings: &Settings,
    _metrics: Option<SocketAddr>,
    _cancel: &Arc<AtomicBool>,
    _interrupter: Interrupter,
) -> Result<ProgressView> {
    refuse_blind().map(|()| ProgressView::Quiet)
}
