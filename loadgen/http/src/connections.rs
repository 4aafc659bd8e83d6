//! The connections of a listener: how many there may be, and a deadline for every state of one.
//!
//! A connection is *proven* once it has sent the head of a request, with a valid credential where the server wants
//! one; a client certificate proves it while it shakes hands. Unproven connections share a part of the places. Where
//! that part or all places are taken, a new connection takes the place of the oldest unproven one, so that silent
//! connections keep no other client waiting.
//!
//! One lock guards the places. It is taken when a connection comes, is proven and goes, never for a request.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// How many connections a listener has at once, and how long each may stay in a state.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Most connections at once. With as many proven ones, others wait to be accepted.
    pub all: usize,
    /// Most connections at once that are not proven.
    pub unproven: usize,
    /// From the connection to the end of the TLS handshake.
    pub handshake: Duration,
    /// From the first byte of a request to the end of its head; of the first request, from the connection on.
    pub head: Duration,
    /// From the end of an answer to the next request.
    pub idle: Duration,
    /// How long a client may read nothing of an answer that is not a watch.
    pub send: Duration,
    /// How often a client of HTTP/2 is asked whether it is still there, and how long it may take to answer.
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

/// The places of a listener.
#[derive(Debug)]
pub(crate) struct Connections {
    limits: ConnectionLimits,
    places: Mutex<Places>,
    /// Told when a place is free, or when there is an unproven connection to close.
    freed: Notify,
}

#[derive(Debug, Default)]
struct Places {
    /// Connections that hold a place.
    taken: usize,
    /// The next connection's number.
    next: u64,
    /// The unproven ones among them, the oldest first.
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

    /// A place for a new connection. Waits only while proven connections hold all places. O(log n).
    pub(crate) async fn enter(self: &Arc<Self>) -> Connection {
        loop {
            // Before the look: a place that is freed after it leaves a permit.
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

    /// Closes the oldest unproven connection, if there is one: the process is out of descriptors.
    pub(crate) fn close_oldest(&self) {
        self.lock().close_oldest();
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Places {
    /// Tells the oldest unproven connection to go; its place is free at once.
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

/// A connection that holds a place, until it is dropped.
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

    /// The client has shown what it needs to be served.
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
        // The place of a connection that was told to go is another's already.
        if !self.activity.is_out.load(Ordering::Relaxed) {
            places.taken -= 1;
        }
        drop(places);
        self.all.freed.notify_one();
    }
}

/// What happens on a connection. Written by the tasks that read, answer and write, which are several with HTTP/2;
/// read by the task that holds the deadlines.
#[derive(Debug)]
pub(crate) struct Activity {
    began: Instant,
    is_proven: AtomicBool,
    /// Whether it was told to go. Written under the lock of the places.
    is_out: AtomicBool,
    out: Notify,
    is_http2: AtomicBool,
    /// Requests whose head has come and whose answer has not begun.
    answering: AtomicU32,
    /// Those of them whose body has not ended.
    arriving: AtomicU32,
    /// Whether the client sends no more, which HTTP does not know yet.
    has_ended: AtomicBool,
    /// Whether a body has been asked for more than had come.
    is_starved: AtomicBool,
    /// Answers that are being sent, without watches.
    sending: AtomicU32,
    watches: AtomicU32,
    /// When a request came, a part of an answer was taken, or an answer ended: ms since the beginning. 0 before the
    /// first request.
    moved_ms: AtomicU64,
    /// When the first bytes of the next request came, with HTTP/1.1: ms since the beginning, or `NEVER`.
    head_ms: AtomicU64,
}

const NEVER: u64 = u64::MAX;

// All orderings are relaxed: each number is looked at by itself, and again after the next deadline.
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

    /// Done when the connection has to make room for another one.
    pub(crate) async fn told_to_go(&self) {
        self.out.notified().await;
    }

    /// When the connection ends if nothing happens until then. `None` where that is not the listener's business: a
    /// request is being worked on, or a watch is open.
    pub(crate) fn ends_at(&self, limits: &ConnectionLimits) -> Option<Instant> {
        let count = |of: &AtomicU32| of.load(Ordering::Relaxed);
        if count(&self.watches) > 0 || count(&self.answering) > 0 {
            return None;
        }
        let moved = self.moved_ms.load(Ordering::Relaxed);
        let head = self.head_ms.load(Ordering::Relaxed);
        let (since_ms, within) = match (count(&self.sending) > 0, moved, head) {
            (true, ..) => (moved, limits.send),
            // The handshake, which has a deadline of its own, is part of it.
            (_, 0, _) => (0, limits.head),
            (_, _, NEVER) => (moved, limits.idle),
            _ => (head, limits.head),
        };
        Some(self.began + Duration::from_millis(since_ms) + within)
    }

    fn now_ms(&self) -> u64 {
        // 0 stands for nothing yet.
        u64::try_from(self.began.elapsed().as_millis()).map_or(NEVER - 1, |ms| ms.max(1))
    }

    fn moves(&self) {
        self.moved_ms.store(self.now_ms(), Ordering::Relaxed);
    }

    /// Bytes came.
    pub(crate) fn has_read(&self) {
        self.is_starved.store(false, Ordering::Relaxed);
        if self.is_quiet() && !self.is_http2() && self.head_ms.load(Ordering::Relaxed) == NEVER {
            self.head_ms.store(self.now_ms(), Ordering::Relaxed);
        }
    }

    /// Bytes went. With HTTP/2 they may be those of a ping.
    pub(crate) fn has_written(&self) {
        if !self.is_http2() {
            self.moves();
        }
    }

    /// Whether requests have come by HTTP/2.
    pub(crate) fn is_http2(&self) -> bool {
        self.is_http2.load(Ordering::Relaxed)
    }

    fn is_quiet(&self) -> bool {
        let all = [&self.answering, &self.sending, &self.watches];
        all.into_iter()
            .all(|count| count.load(Ordering::Relaxed) == 0)
    }

    /// The client sends no more. Returns whether it still waits for an answer, of which HTTP would deprive it if it
    /// knew. The client of a watch has gone, and a body of which a part is missing does not come.
    pub(crate) fn end(&self, context: &Context<'_>) -> bool {
        let is_any = |count: &AtomicU32| count.load(Ordering::Relaxed) > 0;
        if self.is_http2() || is_any(&self.watches) || self.is_quiet() {
            return false;
        }
        let knew = self.has_ended.swap(true, Ordering::Relaxed);
        let was_starved = is_any(&self.arriving) && self.is_starved.swap(false, Ordering::Relaxed);
        if was_starved && !knew {
            // More may have come since: the body is asked again.
            context.waker().wake_by_ref();
        }
        !(was_starved && knew)
    }

    /// Whether the client sends no more, and waits for an answer.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    /// The head of a request came.
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

    /// An answer begins to be sent.
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

    /// A part of it is done.
    pub(crate) fn moves(&self) {
        self.activity.moves();
    }

    /// It waits for bytes.
    pub(crate) fn starve(&self, context: &Context<'_>) {
        self.activity.is_starved.store(true, Ordering::Relaxed);
        if self.activity.has_ended() {
            // None will come, as HTTP has to hear.
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
    async fn a_new_connection_takes_the_place_of_the_oldest_unproven_one() {
        let places = places(4, 2);
        let proven = places.enter().await;
        proven.prove();
        let first = places.enter().await;
        let second = places.enter().await;
        let third = places.enter().await;
        let out = [&proven, &first, &second, &third].map(is_out);
        assert_eq!(out, [false, true, false, false]);
        first.activity().told_to_go().await;
        // A place is counted once, whoever frees it.
        drop(first);
        assert_eq!(places.lock().taken, 3);
        drop((proven, second, third));
        assert_eq!(places.lock().taken, 0);
        assert!(places.lock().unproven.is_empty());
    }

    #[tokio::test]
    async fn only_proven_connections_keep_others_waiting() {
        let places = places(2, 1);
        let first = places.enter().await;
        first.prove();
        let second = places.enter().await;
        let third = places.enter().await;
        assert!(is_out(&second), "it was not proven");
        third.prove();
        assert!(places.try_enter().is_none());
        let waits = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.enter().await }
        });
        tokio::task::yield_now().await;
        assert!(!waits.is_finished());
        drop(third);
        assert!(!is_out(&waits.await.expect("it got a place")));
    }
}
