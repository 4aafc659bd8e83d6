//! The connections of a listener: limits on their number, and deadlines for each of their states.
//!
//! A connection is *proven* once it has sent the head of a request, with a valid credential if the
//! server requires one. A client certificate proves it during the handshake. Unproven connections
//! may take only a part of the slots. If that part or all slots are taken, a new connection
//! replaces the oldest unproven one, so silent connections cannot lock out other clients.
//!
//! One lock guards the slots. It is taken when a connection opens, is proven and closes, never per
//! request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Limits on the connections of a listener, and on the time that each may spend in a state.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// The maximum number of connections. While all are proven, further ones wait to be accepted.
    pub all: usize,
    /// The maximum number of unproven connections.
    pub unproven: usize,
    /// The time limit for the TLS handshake, from the opening of the connection.
    pub handshake: Duration,
    /// The time limit from the first byte of a request to the end of its head. For the first
    /// request, it starts when the connection opens.
    pub head: Duration,
    /// The time limit from the end of an answer to the next request.
    pub idle: Duration,
    /// The time limit for a client that stops reading an answer. Watches are exempt.
    pub send: Duration,
    /// The interval of HTTP/2 pings, and the time limit for the answer to a ping.
    pub ping: [Duration; 2],
}

impl Default for ConnectionLimits {
    fn default() -> ConnectionLimits {
        let all = 10_000;
        ConnectionLimits {
            all,
            unproven: all / 2,
            handshake: Duration::from_secs(10),
            head: Duration::from_secs(30),
            idle: Duration::from_secs(90),
            send: Duration::from_secs(60),
            ping: [Duration::from_secs(30), Duration::from_secs(20)],
        }
    }
}

/// The connections of a listener, each in a slot.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: ConnectionLimits,
    places: Mutex<Places>,
    /// Notified when a slot becomes free.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Places {
    /// The number of taken slots.
    taken: usize,
    /// The number of the next connection.
    next: u64,
    /// The unproven connections, keyed by number: the oldest comes first.
    unproven: BTreeMap<u64, Arc<Activity>>,
}

impl Connections {
    pub(crate) fn new(limits: ConnectionLimits) -> Connections {
        Connections {
            limits,
            places: Mutex::default(),
            freed: Notify::new(),
        }
    }

    /// Returns a slot for a new connection. Waits only while proven connections hold all slots.
    /// O(log n).
    pub(crate) async fn enter(self: &Arc<Self>) -> Connection {
        loop {
            // Created before the attempt, so that a slot that is freed after the attempt leaves a
            // permit.
            let freed = self.freed.notified();
            if let Some(connection) = self.try_enter() {
                return connection;
            }
            freed.await;
        }
    }

    fn try_enter(self: &Arc<Self>) -> Option<Connection> {
        let mut places = self.lock();
        if (places.taken >= self.limits.all || places.unproven.len() >= self.limits.unproven)
            && !places.close_oldest()
        {
            return None;
        }
        let activity = Arc::new(Activity::new());
        let number = places.next;
        places.next += 1;
        places.taken += 1;
        places.unproven.insert(number, Arc::clone(&activity));
        Some(Connection {
            number,
            all: Arc::clone(self),
            activity,
        })
    }

    /// Closes the oldest unproven connection, if there is one. Called when the process has no more
    /// file descriptors.
    pub(crate) fn close_oldest(&self) {
        self.lock().close_oldest();
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// Signals the oldest unproven connection to close and frees its slot immediately. Returns
    /// false if there is none.
    fn close_oldest(&mut self) -> bool {
        let Some((_, oldest)) = self.unproven.pop_first() else {
            return false;
        };
        self.taken -= 1;
        oldest.is_out.store(true, Ordering::Relaxed);
        oldest.out.notify_one();
        true
    }
}

/// A connection and its slot, which is freed when the connection is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    number: u64,
    all: Arc<Connections>,
    activity: Arc<Activity>,
}

impl Connection {
    pub(crate) fn activity(&self) -> &Arc<Activity> {
        &self.activity
    }

    pub(crate) fn limits(&self) -> &ConnectionLimits {
        &self.all.limits
    }

    /// Marks the connection as proven.
    pub(crate) fn prove(&self) {
        // Relaxed: the lock orders what it guards; a second call changes nothing.
        if !self.activity.is_proven.swap(true, Ordering::Relaxed) {
            self.all.lock().unproven.remove(&self.number);
        }
    }

    pub(crate) fn is_proven(&self) -> bool {
        self.activity.is_proven.load(Ordering::Relaxed)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut places = self.all.lock();
        places.unproven.remove(&self.number);
        // A connection that was signaled to close has already lost its slot.
        if !self.activity.is_out.load(Ordering::Relaxed) {
            places.taken -= 1;
        }
        drop(places);
        self.all.freed.notify_one();
    }
}

/// The state of a connection. The tasks that read, answer and write (several tasks with HTTP/2)
/// update it; the task that enforces the deadlines reads it.
#[derive(Debug)]
pub(crate) struct Activity {
    began: Instant,
    is_proven: AtomicBool,
    /// Whether the connection was signaled to close. Written under the lock of the slots.
    is_out: AtomicBool,
    out: Notify,
    is_http2: AtomicBool,
    /// The number of requests whose head has arrived and whose answer has not begun.
    answering: AtomicU32,
    /// The number of answering requests whose body has not ended.
    arriving: AtomicU32,
    /// Whether the client has closed its sending side and the HTTP layer does not know it yet.
    has_ended: AtomicBool,
    /// Whether a body reader waits for bytes that have not arrived.
    is_starved: AtomicBool,
    /// The number of answers in transmission, except watches.
    sending: AtomicU32,
    watches: AtomicU32,
    /// The time of the last progress in ms since `began`: a request or an answer began or ended, or
    /// part of an answer was sent. 0 before the first request.
    moved_ms: AtomicU64,
    /// With HTTP/1.1, the time of the first bytes of a request whose head is incomplete, in ms
    /// since `began`; otherwise `NEVER`.
    head_ms: AtomicU64,
}

const NEVER: u64 = u64::MAX;

// All orderings are relaxed: each value is used on its own and checked again at the next deadline.
impl Activity {
    fn new() -> Activity {
        Activity {
            began: Instant::now(),
            is_proven: AtomicBool::new(false),
            is_out: AtomicBool::new(false),
            out: Notify::new(),
            is_http2: AtomicBool::new(false),
            answering: AtomicU32::new(0),
            arriving: AtomicU32::new(0),
            has_ended: AtomicBool::new(false),
            is_starved: AtomicBool::new(false),
            sending: AtomicU32::new(0),
            watches: AtomicU32::new(0),
            moved_ms: AtomicU64::new(0),
            head_ms: AtomicU64::new(NEVER),
        }
    }

    /// Waits for the signal to close.
    pub(crate) async fn told_to_go(&self) {
        self.out.notified().await;
    }

    /// Returns the instant at which the connection ends if there is no progress until then. `None`
    /// while a request is being handled or a watch is open: the listener then sets no deadline.
    pub(crate) fn ends_at(&self, limits: &ConnectionLimits) -> Option<Instant> {
        let count = |of: &AtomicU32| of.load(Ordering::Relaxed);
        if count(&self.watches) > 0 || count(&self.answering) > 0 {
            return None;
        }
        let moved = self.moved_ms.load(Ordering::Relaxed);
        let head = self.head_ms.load(Ordering::Relaxed);
        let (since_ms, within) = match (count(&self.sending) > 0, moved, head) {
            (true, ..) => (moved, limits.send),
            // Includes the handshake, which also has its own deadline.
            (_, 0, _) => (0, limits.head),
            (_, _, NEVER) => (moved, limits.idle),
            _ => (head, limits.head),
        };
        Some(self.began + Duration::from_millis(since_ms) + within)
    }

    fn now_ms(&self) -> u64 {
        // 0 means that nothing has happened yet.
        u64::try_from(self.began.elapsed().as_millis()).map_or(NEVER - 1, |ms| ms.max(1))
    }

    fn moves(&self) {
        self.moved_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Records that bytes were read.
    pub(crate) fn has_read(&self) {
        self.is_starved.store(false, Ordering::Relaxed);
        if self.is_quiet() && !self.is_http2() && self.head_ms.load(Ordering::Relaxed) == NEVER {
            self.head_ms.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// Records that bytes were written. With HTTP/2 they don't count as progress, because they may
    /// belong to a ping.
    pub(crate) fn has_written(&self) {
        if !self.is_http2() {
            self.moves();
        }
    }

    /// Reports whether requests have arrived over HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.is_http2.load(Ordering::Relaxed)
    }

    fn is_quiet(&self) -> bool {
        let all = [&self.answering, &self.sending, &self.watches];
        all.into_iter()
            .all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// Records that the client has closed its sending side. Returns whether the client still waits
    /// for an answer, which the HTTP layer would cancel if it learned of the end. Returns false if
    /// the client has disconnected from a watch, and for a body that is incomplete.
    pub(crate) fn end(&self, context: &Context<'_>) -> bool {
        let is_any = |count: &AtomicU32| count.load(Ordering::Relaxed) > 0;
        if self.is_http2() || is_any(&self.watches) || self.is_quiet() {
            return false;
        }
        let knew = self.has_ended.swap(true, Ordering::Relaxed);
        let was_starved = is_any(&self.arriving) && self.is_starved.swap(false, Ordering::Relaxed);
        if was_starved && !knew {
            // More bytes may have arrived since: poll the body again.
            context.waker().wake_by_ref();
        }
        !(was_starved && knew)
    }

    /// Reports whether the client has closed its sending side while it waits for an answer.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// Records the head of a request. Returns its answering stage and, if it has a body, its
    /// arriving stage.
    pub(crate) fn begin(
        self: &Arc<Self>,
        is_http2: bool,
        has_body: bool,
    ) -> (Stage, Option<Stage>) {
        self.is_http2.store(is_http2, Ordering::Relaxed);
        self.head_ms.store(NEVER, Ordering::Relaxed);
        let arriving = has_body.then(|| Stage::new(self, |activity| &activity.arriving));
        (Stage::new(self, |activity| &activity.answering), arriving)
    }

    /// Records that an answer begins, and returns its stage.
    pub(crate) fn send(self: &Arc<Self>, is_watch: bool) -> Stage {
        match is_watch {
            true => Stage::new(self, |activity| &activity.watches),
            false => Stage::new(self, |activity| &activity.sending),
        }
    }
}

/// A stage of a request, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Stage {
    activity: Arc<Activity>,
    count: fn(&Activity) -> &AtomicU32,
}

impl Stage {
    fn new(activity: &Arc<Activity>, count: fn(&Activity) -> &AtomicU32) -> Stage {
        count(activity).fetch_add(1, Ordering::Relaxed);
        activity.moves();
        Stage {
            activity: Arc::clone(activity),
            count,
        }
    }

    /// Records progress.
    pub(crate) fn moves(&self) {
        self.activity.moves();
    }

    /// Records that the stage waits for bytes.
    pub(crate) fn starve(&self, context: &Context<'_>) {
        self.activity.is_starved.store(true, Ordering::Relaxed);
        if self.activity.has_ended() {
            // No more bytes will arrive: wake the task so that the HTTP layer learns of it.
            context.waker().wake_by_ref();
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.activity.moves();
        (self.count)(&self.activity).fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(all: usize, unproven: usize) -> Arc<Connections> {
        let limits = ConnectionLimits {
            all,
            unproven,
            ..ConnectionLimits::default()
        };
        Arc::new(Connections::new(limits))
    }

    fn is_out(connection: &Connection) -> bool {
        connection.activity.is_out.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn a_new_connection_replaces_the_oldest_unproven_one() {
        let places = places(4, 2);
        let proven = places.enter().await;
        proven.prove();
        let first = places.enter().await;
        let second = places.enter().await;
        let third = places.enter().await;
        let out = [&proven, &first, &second, &third].map(is_out);
        assert_eq!(out, [false, true, false, false]);
        first.activity().told_to_go().await;
        // A slot is counted once, no matter which side frees it.
        drop(first);
        assert_eq!(places.lock().taken, 3);
        drop((proven, second, third));
        assert_eq!(places.lock().taken, 0);
        assert!(places.lock().unproven.is_empty());
    }

    #[tokio::test]
    async fn only_proven_connections_make_others_wait() {
        let places = places(2, 1);
        let first = places.enter().await;
        first.prove();
        let second = places.enter().await;
        let third = places.enter().await;
        assert!(is_out(&second), "the connection was unproven");
        third.prove();
        assert!(places.try_enter().is_none());
        let waits = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.enter().await }
        });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        drop(third);
        assert!(!is_out(&waits.await.expect("the connection got a place")));
    }
}
