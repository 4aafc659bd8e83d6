//! A request log on its own thread: lines wait for a slow reader, requests don't.
//!
//! Requests append to a buffer under a lock; the thread takes the whole buffer and writes it
//! without the lock. Lines that don't fit in the buffer are dropped and counted.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use podstorm_http::{Answered, Log};

/// The maximum number of bytes in the buffer. The thread may be writing as many again.
const WAITING_MAX: usize = 1 << 20;
/// The maximum size of a write: the capacity of a pipe.
const PIECE: usize = 1 << 16;
/// How long shutdown waits for the reader to accept a piece.
const STUCK_AFTER: Duration = Duration::from_secs(1);

/// A log that never blocks. Dropping it writes the waiting lines, unless the reader is stuck.
#[derive(Debug)]
pub struct RequestLog(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    lines: Mutex<Lines>,
    /// Notified when `lines` changes.
    changed: Condvar,
    /// The total number of dropped lines.
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Lines {
    /// Whole lines, at most [`WAITING_MAX`] bytes.
    waiting: String,
    /// The number of lines dropped since the thread last took the buffer.
    missing: u64,
    /// The number of pieces written.
    written: u64,
    /// Whether the log was dropped, so that no more lines follow.
    is_closed: bool,
    /// Whether the thread has written everything.
    is_done: bool,
}

impl RequestLog {
    /// Starts the thread that writes to `out`.
    ///
    /// # Errors
    /// Fails if the thread can't be started.
    pub fn start(out: impl Write + Send + 'static) -> io::Result<RequestLog> {
        let shared = Arc::new(Shared::default());
        let writer = Arc::clone(&shared);
        Builder::new()
            .name("request-log".into())
            .spawn(move || writer.write_all(out))?;
        Ok(RequestLog(shared))
    }
}

impl Log for RequestLog {
    fn answered(&self, request: &Answered<'_>) {
        let Answered {
            method,
            path,
            status,
            took,
            user_agent,
            user,
        } = *request;
        let micros = took.as_micros();
        let mut lines = self.0.lines();
        let before = lines.waiting.len();
        // Quoted, because clients choose these names, which may contain spaces.
        let _fits = writeln!(
            lines.waiting,
            "{method} {path} {status} {micros}us {user_agent:?} {user:?}"
        );
        if lines.waiting.len() > WAITING_MAX {
            lines.waiting.truncate(before);
            lines.missing += 1;
            // Relaxed: nothing else depends on the count.
            self.0.dropped.fetch_add(1, Ordering::Relaxed);
        }
        drop(lines);
        self.0.changed.notify_one();
    }

    fn dropped(&self) -> u64 {
        // Relaxed: see the increment.
        self.0.dropped.load(Ordering::Relaxed)
    }
}

impl Drop for RequestLog {
    fn drop(&mut self) {
        let mut lines = self.0.lines();
        lines.is_closed = true;
        self.0.changed.notify_all();
        while !lines.is_done {
            let written = lines.written;
            let is_stuck = |lines: &mut Lines| !lines.is_done && lines.written == written;
            let waited = self
                .0
                .changed
                .wait_timeout_while(lines, STUCK_AFTER, is_stuck);
            let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                return;
            }
            lines = now;
        }
    }
}

impl Shared {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes lines as they arrive, until the log is closed and empty.
    fn write_all(&self, mut out: impl Write) {
        // Swapped with the buffer, so that neither string is reallocated.
        let mut taken = String::new();
        loop {
            let lines = self.lines();
            let is_empty = |lines: &mut Lines| lines.waiting.is_empty() && !lines.is_closed;
            let waited = self.changed.wait_while(lines, is_empty);
            let mut lines = waited.unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut taken, &mut lines.waiting);
            let missing = std::mem::take(&mut lines.missing);
            if taken.is_empty() {
                lines.is_done = true;
                self.changed.notify_all();
                return;
            }
            drop(lines);
            if missing > 0 {
                let _fits = writeln!(
                    taken,
                    "warning: --log-requests: {missing} lines dropped here: requests came faster \
                     than the log was read"
                );
            }
            for piece in taken.as_bytes().chunks(PIECE) {
                // Ignore the error: the reader may have closed its end.
                let _gone = out.write_all(piece);
                self.lines().written += 1;
                self.changed.notify_all();
            }
            taken.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, sync_channel};

    use super::*;

    /// A pipe whose reader takes one piece at a time, on request.
    struct Pipe(std::sync::mpsc::SyncSender<Vec<u8>>);

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let sent = self.0.send(bytes.to_vec());
            sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn start() -> (RequestLog, Receiver<Vec<u8>>) {
        let (sender, receiver) = sync_channel(0);
        (RequestLog::start(Pipe(sender)).unwrap(), receiver)
    }

    fn answer(log: &RequestLog, path: &str) {
        log.answered(&Answered {
            method: "GET",
            path,
            status: 200,
            took: Duration::from_micros(7),
            user_agent: "a b",
            user: "jane",
        });
    }

    #[test]
    fn all_lines_are_written_in_order() {
        let (log, pipe) = start();
        for number in 0..1_000 {
            answer(&log, &format!("/{number}"));
        }
        let reader = std::thread::spawn(move || pipe.iter().flatten().collect::<Vec<u8>>());
        assert_eq!(log.dropped(), 0);
        drop(log);
        let text = String::from_utf8(reader.join().unwrap()).unwrap();
        let wanted = (0..1_000).map(|number| format!("GET /{number} 200 7us \"a b\" \"jane\"\n"));
        assert_eq!(text, wanted.collect::<String>());
    }

    #[test]
    fn lines_without_a_reader_are_dropped_and_reported() {
        let (log, pipe) = start();
        let path = "/".repeat(1_000);
        for _ in 0..10_000 {
            answer(&log, &path);
        }
        let dropped = log.dropped();
        assert!(dropped > 5_000, "{dropped}");
        let reader = std::thread::spawn(move || pipe.iter().flatten().collect::<Vec<u8>>());
        drop(log);
        let text = String::from_utf8(reader.join().unwrap()).unwrap();
        let told = text.lines().filter_map(|line| {
            let line = line.strip_prefix("warning: --log-requests: ")?;
            line.split(' ').next()?.parse::<u64>().ok()
        });
        assert_eq!(told.sum::<u64>(), dropped);
        assert_eq!(text.matches("GET").count() as u64, 10_000 - dropped);
    }

    #[test]
    fn shutdown_does_not_wait_for_a_stuck_reader() {
        let (log, pipe) = start();
        answer(&log, "/");
        drop(log);
        drop(pipe);
    }
}
