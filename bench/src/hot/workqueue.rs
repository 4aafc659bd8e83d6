//! The rate-limited work queue, with its metrics always on, and the rate limiter.

use std::hint::black_box;

use podstorm::workqueue::{ControllerLimiter, RateLimitingQueue, Take};

use super::Work;

/// Returns the keys in a seemingly random order, each once per round, for any number of keys that
/// is not a multiple of 2,503.
pub fn rounds(keys: u32) -> impl FnMut() -> u32 {
    let (mut key, step) = (0, 2_503 % keys);
    move || {
        // The remainder of the sum. A division would take half as long as an add.
        key += step;
        key = if key < keys { key } else { key - keys };
        key
    }
}

/// Returns a clock that advances 100 ns per call.
fn clock() -> impl FnMut() -> i64 {
    let mut now_ns = 0;
    move || {
        now_ns += 100;
        now_ns
    }
}

fn take(queue: &RateLimitingQueue<u32>, now_ns: i64) -> Option<u32> {
    match queue.try_take(now_ns) {
        Take::Key(key) => Some(key),
        Take::Empty | Take::ShutDown => None,
    }
}

/// Adds a key, takes it, and finishes it, for one key after the other.
pub fn cycle(keys: u32) -> impl FnMut() -> u64 {
    let (queue, mut next, mut now) = (RateLimitingQueue::<u32>::new(), rounds(keys), clock());
    move || {
        queue.add(black_box(next()), now());
        let key = take(&queue, now()).expect("the key was added");
        queue.done(key, now());
        key.into()
    }
}

/// Adds all keys, then takes and finishes all of them.
pub fn backlog(keys: u32) -> impl FnMut() -> u64 {
    let (queue, mut next, mut now) = (RateLimitingQueue::<u32>::new(), rounds(keys), clock());
    move || {
        (0..keys).for_each(|_| assert!(queue.add(next(), now())));
        let mut count = 0;
        while let Some(key) = take(&queue, now()) {
            queue.done(key, now());
            count += 1;
        }
        count
    }
}

/// Adds a key that is already waiting, for one key after the other. All keys are waiting.
pub fn add_queued(keys: u32) -> impl FnMut() -> u64 {
    let (queue, mut next) = (RateLimitingQueue::<u32>::new(), rounds(keys));
    (0..keys).for_each(|key| assert!(queue.add(key, 0)));
    move || queue.add(black_box(next()), 1).into()
}

/// Counts a failure and forgets it, for one key after the other, 100 ns apart.
pub fn limiter(keys: u32) -> impl FnMut() -> u64 {
    let (limiter, mut next, mut now) = (ControllerLimiter::<u32>::new(), rounds(keys), clock());
    move || {
        let key = black_box(next());
        let delay_ns = limiter.when(key, now());
        limiter.forget(key);
        delay_ns as u64
    }
}

/// Delayed adds of all keys, in rounds. At the beginning of a round, nothing is waiting.
#[derive(Debug)]
pub struct DelayedAdds {
    queue: RateLimitingQueue<u32>,
    keys: u32,
    /// The number of keys added in this round.
    added: u32,
    now_ns: i64,
    random: fastrand::Rng,
}

impl DelayedAdds {
    /// Creates the queue with memory for all keys. Nothing is waiting.
    pub fn new(keys: u32) -> DelayedAdds {
        let mut adds = DelayedAdds {
            queue: RateLimitingQueue::new(),
            keys,
            added: 0,
            now_ns: 0,
            random: fastrand::Rng::with_seed(7),
        };
        (0..keys).for_each(|_| {
            adds.work();
        });
        adds.drain();
        adds
    }

    /// Makes all waiting keys due, takes them and finishes them.
    fn drain(&mut self) {
        self.now_ns += 1 << 31;
        self.queue.fire_due(self.now_ns);
        while let Some(key) = take(&self.queue, self.now_ns) {
            self.queue.done(key, self.now_ns);
        }
        self.added = 0;
    }
}

impl Work for DelayedAdds {
    /// Drains the queue if all keys have been added in this round.
    fn prepare(&mut self) -> u64 {
        if self.added == self.keys {
            self.drain();
        }
        u64::from(self.keys - self.added)
    }

    /// Adds the next key after a random delay.
    fn work(&mut self) -> u64 {
        let key = u32::try_from(u64::from(self.added) * 2_503 % u64::from(self.keys));
        let delay_ns = (self.random.u64(..) >> 34) as i64 + 1;
        self.added += 1;
        let key = key.expect("the number is below that of the keys");
        self.queue.add_after(key, delay_ns, self.now_ns).into()
    }
}
