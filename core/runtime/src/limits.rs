//! All limits and tuning constants, with their sources.

/// Nanoseconds in a millisecond.
pub const MILLISECOND_NS: i64 = 1_000_000;
/// Nanoseconds in a second.
pub const SECOND_NS: i64 = 1_000_000_000;
/// Nanoseconds in a minute.
pub const MINUTE_NS: i64 = 60 * SECOND_NS;

/// The age after which expectations expire: they block a key up to and including exactly this age.
/// Upstream's `ExpectationsTimeout`.
pub const EXPECTATIONS_TIMEOUT_NS: i64 = 5 * MINUTE_NS;

/// The number of shards of the expectations with textual keys: enough that 16 threads with random
/// keys rarely share a shard, few enough that visiting all of them costs nothing.
pub const EXPECTATIONS_SHARDS: usize = 64;

/// The maximum number of pods that one sync creates or deletes; upstream's `BurstReplicas`.
pub const BURST_REPLICAS: usize = 500;

/// The size of the first batch of a slow start; upstream's `SlowStartInitialBatchSize`.
pub const SLOW_START_INITIAL_BATCH: usize = 1;

/// The delay after the first failure of a key; from upstream's controller rate limiter.
pub const BACKOFF_BASE_NS: i64 = 5 * MILLISECOND_NS;

/// The maximum delay after repeated failures of a key; from upstream's controller rate limiter.
pub const BACKOFF_MAX_NS: i64 = 1_000 * SECOND_NS;

/// The maximum delay after repeated failures in the hardened behaviour, and the time after which a
/// key checks the expectations that its last sync left.
pub const HARDENED_RETRY_MAX_NS: i64 = 30 * SECOND_NS;

/// The maximum delay, in ns, before the hardened behaviour retries a sync that only waits for its
/// caches: 5 s. Such a sync sends no request, and no event wakes the key when a cache has caught
/// up.
pub const HARDENED_STALE_RETRY_MAX_NS: i64 = 5 * SECOND_NS;

/// The maximum delay, in ns and before jitter, between two attempts to list or to watch in the
/// hardened behaviour: 10 s. With the jitter and one retry of a key, a recovered cluster is less
/// than a minute behind.
pub const HARDENED_WATCH_RETRY_MAX_NS: i64 = 10 * SECOND_NS;

/// The maximum time, in ns, that an API server may spend on a write: 30 s. A driver sends it as the
/// request's `timeout` parameter, which kube-apiserver obeys. Without the parameter, the server may
/// take as long as its `--request-timeout`, 60 s by default, and a create may succeed that late.
pub const REQUEST_DEADLINE_NS: i64 = 30 * SECOND_NS;

/// The rate of failures, per second over all keys, up to which the token bucket adds no delay.
pub const RETRY_QPS: f64 = 10.0;

/// The number of failures, over all keys, that the token bucket admits before [`RETRY_QPS`]
/// applies.
pub const RETRY_BURST: u32 = 100;

/// The number of processor pauses after another thread was faster (`primitives::back_off`). A pause
/// takes 5 to 60 ns. On a processor with pauses of 25 ns, a quarter of this number is the minimum
/// at which the queue is never slower than a plain lock (`bench/results/scaling.md`). A larger
/// number only delays single keys.
pub const BACK_OFF_PAUSES: u32 = 256;

/// How many times a thread that waits for another one pauses before it yields its core. Each time
/// it pauses as long as [`BACK_OFF_PAUSES`] pauses take.
pub const WAITS_BEFORE_YIELDING: u32 = 2;

/// The capacity of the work queue's first ring. A cell has 8 bytes, so the ring has 8 KiB. Model
/// checkers use a smaller ring, because models with two or three keys must see rings replaced.
pub const QUEUE_FIRST_CAPACITY: usize = if cfg!(any(feature = "loom", feature = "shuttle")) {
    1
} else {
    1_024
};

/// The maximum number of rings in a work queue. Each has twice the capacity of the previous one, so
/// the last one has room for 2^10 * 2^22 = 2^32 keys, which is all keys.
pub const QUEUE_GENERATIONS: usize = 23;

/// Upper bounds, in ns, of the work queue's duration histograms: upstream's 10^-8 * 10^i seconds
/// for i = 0..=9, which is 10 ns to 10 s. One more bucket counts longer durations.
pub const QUEUE_DURATION_BOUNDS_NS: [u64; 10] = [
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// The number of entries in the first chunk of an append-only table. Each further chunk has twice
/// as many as the one before.
pub const TABLE_FIRST_CHUNK: usize = if cfg!(any(feature = "loom", feature = "shuttle")) {
    2
} else {
    64
};

/// The number of chunks in an append-only table: 64 * (2^27 - 1) entries, which is more than 2^32.
pub const TABLE_CHUNKS: usize = 27;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(QUEUE_FIRST_CAPACITY << (QUEUE_GENERATIONS - 1) == 1 << 32);
const _: () = assert!(TABLE_FIRST_CHUNK.is_power_of_two());
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(TABLE_FIRST_CHUNK * ((1 << TABLE_CHUNKS) - 1) > u32::MAX as usize);
const _: () = assert!(EXPECTATIONS_SHARDS.is_power_of_two());

/// The minimum number of listed pods for which several threads fill a cache. With fewer pods,
/// waking the threads costs more than they save.
pub const PARALLEL_LIST_MIN: usize = 16_384;
