//! Every limit and tuning constant, with where it comes from.

/// Nanoseconds in a microsecond.
pub const MICROSECOND_NS: i64 = 1_000;
/// Nanoseconds in a millisecond.
pub const MILLISECOND_NS: i64 = 1_000_000;
/// Nanoseconds in a second.
pub const SECOND_NS: i64 = 1_000_000_000;
/// Nanoseconds in a minute.
pub const MINUTE_NS: i64 = 60 * SECOND_NS;

/// Age after which expectations no longer hold a key back; exactly this age still does.
/// Upstream's `ExpectationsTimeout`.
pub const EXPECTATIONS_TIMEOUT_NS: i64 = 5 * MINUTE_NS;

/// Shards of the expectations that are keyed by text: enough that 16 threads on random keys seldom
/// meet, few enough that walking over them costs nothing.
pub const EXPECTATIONS_SHARDS: usize = 64;

/// Most pods that one sync creates or deletes; upstream's `BurstReplicas`.
pub const BURST_REPLICAS: usize = 500;

/// First batch of a slow start; upstream's `SlowStartInitialBatchSize`.
pub const SLOW_START_INITIAL_BATCH: usize = 1;

/// First delay after a failure; upstream's controller rate limiter.
pub const BACKOFF_BASE_NS: i64 = 5 * MILLISECOND_NS;

/// Longest delay after repeated failures; upstream's controller rate limiter.
pub const BACKOFF_MAX_NS: i64 = 1_000 * SECOND_NS;

/// Longest delay after repeated failures in the hardened behaviour, and the time after which a key
/// looks for what its last sync expected.
pub const HARDENED_RETRY_MAX_NS: i64 = 30 * SECOND_NS;

/// Longest delay in the hardened behaviour before a sync that only waits for its caches is tried again,
/// ns: 5 s. It asks nothing of the server, and nothing wakes the key when a cache has caught up.
pub const HARDENED_STALE_RETRY_MAX_NS: i64 = 5 * SECOND_NS;

/// The longest delay, before the lot, between two attempts to list or to watch in the hardened
/// behaviour, ns: 10 s. With the lot and one retry of a key it leaves a cluster that is well again
/// less than a minute behind.
pub const HARDENED_WATCH_RETRY_MAX_NS: i64 = 10 * SECOND_NS;

/// How long an API server may work on a write before it gives up, ns: 30 s. A driver sends it as the
/// request's `timeout` parameter, which kube-apiserver keeps to; without the parameter it may take as
/// long as its `--request-timeout`, 60 s by default, and a create may come late by as much.
pub const REQUEST_DEADLINE_NS: i64 = 30 * SECOND_NS;

/// Failures per second of all keys together that are not delayed further.
pub const RETRY_QPS: f64 = 10.0;

/// Failures of all keys together that may come at once before [`RETRY_QPS`] counts.
pub const RETRY_BURST: u32 = 100;

/// Room of the work queue's first ring. One slot is 16 bytes, so 16 KiB. (The models of two or three
/// keys are to see rings replaced.)
pub const QUEUE_FIRST_CAPACITY: usize = if cfg!(any(feature = "loom", feature = "shuttle")) {
    1
} else {
    1_024
};

/// Rings that a work queue may go through, each twice the room of the one before. The last one has
/// room for 2^10 * 2^22 = 2^32 keys, all there can be.
pub const QUEUE_GENERATIONS: usize = 23;

/// Upper bounds, in nanoseconds, of the work queue's duration histograms: upstream's
/// 10^-8 * 10^i seconds for i = 0..=9, which is 10 ns to 10 s. Everything longer is in one more.
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

/// Entries of the first chunk of an append-only table. Every further chunk is twice as long.
pub const TABLE_FIRST_CHUNK: usize = if cfg!(any(feature = "loom", feature = "shuttle")) {
    2
} else {
    64
};

/// Chunks of an append-only table: 64 * (2^27 - 1) entries is more than 2^32.
pub const TABLE_CHUNKS: usize = 27;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(QUEUE_FIRST_CAPACITY << (QUEUE_GENERATIONS - 1) == 1 << 32);
const _: () = assert!(TABLE_FIRST_CHUNK.is_power_of_two());
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(TABLE_FIRST_CHUNK * ((1 << TABLE_CHUNKS) - 1) > u32::MAX as usize);
const _: () = assert!(EXPECTATIONS_SHARDS.is_power_of_two());

/// Pods in a list from which on a cache is filled on several threads: below, waking them costs more
/// than they save.
pub const PARALLEL_LIST_MIN: usize = 16_384;
