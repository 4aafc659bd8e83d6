//! Ctrl-C, SIGTERM and SIGHUP. The first signal asks the run to stop and report; the second ends
//! the process, even if a writer is waiting for its reader. Before the run begins, the first signal
//! ends the process. Only the first SIGHUP counts: when a terminal closes, both the shell and the
//! system may send one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::report::progress;

/// The exit code of an interrupted run.
pub(super) const EXIT_INTERRUPTED: u8 = 130;

/// A handle for interrupts from inside this process: a key in the full-screen view counts as a
/// signal.
#[derive(Clone, Debug)]
pub(super) struct Interrupter {
    keys: UnboundedSender<()>,
    cancel: Arc<AtomicBool>,
    /// Whether the run has begun, so that it can stop and report.
    runs: Arc<AtomicBool>,
    /// Notified when `cancel` is set.
    canceled: Arc<Notify>,
    /// Files to remove if the process exits without running destructors.
    temporary: Arc<Mutex<Vec<PathBuf>>>,
}

impl Interrupter {
    /// Marks the start of the run: from now on, the first interrupt asks the run to stop.
    pub(super) fn begin(&self) {
        // Ordering: see `watch`.
        self.runs.store(true, Ordering::Relaxed);
    }

    /// Adds a file that an interrupt removes before it ends the process.
    pub(super) fn remove_at_end(&self, file: &Path) {
        let temporary = self.temporary.lock();
        let mut temporary = temporary.unwrap_or_else(PoisonError::into_inner);
        temporary.push(file.to_owned());
    }

    /// Waits until an interrupt asks the run to stop. Supports only one caller.
    pub(super) async fn stopped(&self) {
        self.canceled.notified().await;
    }

    /// Acts as if Ctrl-C had been pressed.
    #[cfg_attr(
        not(feature = "tui"),
        expect(dead_code, reason = "only the full-screen view reads keys")
    )]
    pub(super) fn interrupt(&self) {
        if self.keys.send(()).is_err() {
            // The thread has ended: set the flag here. Relaxed: see `watch`.
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

/// Starts a thread that watches for interrupts until the process ends. The first interrupt sets
/// `cancel`. The second one, or the first before [`Interrupter::begin`], removes `temporary` and
/// exits without running destructors. Returns once the signals are caught.
pub(super) fn watch(cancel: &Arc<AtomicBool>, temporary: Vec<PathBuf>, quiet: bool) -> Interrupter {
    let (keys, mut pressed) = unbounded_channel();
    let interrupter = Interrupter {
        keys,
        cancel: Arc::clone(cancel),
        runs: Arc::default(),
        canceled: Arc::default(),
        temporary: Arc::new(Mutex::new(temporary)),
    };
    let runs = Arc::clone(&interrupter.runs);
    let canceled = Arc::clone(&interrupter.canceled);
    let temporary = Arc::clone(&interrupter.temporary);
    let cancel = Arc::clone(cancel);
    let (caught, is_caught) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new()
        .name("interrupts".into())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            // Without a runtime, an interrupt ends the process immediately, which is the default.
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let signals = Signals::catch();
                // The caller of `watch` waits for this message.
                let _ = caught.send(());
                let Ok(mut signals) = signals else { return };
                let end = || {
                    let files = temporary.lock().unwrap_or_else(PoisonError::into_inner);
                    for file in &*files {
                        let _ = std::fs::remove_file(file);
                    }
                    briefly(progress::give_screen_back);
                    std::process::exit(i32::from(EXIT_INTERRUPTED));
                };
                signals.next(&mut pressed).await;
                // Relaxed: an interrupt at the moment when the run begins may act either way.
                if !runs.load(Ordering::Relaxed) {
                    if !quiet {
                        say("interrupted before the run");
                    }
                    end();
                }
                // Relaxed: the flag guards no other data; the run must only see it eventually.
                cancel.store(true, Ordering::Relaxed);
                canceled.notify_one();
                if !quiet {
                    say("interrupted: stopping (interrupt again to exit immediately)");
                }
                signals.next(&mut pressed).await;
                end();
            });
        });
    // If the thread can't be started, an interrupt ends the process immediately. A thread that has
    // ended has sent its message or dropped its sender, so this never blocks.
    if thread.is_ok() {
        let _ = is_caught.recv();
    }
    interrupter
}

/// Writes a line to standard error.
fn say(line: &'static str) {
    briefly(move || drop(writeln!(io::stderr(), "{line}")));
}

/// Runs `act`, which may block on a reader, but waits for it for at most a second.
fn briefly(act: impl FnOnce() + Send + 'static) {
    let (done, is_done) = std::sync::mpsc::channel();
    // If no thread can be started, `act` is skipped.
    let _thread = std::thread::Builder::new().spawn(move || {
        act();
        let _late = done.send(());
    });
    let _done = is_done.recv_timeout(Duration::from_secs(1));
}

/// The signals that interrupt a run.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// `None` if SIGHUP is ignored, as under nohup, so that the process outlives the terminal. Also
    /// `None` after the first SIGHUP.
    hangup: Option<Signal>,
}

impl Signals {
    /// Registers the signal handlers.
    fn catch() -> io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: match ignores_hangup() {
                true => None,
                false => Some(signal(SignalKind::hangup())?),
            },
        })
    }

    /// Waits for the next signal or key.
    async fn next(&mut self, pressed: &mut UnboundedReceiver<()>) {
        let hung_up = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hung_up => self.hangup = None,
            Some(()) = pressed.recv() => {}
        }
    }
}

/// Reports whether this process was started with SIGHUP ignored, as `/proc` shows.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Bit 0 is signal 1, SIGHUP.
    ignored.is_some_and(|mask| mask & 1 != 0)
}
