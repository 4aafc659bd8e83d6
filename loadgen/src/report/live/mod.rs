//! `--tui`: shows the run in full screen on standard error (ratatui).
//!
//! The run reports its progress a few times a second ([`Observer`]), at the cost of a lock and a
//! copy. A separate thread draws the progress and reads the keys. `q` and Ctrl-C interrupt the run
//! like SIGINT. However the run ends, the terminal is restored (`screen`) before anything else is
//! printed.

mod history;
mod plots;
mod screen;
#[cfg(test)]
mod tests;
mod view;

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use podstorm_sim::clock::RealClock;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{Terminal, TerminalOptions, Viewport};

use crate::report::{colour, engine_text, workers_text};
use crate::run::{Observer, Progress};
use crate::settings::{EngineKind, Settings};
use crate::units::{counted, duration_text, number_for_people};
use history::History;
use screen::Screen;
pub(crate) use screen::give_back;
use view::{Moment, draw};

/// The time between two frames if no key is pressed.
const PICTURE_EVERY: Duration = Duration::from_millis(200);

/// The facts about a run that are known before it begins.
#[derive(Clone, Debug)]
pub struct About {
    scenario: String,
    question: String,
    engine: String,
    cluster: String,
    is_virtual: bool,
    /// Other lines about the run, shown unchanged.
    notes: Vec<String>,
    /// Whether to use colours.
    coloured: bool,
}

impl About {
    /// Creates the description of a run with these settings. `notes` are shown unchanged.
    pub fn new(settings: &Settings, notes: Vec<String>) -> About {
        let is_virtual = settings.engine == EngineKind::Virtual;
        let (size, controller) = (&settings.size, &settings.controller);
        let limit = match controller.kube_api_qps {
            Some(qps) => format!("{} QPS", number_for_people(qps)),
            None => "no client limit".to_owned(),
        };
        let nodes = match size.nodes {
            // Only a cluster from files may have no generated nodes.
            0 => "nodes of the files".to_owned(),
            nodes => counted(nodes, "node"),
        };
        let clock = if is_virtual { "simulated time" } else { "time" };
        About {
            scenario: settings.scenario.name.clone(),
            question: settings.scenario.question.clone(),
            engine: format!("{}, seed {}", engine_text(settings), settings.seed),
            cluster: format!(
                "{}, {}, {nodes}; {}, {limit}, {} behaviour; {clock} limit {}",
                counted(size.pods, "pod"),
                size.in_words(),
                workers_text(&controller.workers),
                settings.behaviour.as_str(),
                duration_text(settings.time_limit_ns)
            ),
            is_virtual,
            notes,
            coloured: colour::is_wanted(&io::stderr()),
        }
    }
}

/// The full-screen view of one run. Dropping it restores the terminal.
pub struct LiveView {
    shared: Arc<Shared>,
}

impl fmt::Debug for LiveView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LiveView").finish_non_exhaustive()
    }
}

/// The state that the run writes and the view reads.
struct Shared {
    clock: RealClock,
    history: Mutex<History>,
    over: AtomicBool,
}

impl Shared {
    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over(&self) -> bool {
        // Relaxed: no other data depends on it; the screen has its own lock.
        self.over.load(Ordering::Relaxed)
    }
}

impl LiveView {
    /// Takes over the screen and starts to draw. `cancel` is set once the run was asked to stop;
    /// `interrupt` asks the run to stop.
    ///
    /// # Errors
    /// Standard error can't be written, or the thread can't be started. The screen is then
    /// restored.
    pub fn start(
        about: About,
        cancel: Arc<AtomicBool>,
        interrupt: impl Fn() + Send + 'static,
    ) -> io::Result<LiveView> {
        let shared = Arc::new(Shared {
            clock: RealClock::start(),
            history: Mutex::default(),
            over: AtomicBool::new(false),
        });
        // From now on, dropping the view restores the screen.
        let view = LiveView {
            shared: Arc::clone(&shared),
        };
        let has_keys = screen::take()?;
        let drawer = Drawer {
            about,
            shared,
            cancel,
            interrupt: Box::new(interrupt),
            has_keys,
        };
        thread::Builder::new()
            .name("live-view".into())
            .spawn(move || drawer.run())?;
        Ok(view)
    }

    /// Restores the screen. Does not wait for the drawing thread, whose later output is discarded.
    pub fn finish(&self) {
        // Relaxed: see `Shared::is_over`.
        self.shared.over.store(true, Ordering::Relaxed);
        screen::give_back();
    }
}

impl Drop for LiveView {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Observer for LiveView {
    fn progress(&self, progress: &Progress<'_>) {
        let at = self.shared.clock.seconds();
        self.shared.history().push(at, progress);
    }
}

/// The thread that draws the view and reads the keys.
struct Drawer {
    about: About,
    shared: Arc<Shared>,
    cancel: Arc<AtomicBool>,
    interrupt: Box<dyn Fn() + Send>,
    has_keys: bool,
}

impl Drawer {
    fn run(mut self) {
        // The backend would ask the terminal on standard input for its size.
        let mut area = screen::area();
        let options = TerminalOptions {
            viewport: Viewport::Fixed(area),
        };
        let backend = CrosstermBackend::new(Screen::default());
        let Ok(mut terminal) = Terminal::with_options(backend, options) else {
            return;
        };
        while !self.shared.is_over() {
            let present = screen::area();
            if present != area {
                area = present;
                if terminal.resize(area).is_err() {
                    return;
                }
            }
            let history = self.shared.history().clone();
            let moment = Moment {
                seconds: self.shared.clock.seconds(),
                // Relaxed: no other data depends on the flag.
                stopping: self.cancel.load(Ordering::Relaxed),
                has_keys: self.has_keys,
            };
            let drawn = terminal.draw(|frame| {
                let area = frame.area();
                draw(&self.about, &history, moment, area, frame.buffer_mut());
            });
            if drawn.is_err() {
                // The terminal no longer exists. The run continues, and still receives signals.
                screen::give_back();
                return;
            }
            self.wait();
        }
    }

    /// Waits until a key is pressed, the terminal is resized, or the next frame is due.
    fn wait(&mut self) {
        if !self.has_keys {
            return thread::park_timeout(PICTURE_EVERY);
        }
        let mut patience = PICTURE_EVERY;
        loop {
            match event::poll(patience).and_then(|some| some.then(event::read).transpose()) {
                Ok(Some(event)) if !self.shared.is_over() => self.take(&event),
                Ok(_) => return,
                Err(_) => {
                    self.has_keys = false;
                    screen::give_keys_back();
                    return;
                }
            }
            patience = Duration::ZERO;
        }
    }

    fn take(&self, event: &Event) {
        let Event::Key(key) = event else { return };
        let is_ctrl_c =
            key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
        let is_q = key.code == KeyCode::Char('q') && key.modifiers.is_empty();
        if key.kind == KeyEventKind::Press && (is_q || is_ctrl_c) {
            (self.interrupt)();
        }
    }
}
