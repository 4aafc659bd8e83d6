//! The terminal on standard error: taken over for the view, and restored in every case.
//!
//! A frame is collected and written as a whole under a lock. The lock also guards whether the
//! screen is still taken over, so nothing is drawn after the screen was restored.

use std::io::{self, Write};
use std::panic;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use ratatui::layout::Rect;
use terminal_size::terminal_size_of;

/// The size that is assumed for a terminal that does not report one.
const USUAL: Rect = Rect::new(0, 0, 80, 24);

/// The state of the screen while it is taken over, otherwise `None`; one per process.
static TAKEN: Mutex<Option<Taken>> = Mutex::new(None);

#[derive(Clone, Copy, Debug)]
struct Taken {
    /// Whether keys are read one by one, without echo.
    has_keys: bool,
}

fn taken() -> MutexGuard<'static, Option<Taken>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes over the screen. Returns whether keys can be read. A panic restores the screen before the
/// panic is reported.
///
/// # Errors
/// Standard error can't be written.
pub(super) fn take() -> io::Result<bool> {
    static HOOKED: Once = Once::new();
    HOOKED.call_once(|| {
        let told = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            told(info);
        }));
    });
    let mut taken = taken();
    let has_keys = enable_raw_mode().is_ok();
    *taken = Some(Taken { has_keys });
    execute!(io::stderr(), EnterAlternateScreen, Hide)?;
    Ok(has_keys)
}

/// Restores the screen; does nothing if it is not taken over.
pub(crate) fn give_back() {
    let Some(Taken { has_keys }) = taken().take() else {
        return;
    };
    // Ignore errors: if the terminal can't be written, nothing can be done.
    let mut end = Vec::new();
    let _ = queue!(end, Show, LeaveAlternateScreen);
    let _ = io::stderr().write_all(&end);
    if has_keys {
        let _ = disable_raw_mode();
    }
}

/// Lets the terminal handle keys again because they can't be read: Ctrl-C is then a signal.
pub(super) fn give_keys_back() {
    if let Some(taken) = taken().as_mut()
        && taken.has_keys
    {
        taken.has_keys = false;
        let _ = disable_raw_mode();
    }
}

/// Returns the current size of the terminal.
pub(super) fn area() -> Rect {
    match terminal_size_of(io::stderr()) {
        Some((width, height)) => Rect::new(0, 0, width.0, height.0),
        None => USUAL,
    }
}

/// Writes to the screen while it is taken over, and discards output afterwards.
#[derive(Debug, Default)]
pub(super) struct Screen {
    waiting: Vec<u8>,
}

impl Write for Screen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let taken = taken();
        let written = match *taken {
            Some(_) => io::stderr().write_all(&self.waiting),
            None => Ok(()),
        };
        self.waiting.clear();
        written
    }
}
