//! Ctrl-C and SIGTERM: the first asks the run to stop and report, the second ends the process.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::report::progress;

/// The exit code of an interrupted run.
pub(super) const EXIT_INTERRUPTED: u8 = 130;

/// Interrupts from inside this process: a key of the full-screen view counts as a signal does.
#[derive(Clone, Debug)]
pub(super) struct Interrupter {
    keys: UnboundedSender<()>,
    cancel: Arc<AtomicBool>,
}

impl Interrupter {
    /// As if Ctrl-C had been pressed.
    #[cfg_attr(
        not(feature = "tui"),
        expect(dead_code, reason = "only the full-screen view reads keys")
    )]
    pub(super) fn interrupt(&self) {
        if self.keys.send(()).is_err() {
            // Nobody watches: the run can still be asked to stop.
            // Ordering: as in `watch`.
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

/// Watches for interrupts on a thread of its own, which ends with the process. `cancel` is set by
/// the first; `temporary` are removed by the second, which runs no destructors.
pub(super) fn watch(cancel: &Arc<AtomicBool>, temporary: Vec<PathBuf>, quiet: bool) -> Interrupter {
    let (keys, mut pressed) = unbounded_channel();
    let interrupter = Interrupter {
        keys,
        cancel: Arc::clone(cancel),
    };
    let cancel = Arc::clone(cancel);
    let thread = std::thread::Builder::new()
        .name("interrupts".into())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            // Without it an interrupt ends the process at once, as it does by default.
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                if wait(&mut pressed).await.is_err() {
                    return;
                }
                // Ordering: the flag guards no other data, the run only has to see it at some time.
                cancel.store(true, Ordering::Relaxed);
                if !quiet {
                    let _ = writeln!(io::stderr(), "interrupted: stopping (again to end at once)");
                }
                if wait(&mut pressed).await.is_ok() {
                    progress::give_screen_back();
                    for temporary in temporary {
                        let _ = std::fs::remove_file(temporary);
                    }
                    std::process::exit(i32::from(EXIT_INTERRUPTED));
                }
            });
        });
    // As above: no thread, no grace.
    drop(thread);
    interrupter
}

#[cfg(unix)]
async fn wait(pressed: &mut UnboundedReceiver<()>) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result,
        _ = terminate.recv() => Ok(()),
        Some(()) = pressed.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn wait(pressed: &mut UnboundedReceiver<()>) -> io::Result<()> {
    tokio::select! {
        result = tokio::signal::ctrl_c() => result,
        Some(()) = pressed.recv() => Ok(()),
    }
}
