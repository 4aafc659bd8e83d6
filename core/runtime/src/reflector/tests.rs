//! Tests of the reflector: one for each outcome of the initial list and of the watch loop.

use podstorm_objects::Pod;

use super::*;
use crate::client::Cause;

const SECOND: i64 = 1_000_000_000;

/// The test harness: a reflector with its own clock. The random number is always 0.
struct Harness {
    reflector: Reflector<Pod>,
    now: Now,
}

impl Harness {
    fn new(streaming: bool) -> Harness {
        let options = ReflectorOptions {
            streaming,
            ..ReflectorOptions::default()
        };
        Harness {
            reflector: Reflector::new(options),
            now: Now::default(),
        }
    }

    /// Returns a harness that has listed and is about to watch from version 10.
    fn listed() -> Harness {
        let mut harness = Harness::new(false);
        assert_eq!(harness.next(), list("0"));
        harness.list_ok(10);
        assert_eq!(harness.next(), watch("10"));
        harness
    }

    /// Returns a harness in the watch loop, with a stream from version 10 that was just opened.
    fn watching() -> Harness {
        let mut harness = Harness::listed();
        harness.opened();
        harness
    }

    /// Returns a harness whose watch with the initial state was just opened.
    fn streaming() -> Harness {
        let mut harness = Harness::new(true);
        assert_eq!(harness.next(), stream(""));
        assert_eq!(harness.next(), Action::Busy);
        harness.opened();
        harness
    }

    fn next(&mut self) -> Action {
        self.reflector.next(self.now, 0.0)
    }

    fn advance(&mut self, ns: i64) {
        self.now = self.now.plus_ns(ns);
    }

    fn opened(&mut self) {
        self.reflector.on_watch(Ok(()), self.now);
    }

    fn refused(&mut self, error: &ApiError) {
        self.reflector.on_watch(Err(error), self.now);
    }

    fn event(&mut self, event: WatchEvent<Pod>) -> Option<Delivery<Pod>> {
        self.reflector.on_event(event, self.now)
    }

    /// Delivers an error event on the stream.
    fn told(&mut self, error: ApiError) {
        assert!(self.event(WatchEvent::Error(error)).is_none());
    }

    fn closed(&mut self) {
        self.reflector.on_closed(self.now);
    }

    fn list_ok(&mut self, version: u64) {
        let delivery = self
            .reflector
            .on_list(Ok((Vec::new(), version.into())), self.now);
        assert!(matches!(delivery, Some(Delivery::Replace(..))));
    }

    fn list_failed(&mut self, error: &ApiError) {
        assert!(self.reflector.on_list(Err(error), self.now).is_none());
    }

    /// Asserts that the next action comes after `tenths` tenths of a second. Advances the clock to
    /// that time.
    fn waits(&mut self, tenths: i64) {
        let until_ns = self.now.mono_ns + tenths * SECOND / 10;
        assert_eq!(self.next(), Action::Wait { until_ns });
        assert_eq!(
            self.next(),
            Action::Wait { until_ns },
            "a second call changes nothing"
        );
        self.advance(tenths * SECOND / 10);
    }

    /// Asserts that this action comes next, after `tenths` tenths of a second.
    fn waits_for(&mut self, tenths: i64, next: Action) {
        self.waits(tenths);
        assert_eq!(self.next(), next);
    }
}

fn watch(version: &str) -> Action {
    let version = ResourceVersion::new(version);
    Action::Watch {
        version,
        initial_events: false,
        timeout_seconds: 300,
    }
}

fn stream(version: &str) -> Action {
    let version = ResourceVersion::new(version);
    Action::Watch {
        version,
        initial_events: true,
        timeout_seconds: 300,
    }
}

fn list(version: &str) -> Action {
    let limit = matches!(version, "" | "0").then_some(500);
    Action::List {
        version: ResourceVersion::new(version),
        limit,
    }
}

fn pod(name: &str, version: u64) -> Arc<Pod> {
    let mut pod = Pod::default();
    pod.metadata.name = name.into();
    pod.metadata.resource_version = version.into();
    Arc::new(pod)
}

fn end_of_initial_events(version: u64) -> WatchEvent<Pod> {
    WatchEvent::Bookmark {
        version: version.into(),
        initial_events_end: true,
    }
}

fn expired() -> ApiError {
    ApiError::status(410, Reason::Expired, "too old resource version")
}

fn too_large() -> ApiError {
    ApiError::status(504, Reason::Timeout, "Too large resource version").with_cause(Cause {
        reason: "ResourceVersionTooLarge".into(),
        ..Cause::default()
    })
}

fn busy() -> ApiError {
    ApiError::status(429, Reason::TooManyRequests, "later")
}

fn connection_refused() -> ApiError {
    ApiError::transport("dial tcp: connection refused")
}

fn internal() -> ApiError {
    ApiError::status(500, Reason::InternalError, "oops")
}

#[test]
fn the_stream_delivers_the_initial_state_and_continues() {
    let mut harness = Harness::streaming();
    for (name, version) in [("b", 3), ("a", 4), ("gone", 5)] {
        let told = harness.event(WatchEvent::Added(pod(name, version)));
        assert!(told.is_none());
    }
    assert!(harness.event(WatchEvent::Modified(pod("b", 6))).is_none());
    assert!(harness.event(WatchEvent::Deleted(pod("gone", 7))).is_none());
    assert!(harness.reflector.last_version().is_unset());
    let Some(Delivery::Replace(pods, version)) = harness.event(end_of_initial_events(8)) else {
        panic!()
    };
    let seen: Vec<_> = pods
        .iter()
        .map(|p| {
            (
                p.metadata.name.as_str(),
                p.metadata.resource_version.clone(),
            )
        })
        .collect();
    assert_eq!(seen, [("a", 4.into()), ("b", 6.into())]);
    assert_eq!(version, 8.into());
    assert!(matches!(
        harness.event(WatchEvent::Added(pod("c", 9))),
        Some(Delivery::Delta(Delta::Applied(_)))
    ));
    assert_eq!(*harness.reflector.last_version(), 9.into());
    assert_eq!(harness.next(), Action::Busy);
}

#[test]
fn a_refused_initial_stream_is_requested_again_after_a_delay() {
    for error in [busy(), connection_refused()] {
        let mut harness = Harness::new(true);
        assert_eq!(harness.next(), stream(""));
        harness.refused(&error);
        harness.waits_for(8, stream(""));
        harness.opened();
        harness.told(error);
        harness.waits_for(16, stream(""));
    }
}

#[test]
fn an_initial_stream_of_an_unavailable_version_gets_the_newest() {
    for error in [expired(), too_large()] {
        let mut harness = Harness::streaming();
        harness.event(end_of_initial_events(8));
        harness.told(expired());
        harness.waits_for(8, stream("8"));
        harness.refused(&error);
        assert_eq!(harness.next(), stream(""));
        harness.opened();
        harness.event(end_of_initial_events(20));
        // Success clears the mark.
        harness.told(expired());
        harness.waits_for(16, stream("20"));
    }
}

#[test]
fn an_initial_stream_closed_early_starts_from_scratch() {
    let mut harness = Harness::streaming();
    harness.event(WatchEvent::Added(pod("a", 1)));
    harness.closed();
    assert_eq!(harness.next(), stream(""));
    harness.opened();
    let Some(Delivery::Replace(pods, _)) = harness.event(end_of_initial_events(8)) else {
        panic!()
    };
    assert!(pods.is_empty());
}

#[test]
fn any_other_error_of_the_initial_stream_falls_back_to_a_list() {
    let mut harness = Harness::new(true);
    harness.next();
    harness.refused(&internal());
    assert_eq!(harness.next(), list("0"));
    harness.list_ok(10);
    assert_eq!(harness.next(), watch("10"));
    harness.opened();
    harness.told(internal());
    // The fallback applies only to that cycle.
    harness.waits_for(8, stream("10"));
    harness.opened();
    harness.closed();
    // A very short stream is an error, too.
    assert_eq!(harness.next(), list("10"));
}

#[test]
fn a_list_of_an_unavailable_version_is_repeated_for_the_newest() {
    for error in [expired(), too_large()] {
        let mut harness = Harness::watching();
        harness.told(expired());
        harness.waits_for(8, list("10"));
        harness.list_failed(&error);
        assert_eq!(harness.next(), list(""));
        harness.list_failed(&error);
        // The mark stays until a list succeeds.
        harness.waits_for(16, list(""));
        harness.list_ok(20);
        assert_eq!(harness.next(), watch("20"));
        harness.refused(&internal());
        harness.waits_for(32, list("20"));
    }
}

#[test]
fn a_list_that_fails_otherwise_ends_the_cycle() {
    let mut harness = Harness::new(false);
    harness.next();
    harness.list_failed(&internal());
    harness.waits_for(8, list("0"));
}

#[test]
fn row_watch_refused_or_429_backs_off_and_keeps_the_version() {
    for error in [busy(), connection_refused()] {
        let mut harness = Harness::listed();
        for tenths in [8, 16, 32, 64, 128, 256, 300, 300] {
            harness.refused(&error);
            harness.waits_for(tenths, watch("10"));
        }
    }
}

/// The first list accepts any version; the next list accepts no earlier one than the last seen.
#[test]
fn row_watch_refused_otherwise_leaves_even_with_410() {
    for error in [expired(), internal(), ApiError::transport("reset")] {
        let mut harness = Harness::listed();
        harness.refused(&error);
        harness.waits_for(8, list("10"));
    }
}

#[test]
fn row_errors_leave_and_keep_the_version_but_429_watches_again() {
    let forbidden = ApiError::status(403, Reason::Forbidden, "no");
    for (error, next) in [
        (expired(), list("10")),
        (busy(), watch("10")),
        (internal(), list("10")),
        (forbidden, list("10")),
    ] {
        let mut harness = Harness::watching();
        harness.told(error);
        harness.waits_for(8, next);
    }
}

#[test]
fn row_error_500_watches_again_when_configured() {
    let mut harness = Harness::watching();
    harness.reflector.options.internal_error_retry_ns = 5 * SECOND;
    for _ in 0..3 {
        harness.told(internal());
        assert_eq!(harness.next(), watch("10"));
        harness.opened();
        harness.advance(2 * SECOND);
    }
    harness.told(internal());
    harness.waits_for(8, list("10"));
}

#[test]
fn row_closed_within_a_second_without_events_leaves() {
    let mut harness = Harness::watching();
    harness.advance(SECOND - 1);
    harness.closed();
    harness.waits_for(8, list("10"));
}

#[test]
fn a_normal_end_watches_again_immediately() {
    let mut harness = Harness::watching();
    harness.advance(SECOND);
    harness.closed();
    assert_eq!(harness.next(), watch("10"));
    harness.opened();
    harness.event(WatchEvent::Modified(pod("a", 11)));
    harness.closed();
    // A single event makes a short stream a valid one.
    assert_eq!(harness.next(), watch("11"));
}

#[test]
fn every_event_advances_the_version() {
    let mut harness = Harness::watching();
    assert!(matches!(
        harness.event(WatchEvent::Added(pod("a", 11))),
        Some(Delivery::Delta(Delta::Applied(_)))
    ));
    assert_eq!(*harness.reflector.last_version(), 11.into());
    assert!(matches!(
        harness.event(WatchEvent::Deleted(pod("a", 12))),
        Some(Delivery::Delta(Delta::Deleted(_)))
    ));
    assert_eq!(*harness.reflector.last_version(), 12.into());
    let bookmark = WatchEvent::Bookmark {
        version: 15.into(),
        initial_events_end: false,
    };
    assert!(matches!(
        harness.event(bookmark),
        Some(Delivery::Bookmark(_))
    ));
    assert_eq!(*harness.reflector.last_version(), 15.into());
}

#[test]
fn a_watch_without_a_version_advances_it_at_the_first_change() {
    let mut harness = Harness::new(false);
    harness.next();
    let answer = Ok((Vec::new(), ResourceVersion::new("0")));
    harness.reflector.on_list(answer, harness.now);
    assert_eq!(harness.next(), watch("0"));
    harness.opened();
    harness.event(WatchEvent::Added(pod("a", 11)));
    assert_eq!(*harness.reflector.last_version(), ResourceVersion::new("0"));
    harness.event(WatchEvent::Modified(pod("a", 12)));
    harness.event(WatchEvent::Added(pod("b", 13)));
    assert_eq!(*harness.reflector.last_version(), 13.into());
}

#[test]
fn delays_start_over_after_two_quiet_minutes() {
    for (quiet, tenths) in [(120 * SECOND, 16), (120 * SECOND + 1, 8)] {
        let mut harness = Harness::watching();
        let start = harness.now;
        harness.told(busy());
        harness.waits(8);
        harness.next();
        harness.opened();
        harness.now = start.plus_ns(quiet);
        harness.told(busy());
        harness.waits(tenths);
    }
}

#[test]
fn the_random_number_at_most_doubles_delays_and_timeouts() {
    let mut harness = Harness::watching();
    harness.told(busy());
    let until_ns = harness.now.mono_ns + 1_200_000_000;
    let next = harness.reflector.next(harness.now, 0.5);
    assert_eq!(next, Action::Wait { until_ns });
    harness.advance(2 * SECOND);
    let Action::Watch {
        timeout_seconds, ..
    } = harness.reflector.next(harness.now, 0.999)
    else {
        panic!()
    };
    assert_eq!(timeout_seconds, 599);
}
