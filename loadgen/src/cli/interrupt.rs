//! Ctrl-C, SIGTERM and SIGHUP: the first asks the run to stop and report, the second ends the process, whatever waits
//! for readers. Before anything runs the first one ends it. All SIGHUPs are one: of a terminal that closes, a process may
//! hear from the shell and from the system.

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

/// Interrupts from inside this process: a key of the full-screen view counts as a signal does.
#[derive(Clone, Debug)]
pub(super) struct Interrupter {
    keys: UnboundedSender<()>,
    cancel: Arc<AtomicBool>,
    /// Whether there is something to stop and report on.
    runs: Arc<AtomicBool>,
    /// Is notified where `cancel` is set.
    canceled: Arc<Notify>,
    /// Files to be removed by what ends the process without unwinding.
    temporary: Arc<Mutex<Vec<PathBuf>>>,
}

impl Interrupter {
    /// The run begins: from here on the first interrupt asks it to stop.
    pub(super) fn begin(&self) {
        // Ordering: as in `watch`.
        self.runs.store(true, Ordering::Relaxed);
    }

    /// An interrupt that ends the process removes this file, too.
    pub(super) fn remove_at_end(&self, file: &Path) {
        let temporary = self.temporary.lock();
        let mut temporary = temporary.unwrap_or_else(PoisonError::into_inner);
        temporary.push(file.to_owned());
    }

    /// Waits for the interrupt that asks to stop; for one caller.
    pub(super) async fn stopped(&self) {
        self.canceled.notified().await;
    }

    /// As if Ctrl-C had been pressed.
    #[cfg_attr(
        not(feature = "tui"),
        expect(dead_code, reason = "only the full-screen view reads keys")
    )]
    pub(super) fn interrupt(&self) {
        if self.keys.send(()).is_err() {
            // The thread has ended. The run can still be asked to stop.
            // Ordering: as in `watch`.
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

/// Watches for interrupts on a thread of its own, which ends with the process. `cancel` is set by
/// the first; `temporary` are removed by the second, or by the first before [`Interrupter::begin`],
/// which run no destructors. Returns when the signals are caught.
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
            // Without it an interrupt ends the process at once, as it does by default.
            let Ok(runtime) = runtime else { return };
            runtime.block_on(async {
                let signals = Signals::catch();
                // The caller of `watch` waits for this.
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
                // Ordering: an interrupt that comes as the run begins may end it either way.
                if !runs.load(Ordering::Relaxed) {
                    if !quiet {
                        say("interrupted: nothing has run");
                    }
                    end();
                }
                // Ordering: the flag guards no other data, the run only has to see it at some time.
                cancel.store(true, Ordering::Relaxed);
                canceled.notify_one();
                if !quiet {
                    say("interrupted: stopping (again to end at once)");
                }
                signals.next(&mut pressed).await;
                end();
            });
        });
    // Without the thread an interrupt ends the process at once. A thread that has ended has sent, or
    // dropped its sender.
    if thread.is_ok() {
        let _ = is_caught.recv();
    }
    interrupter
}

/// Writes a line to standard error.
fn say(line: &'static str) {
    briefly(move || drop(writeln!(io::stderr(), "{line}")));
}

/// Does what may wait for a reader, and goes on without it where that takes long.
fn briefly(act: impl FnOnce() + Send + 'static) {
    let (done, is_done) = std::sync::mpsc::channel();
    // Without a thread it is not done at all.
    let _thread = std::thread::Builder::new().spawn(move || {
        act();
        let _late = done.send(());
    });
    let _done = is_done.recv_timeout(Duration::from_secs(1));
}

/// The signals that interrupt.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// None where it is ignored, as nohup does: the process is to outlive the terminal. None after the first, too.
    hangup: Option<Signal>,
}

impl Signals {
    /// Catches them from now on.
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

    /// Waits for the next one, or for a key.
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

/// Whether this process was started with SIGHUP ignored, as far as `/proc` says.
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Signals are counted from 1, which SIGHUP is.
    ignored.is_some_and(|mask| mask & 1 != 0)
}
