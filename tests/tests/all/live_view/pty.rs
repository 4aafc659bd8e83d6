//! A program on a pseudo-terminal, with access to the bytes that it writes and to the screen that a
//! user would see.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::termios::{Termios, tcgetattr};
use std::os::fd::AsRawFd;

/// A time limit longer than any step takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal, and everything written to it.
#[derive(Debug)]
pub(crate) struct Terminal {
    master: Arc<PtyMaster>,
    name: String,
    written: Arc<(Mutex<Written>, Condvar)>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Written {
    bytes: Vec<u8>,
    is_over: bool,
}

impl Terminal {
    /// Opens a terminal with this number of columns and rows.
    pub(crate) fn new(columns: u16, rows: u16) -> Terminal {
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).expect("our own terminal");
        unlockpt(&master).expect("our own terminal");
        let name = ptsname_r(&master).expect("the terminal's name");
        let terminal = Terminal {
            master: Arc::new(master),
            name,
            written: Arc::default(),
            reader: None,
        };
        terminal.resize(columns, rows);
        terminal
    }

    /// Changes the terminal's size.
    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let set = Command::new("stty")
            .args(["-F", &self.name, "columns", &columns, "rows", &rows])
            .status();
        assert!(
            set.is_ok_and(|status| status.success()),
            "stty sets the size"
        );
    }

    /// Opens the terminal once more, for a program.
    pub(crate) fn open(&self) -> Stdio {
        let file = File::options().read(true).write(true).open(&self.name);
        file.expect("the terminal can be opened").into()
    }

    /// Starts a program with this terminal as its standard input, its standard error and, unless
    /// already set, its standard output. From then on the output is collected.
    pub(crate) fn start(&mut self, mut command: Command) -> Running {
        command
            .stdin(self.open())
            .stderr(self.open())
            .env_remove("NO_COLOR")
            .env("TERM", "xterm");
        self.start_as_told(command)
    }

    /// As `start`, but leaves the command unchanged.
    pub(crate) fn start_as_told(&mut self, mut command: Command) -> Running {
        let child = command.spawn().expect("the program starts");
        // The command holds the terminal open too.
        drop(command);
        let (master, written) = (Arc::clone(&self.master), Arc::clone(&self.written));
        self.reader = Some(std::thread::spawn(move || {
            let mut part = [0; 4096];
            // An error marks the end: no process has the terminal open.
            while let Ok(length @ 1..) = (&*master).read(&mut part) {
                let mut so_far = written.0.lock().expect("the lock is not poisoned");
                so_far.bytes.extend_from_slice(&part[..length]);
                written.1.notify_all();
            }
            let mut so_far = written.0.lock().expect("the lock is not poisoned");
            so_far.is_over = true;
            written.1.notify_all();
        }));
        Running(child)
    }

    /// Types keys.
    pub(crate) fn press(&self, keys: &str) {
        (&*self.master)
            .write_all(keys.as_bytes())
            .expect("the terminal accepts keys");
    }

    /// Returns the terminal's modes.
    pub(crate) fn modes(&self) -> Termios {
        tcgetattr(self.master.as_raw_fd()).expect("a terminal has modes")
    }

    /// Waits until the output satisfies a condition.
    ///
    /// # Panics
    /// The program ends before, or it takes too long.
    #[track_caller]
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&[u8]) -> bool) {
        let guard = self.written.0.lock().expect("nothing panics");
        let goes_on = |written: &mut Written| !written.is_over && !is_so(&written.bytes);
        let (written, _) = self
            .written
            .1
            .wait_timeout_while(guard, PATIENCE, goes_on)
            .expect("nothing panics");
        assert!(
            is_so(&written.bytes),
            "{what} is missing on:\n{}\n{:?}",
            shown(&written.bytes, 100, 40).join("\n"),
            String::from_utf8_lossy(&written.bytes)
        );
    }

    /// Waits until all words are on a screen of this size together.
    #[track_caller]
    pub(crate) fn wait_for(&self, words: &[&str], columns: usize, rows: usize) {
        self.wait_until(&format!("one of {words:?}"), |bytes| {
            let screen = shown(bytes, columns, rows).join("\n");
            words.iter().all(|word| screen.contains(word))
        });
    }

    /// Returns the complete output, after the program has ended.
    pub(crate) fn into_text(mut self) -> String {
        if let Some(reader) = self.reader.take() {
            reader.join().expect("the reader does not panic");
        }
        let written = self.written.0.lock().expect("nothing panics");
        String::from_utf8(written.bytes.clone()).expect("UTF-8 text")
    }
}

/// A running program, killed at the end of its test.
#[derive(Debug)]
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Sends the signal of Ctrl-C.
    pub(crate) fn interrupt(&self) {
        podstorm_tests::command::send("INT", &self.0);
    }

    /// Waits for the program, and returns its exit status.
    pub(crate) fn end(mut self) -> ExitStatus {
        self.0.wait().expect("an exit status")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the screen of this size after the bytes. Implements only what the view needs: cursor
/// positioning, clearing, and printing.
pub(crate) fn shown(bytes: &[u8], columns: usize, rows: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut cells = vec![vec![' '; columns]; rows];
    let (mut row, mut column) = (0, 0);
    let mut signs = text.chars();
    while let Some(sign) = signs.next() {
        match sign {
            '\u{1b}' => {
                if signs.next() != Some('[') {
                    continue;
                }
                let mut told = String::new();
                let last = signs.find(|sign| {
                    let is_last = sign.is_ascii_alphabetic();
                    if !is_last {
                        told.push(*sign);
                    }
                    is_last
                });
                match last {
                    Some('H') => {
                        let mut places = told.split(';').map(|place| place.parse().unwrap_or(1));
                        row = places.next().unwrap_or(1_usize).saturating_sub(1);
                        column = places.next().unwrap_or(1_usize).saturating_sub(1);
                    }
                    Some('J') => cells.iter_mut().for_each(|row| row.fill(' ')),
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            sign => {
                if let Some(cell) = cells.get_mut(row).and_then(|row| row.get_mut(column)) {
                    *cell = sign;
                }
                column += 1;
            }
        }
    }
    cells.iter().map(|row| row.iter().collect()).collect()
}
