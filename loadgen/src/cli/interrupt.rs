//! Ctrl-C and SIGTERM: the first asks the run to stop and report, the second ends the process.

use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The exit code of an interrupted run.
pub(super) const EXIT_INTERRUPTED: u8 = 130;

/// Watches for interrupts on a thread of its own, which ends with the process. `cancel` is set by
/// the first; `temporary` are removed by the second, which runs no destructors.
pub(super) fn watch(cancel: &Arc<AtomicBool>, temporary: Vec<PathBuf>, quiet: bool) {
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
                if wait().await.is_err() {
                    return;
                }
                // Ordering: the flag guards no other data, the run only has to see it at some time.
                cancel.store(true, Ordering::Relaxed);
                if !quiet {
                    let _ = writeln!(io::stderr(), "interrupted: stopping (again to end at once)");
                }
                if wait().await.is_ok() {
                    for temporary in temporary {
                        let _ = std::fs::remove_file(temporary);
                    }
                    std::process::exit(i32::from(EXIT_INTERRUPTED));
                }
            });
        });
    // As above: no thread, no grace.
    drop(thread);
}

#[cfg(unix)]
async fn wait() -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        result = tokio::signal::ctrl_c() => result,
        _ = terminate.recv() => Ok(()),
    }
}

#[cfg(not(unix))]
async fn wait() -> io::Result<()> {
    tokio::signal::ctrl_c().await
}
