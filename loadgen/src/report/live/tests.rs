//! Tests of the view on screens of several sizes, of its history, and of the keys.

use std::sync::atomic::AtomicUsize;

use ratatui::backend::TestBackend;
use ratatui::crossterm::event::KeyEvent;
use ratatui::style::Color;

use super::*;

fn about(coloured: bool) -> About {
    About {
        scenario: "up-down".into(),
        question: "How fast is a whole life: 0 -> 100 % -> 50 % -> 0 of the pods?".into(),
        engine: "virtual engine, seed 1".into(),
        cluster: "1,000 pods, 20 ReplicaSets, 50 nodes; 5 workers, 20 QPS".into(),
        is_virtual: true,
        notes: vec!["metrics at http://127.0.0.1:9090/metrics".into()],
        coloured,
    }
}

fn progress(done: u64) -> Progress<'static> {
    Progress {
        phase: "scale to 100 %",
        phase_index: 1,
        phase_count: 4,
        done,
        total: 1_000,
        pods: done + 1,
        ready: done,
        desired: 1_000,
        created: done + 1,
        deleted: 0,
        api_calls: 2 * done,
        queue_depth: 17,
        engine_seconds: 4_000.0,
    }
}

const NOW: Moment = Moment {
    seconds: 20.0,
    stopping: false,
    has_keys: true,
};

/// Returns the history of twenty seconds of a run that creates 25 pods a second.
fn under_way() -> History {
    let mut history = History::default();
    let set_up = Progress {
        phase: "set up",
        phase_index: 0,
        ..progress(0)
    };
    history.push(0.0, &set_up);
    for step in 1..=100_u64 {
        history.push(step as f64 / 5.0, &progress(step * 5));
    }
    history
}

fn picture(history: &History, coloured: bool, moment: Moment, size: (u16, u16)) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
    let drawn = terminal.draw(|frame| {
        let area = frame.area();
        draw(&about(coloured), history, moment, area, frame.buffer_mut());
    });
    drawn.unwrap();
    terminal.backend().clone()
}

/// Returns the lines of a frame, without surrounding spaces.
fn lines_of(size: (u16, u16)) -> Vec<String> {
    let backend = picture(&under_way(), true, NOW, size);
    let cells = backend.buffer().content();
    cells
        .chunks(usize::from(size.0))
        .map(|row| {
            let text: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
            text.trim_end().to_owned()
        })
        .collect()
}

#[track_caller]
fn assert_has(lines: &[String], words: &[&str]) {
    for word in words {
        let found = lines.iter().any(|line| line.contains(word));
        assert!(found, "{word:?} is missing in:\n{}", lines.join("\n"));
    }
}

#[test]
fn an_80x24_screen_has_everything() {
    let lines = lines_of((80, 24));
    assert_eq!(lines.len(), 24);
    assert_eq!(lines[0], " up-down  virtual engine, seed 1");
    assert_eq!(lines[23], " q or Ctrl-C: stop and report on what ran");
    assert_has(
        &lines,
        &[
            "How fast is a whole life",
            "20 ReplicaSets",
            "metrics at http://127.0.0.1:9090/metrics",
            "done: set up 200 ms",
            "phase 2 of 4  scale to 100 %",
            "████░░░░",
            "  50 %  500 of 1,000 pods",
            "pod changes 25/s",
            "queue 17",
            "time left 20 s",
            "real time 20 s",
            "simulated 66 min 40 s",
            "exist 501",
            "ready 500",
            "desired 1,000",
            "API calls 1,000",
            "calls 50/s",
            "pods  • desired  ─ exist  ─ ready",
            "pods created, deleted/s  up to 25",
            "queue depth  up to 17 in this phase",
            "20 s of real time",
        ],
    );
    let is_braille = |sign: char| ('⠀'..='⣿').contains(&sign);
    let curves = lines.iter().filter(|line| line.contains(is_braille));
    assert!(curves.count() >= 2, "{}", lines.join("\n"));
    assert!(lines[22].matches('█').count() > 70, "{}", lines[22]);
}

#[test]
fn a_small_screen_has_the_most_important_parts() {
    let lines = lines_of((40, 10));
    assert_has(
        &lines,
        &[
            "up-down",
            "phase 2 of 4  scale to 100 %",
            "50 %  500 of 1,000 pods",
            "pod changes 25/s",
            "queue 17",
            "time left 20 s",
            "simulated 66 min",
            "q or Ctrl-C: stop and report on what ran",
        ],
    );
    // With only one line, the bar is what remains.
    assert_has(&lines_of((40, 1)), &["  50 %  500 of 1,000 pods"]);
    assert_has(&lines_of((14, 2)), &["█", "50 %"]);
}

#[test]
fn a_large_screen_gives_its_space_to_the_plots() {
    let lines = lines_of((200, 60));
    let axis = lines.iter().filter(|line| line.contains('│')).count();
    assert!(axis > 25, "{}", lines.join("\n"));
    let longest = lines.iter().map(|line| line.chars().count()).max();
    assert!(longest > Some(190), "{longest:?}");
}

#[test]
fn every_size_and_every_state_can_be_drawn() {
    let mut odd = under_way();
    // Counts that decrease, a target that is exceeded, a phase without a target, and a clock that
    // stands still.
    let mut strange = progress(2_000);
    odd.push(20.0, &strange);
    strange.total = 0;
    strange.queue_depth = usize::MAX >> 8;
    strange.created = u64::MAX >> 8;
    odd.push(20.0, &strange);
    let mut single = History::default();
    single.push(0.0, &progress(0));
    let start = Moment {
        seconds: 0.0,
        ..NOW
    };
    for (history, moment) in [
        (History::default(), start),
        (single, start),
        (under_way(), NOW),
        (odd, NOW),
    ] {
        for width in (0..=16).chain([39, 40, 59, 60, 61, 80, 400]) {
            for height in (0..=16).chain([24, 100]) {
                // Test all sizes up to a usual terminal, and only one larger size.
                if width * height <= 80 * 24 || (width, height) == (400, 100) {
                    picture(&history, true, moment, (width, height));
                }
            }
        }
    }
}

#[test]
fn the_view_keeps_the_background_and_can_omit_colours() {
    for (coloured, stopping) in [(true, false), (true, true), (false, false), (false, true)] {
        let moment = Moment { stopping, ..NOW };
        let backend = picture(&under_way(), coloured, moment, (80, 24));
        let cells = backend.buffer().content();
        assert!(cells.iter().all(|cell| cell.bg == Color::Reset));
        let has_colour = cells.iter().any(|cell| cell.fg != Color::Reset);
        assert_eq!(has_colour, coloured);
    }
}

#[test]
fn the_last_line_explains_how_to_stop() {
    let at_once = "stopping; q again exits immediately, without a report";
    for (stopping, has_keys, said) in [
        (false, true, "q or Ctrl-C: stop and report on what ran"),
        (false, false, "Ctrl-C: stop and report on what ran"),
        (true, true, at_once),
        (true, false, "stopping; Ctrl-C again exits immediately"),
    ] {
        let moment = Moment {
            stopping,
            has_keys,
            ..NOW
        };
        let backend = picture(&under_way(), true, moment, (80, 24));
        assert!(backend.to_string().contains(said), "{backend}");
    }
}

#[test]
fn a_long_history_keeps_its_ends_peaks_and_even_spacing() {
    let mut history = History::default();
    for step in 0..100_000_u64 {
        let mut news = progress(step);
        news.queue_depth = if step == 33_333 { 9_000 } else { 1 };
        history.push(step as f64, &news);
    }
    let samples = &history.samples;
    assert!((128..=512).contains(&samples.len()), "{}", samples.len());
    assert_eq!(samples[0].at, 0.0);
    assert_eq!(history.last().at, 99_999.0);
    assert!(samples.iter().any(|sample| sample.queue == 9_000));
    let apart = samples.windows(2).map(|two| two[1].at - two[0].at);
    let widest = apart.fold(0.0, f64::max);
    assert!(widest < 1_000.0, "{widest}");
    // Every column of the plot gets its share of the changes.
    let rates = plots::rates(samples, 99_999.0, 100);
    assert!(rates.iter().all(|rate| *rate == 1), "{rates:?}");
    let depths = plots::depths(samples, 99_999.0, 100);
    assert_eq!(depths.iter().max(), Some(&9_000));
}

#[test]
fn a_fast_setup_does_not_flatten_later_phases() {
    let mut history = History::default();
    let news = |phase_index, created| Progress {
        phase_index,
        created,
        queue_depth: if phase_index == 0 { 5_000 } else { 3 },
        ..progress(0)
    };
    for step in 0..10_u64 {
        history.push(step as f64 / 5.0, &news(0, step * 300_000));
    }
    for step in 10..200_u64 {
        history.push(step as f64 / 5.0, &news(1, 3_000_000 + step * 20));
    }
    let moment = Moment {
        seconds: 40.0,
        ..NOW
    };
    let text = picture(&history, true, moment, (100, 30)).to_string();
    for words in [
        "pods created, deleted/s  up to 100 in this",
        "queue depth  up to 3 in this phase",
    ] {
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn the_time_left_follows_the_pace_of_the_phase() {
    let mut history = under_way();
    assert_eq!(history.seconds_left().map(f64::round), Some(20.0));
    assert_eq!(history.passed, [("set up".to_owned(), 0.2)]);
    // The pace of the next phase is not known yet.
    let next = Progress {
        phase_index: 2,
        ..progress(0)
    };
    history.push(20.2, &next);
    assert_eq!(history.seconds_left(), None);
    history.push(21.2, &Progress { done: 100, ..next });
    assert_eq!(history.seconds_left().map(f64::round), Some(9.0));
    // Nothing moves, so there is no estimate.
    for step in 0..100 {
        history.push(22.0 + f64::from(step), &Progress { done: 100, ..next });
    }
    assert_eq!(history.seconds_left(), None);
    assert_eq!(history.rate(), Some(0.0));
}

#[test]
fn q_and_ctrl_c_interrupt_and_other_keys_do_not() {
    let pressed = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&pressed);
    let drawer = Drawer {
        about: about(true),
        shared: Arc::new(Shared {
            clock: RealClock::start(),
            history: Mutex::default(),
            over: AtomicBool::new(false),
        }),
        cancel: Arc::default(),
        interrupt: Box::new(move || {
            count.fetch_add(1, Ordering::Relaxed);
        }),
        has_keys: true,
    };
    let key = |code, modifiers| Event::Key(KeyEvent::new(code, modifiers));
    for (event, interrupts) in [
        (key(KeyCode::Char('q'), KeyModifiers::NONE), 1),
        (key(KeyCode::Char('c'), KeyModifiers::CONTROL), 1),
        (key(KeyCode::Char('c'), KeyModifiers::NONE), 0),
        (key(KeyCode::Char('q'), KeyModifiers::ALT), 0),
        (key(KeyCode::Esc, KeyModifiers::NONE), 0),
        (Event::Resize(80, 24), 0),
    ] {
        let before = pressed.load(Ordering::Relaxed);
        drawer.take(&event);
        let after = pressed.load(Ordering::Relaxed);
        assert_eq!(after - before, interrupts, "{event:?}");
    }
}
