//! The FIFO order of keys: a bounded ring that is replaced by a larger one as keys are added, and
//! the control word for growing, parking and shutting down.
//!
//! README.md in this folder describes the protocol; the comments here describe each step.

use super::ring::Ring;
use crate::limits::{QUEUE_FIRST_CAPACITY, QUEUE_GENERATIONS};
use crate::primitives::{
    AtomicU64, CachePadded, Condvar, Mutex, MutexGuard, OnceLock, Ordering, between_seq_cst, fence,
    lock,
};

/// The control word. All threads read it and it rarely changes, so each core keeps a cached copy.
/// From the lowest bit: the number of parked threads (16 bits), the two flags, the newest ring, to
/// which keys are pushed (5 bits), and the oldest ring that may hold keys (5 bits).
#[derive(Clone, Copy)]
pub(super) struct Control(u64);

const PARKED_ONE: u64 = 1;
const PARKED_MASK: u64 = 0xffff;
const SHUTTING: u64 = 1 << 16;
const DRAINING: u64 = 1 << 17;
const NEWEST_SHIFT: u32 = 18;
const OLDEST_SHIFT: u32 = 23;
const GENERATION: u64 = 0x1f;

const _: () = assert!(QUEUE_GENERATIONS as u64 <= GENERATION);

impl Control {
    fn parked(self) -> u64 {
        self.0 & PARKED_MASK
    }

    fn newest(self) -> usize {
        (self.0 >> NEWEST_SHIFT & GENERATION) as usize
    }

    fn oldest(self) -> usize {
        (self.0 >> OLDEST_SHIFT & GENERATION) as usize
    }

    pub(super) fn is_shutting(self) -> bool {
        self.0 & SHUTTING != 0
    }

    pub(super) fn is_draining(self) -> bool {
        self.0 & DRAINING != 0
    }
}

/// The result of a pop.
pub(super) enum Popped {
    Key(u32),
    /// There was no key. Holds the control word as it was before the pop.
    Nothing(Control),
}

#[derive(Debug)]
pub(super) struct Fifo {
    control: CachePadded<AtomicU64>,
    /// Ring `g` has capacity for `first_capacity << g` keys. Created under `growth`, never freed.
    rings: [OnceLock<Ring>; QUEUE_GENERATIONS],
    first_capacity: usize,
    /// Held while a ring is added or the oldest is retired. Never held while `park` is taken.
    growth: Mutex<()>,
    /// Held by a thread from the moment it announces that it will park until it is parked, and by a
    /// thread that wakes others. A thread that holds it may take `growth`.
    park: Mutex<()>,
    /// Notified when a key was pushed and when the queue shuts down.
    pushed: Condvar,
    /// Notified when a key is done while the queue drains, and when the drain is cancelled.
    done: Condvar,
}

impl Fifo {
    /// Creates a queue that holds `capacity` keys without growing.
    pub(super) fn new(capacity: usize) -> Self {
        let first_capacity = capacity.next_power_of_two().max(QUEUE_FIRST_CAPACITY);
        let fifo = Fifo {
            control: CachePadded::new(AtomicU64::new(0)),
            rings: std::array::from_fn(|_| OnceLock::new()),
            first_capacity,
            growth: Mutex::new(()),
            park: Mutex::new(()),
            pushed: Condvar::new(),
            done: Condvar::new(),
        };
        fifo.rings[0].get_or_init(|| Ring::new(first_capacity));
        fifo
    }

    #[inline]
    pub(super) fn control(&self) -> Control {
        // SeqCst: pairs with `start_drain` for `done` (see README.md, "Draining"); a plain load on
        // x86. The Acquire part makes the rings that the word names visible.
        Control(self.control.load(Ordering::SeqCst))
    }

    #[inline]
    fn ring(&self, generation: usize) -> &Ring {
        self.rings[generation]
            .get()
            .expect("the control word names rings that exist")
    }

    /// Appends a key that is not in any ring, and wakes a parked thread if there is one. `control`
    /// is the control word that this thread read earlier.
    #[inline]
    pub(super) fn push(&self, mut control: Control, key: u32) {
        if key as usize >> control.newest() >= self.first_capacity {
            control = self.grow_for(key);
        }
        self.ring(control.newest()).push(key);
        let after = self.control_after_ring();
        if after.newest() != control.newest() {
            self.move_late_keys(control.newest());
        }
        if after.parked() > 0 {
            self.wake_one();
        }
    }

    /// Returns the control word after this thread has changed a ring. A thread that changes the
    /// control word and then reads a ring also has a fence in between
    /// ([`Self::fence_before_ring`]). Therefore either that thread sees the key, or this thread
    /// sees the new control word.
    #[inline]
    fn control_after_ring(&self) -> Control {
        // SeqCst: the single order of all fences decides which thread sees the other.
        fence(Ordering::SeqCst);
        // Relaxed: ordered by the fence.
        Control(self.control.load(Ordering::Relaxed))
    }

    /// Separates a change of the control word, which this thread has made or read, from a read of a
    /// ring. The read must not miss the keys of threads that have not seen the change.
    #[inline]
    fn fence_before_ring() {
        // SeqCst: as in `control_after_ring`.
        fence(Ordering::SeqCst);
    }

    /// Takes the oldest key. Does not park.
    #[inline]
    pub(super) fn pop(&self) -> Popped {
        let control = self.control();
        match self.ring(control.oldest()).pop() {
            Some(key) => Popped::Key(key),
            None => self.pop_slow(control),
        }
    }

    /// Pops a key after the oldest ring was found empty.
    #[cold]
    fn pop_slow(&self, mut control: Control) -> Popped {
        loop {
            let oldest = control.oldest();
            if oldest < control.newest() {
                // If the next pop finds nothing, a late key can only come from a push that has not
                // yet seen the newer ring. That push will check this ring under the lock.
                let _growth = lock(&self.growth);
                Self::fence_before_ring();
                if let Some(key) = self.ring(oldest).pop() {
                    return Popped::Key(key);
                }
                if self.control().oldest() == oldest {
                    // Release: a thread that reads the new oldest ring finds the old one in the
                    // state that this thread found.
                    self.control.fetch_add(1 << OLDEST_SHIFT, Ordering::Release);
                }
            } else {
                let now = self.control();
                if now.newest() == control.newest() {
                    return Popped::Nothing(control);
                }
            }
            control = self.control();
            if let Some(key) = self.ring(control.oldest()).pop() {
                return Popped::Key(key);
            }
        }
    }

    /// Adds rings until the newest has capacity for the key. Returns the control word that names
    /// it.
    #[cold]
    fn grow_for(&self, key: u32) -> Control {
        let _growth = lock(&self.growth);
        loop {
            let control = self.control();
            let next = control.newest() + 1;
            if (key as usize) >> control.newest() < self.first_capacity {
                return control;
            }
            self.rings[next].get_or_init(|| Ring::new(self.first_capacity << next));
            // Release: publishes the ring.
            self.control.fetch_add(1 << NEWEST_SHIFT, Ordering::Release);
        }
    }

    /// Called by a push to a ring that was replaced in the meantime. If that ring is already
    /// retired, moves its keys to the newest ring. These keys come from pushes that have not
    /// returned yet, so they may come last in the order. If the ring is not retired, its keys can
    /// stay in it.
    #[cold]
    fn move_late_keys(&self, generation: usize) {
        let mut parked = 0;
        {
            let _growth = lock(&self.growth);
            let control = self.control();
            if control.oldest() <= generation {
                return;
            }
            while let Some(key) = self.ring(generation).pop() {
                // The newest ring cannot be replaced while this thread holds the lock.
                self.ring(control.newest()).push(key);
                parked += u64::from(self.control_after_ring().parked() > 0);
            }
        }
        for _ in 0..parked {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        let _park = lock(&self.park);
        self.pushed.notify_one();
    }

    /// Takes the oldest key. Parks while there is none. Returns `None` once the queue is shut down
    /// and empty.
    pub(super) fn pop_or_park(&self) -> Option<u32> {
        match self.pop() {
            Popped::Key(key) => return Some(key),
            Popped::Nothing(control) if control.is_shutting() => return None,
            Popped::Nothing(_) => {}
        }
        let mut park = lock(&self.park);
        // Relaxed: ordered by the fence. Either a push sees that this thread parks and waits for
        // the lock, or the second pop below sees the pushed key.
        self.control.fetch_add(PARKED_ONE, Ordering::Relaxed);
        Self::fence_before_ring();
        let found = loop {
            match self.pop() {
                Popped::Key(key) => break Some(key),
                Popped::Nothing(control) if control.is_shutting() => break None,
                Popped::Nothing(_) => park = wait(&self.pushed, park),
            }
        };
        // Relaxed: a push that still counts this thread as parked wakes another thread or none.
        self.control.fetch_sub(PARKED_ONE, Ordering::Relaxed);
        found
    }

    /// Returns the number of keys in the rings.
    pub(super) fn len(&self) -> usize {
        let control = self.control();
        (control.oldest()..=control.newest())
            .map(|generation| self.ring(generation).len())
            .sum()
    }

    pub(super) fn shut_down(&self) {
        // SeqCst, both: as in `start_drain`.
        self.control.fetch_or(SHUTTING, Ordering::SeqCst);
        self.control.fetch_and(!DRAINING, Ordering::SeqCst);
        self.wake_all();
    }

    pub(super) fn start_drain(&self) {
        // SeqCst: either a later `done` sees the flag, or the check of the keys that follows this
        // store sees that `done` has finished its key.
        self.control.fetch_or(SHUTTING | DRAINING, Ordering::SeqCst);
        between_seq_cst();
        self.wake_all();
    }

    fn wake_all(&self) {
        let _park = lock(&self.park);
        self.pushed.notify_all();
        self.done.notify_all();
    }

    /// Wakes the threads that wait for the drain, so that they check again.
    #[cold]
    pub(super) fn wake_drain(&self) {
        let _park = lock(&self.park);
        self.done.notify_all();
    }

    /// Parks until `complete` returns true. Checks again after each `wake_drain` and `shut_down`.
    pub(super) fn wait_for_drain(&self, complete: impl Fn() -> bool) {
        let mut park = lock(&self.park);
        while !complete() {
            park = wait(&self.done, park);
        }
    }
}

fn wait<'a>(condition: &Condvar, guard: MutexGuard<'a, ()>) -> MutexGuard<'a, ()> {
    condition
        .wait(guard)
        .expect("no thread panics while holding this lock")
}
