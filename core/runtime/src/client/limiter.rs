//! The client-side limit on requests per second, like client-go's flow control.

use crate::workqueue::TokenBucket;

/// Limits requests to a steady rate with a burst, first come, first served. The driver waits for
/// the returned time before it sends.
#[derive(Clone, Debug, Default)]
pub struct QpsLimiter {
    /// `None`: without a limit.
    bucket: Option<TokenBucket>,
}

impl QpsLimiter {
    /// A limiter of `qps` requests per second that allows a burst of `burst`. As in client-go, a
    /// `qps` of 0 or less means no limit, and the rate has single precision.
    pub fn new(qps: f32, burst: u32) -> Self {
        let bucket = (qps > 0.0).then(|| TokenBucket::new(f64::from(qps), burst));
        QpsLimiter { bucket }
    }

    /// No limit.
    pub fn unlimited() -> Self {
        QpsLimiter { bucket: None }
    }

    /// Whether there is no limit.
    pub fn is_unlimited(&self) -> bool {
        self.bucket.is_none()
    }

    /// Reserves the next request. Returns how many nanoseconds to wait before sending it. Requests
    /// are sent in the order of their reservations, which cannot be cancelled.
    #[inline]
    pub fn reserve(&mut self, now_ns: i64) -> i64 {
        self.bucket
            .as_mut()
            .map_or(0, |bucket| bucket.reserve(now_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{MILLISECOND_NS, SECOND_NS};

    #[test]
    fn requests_wait_their_turn_after_the_burst() {
        let mut limiter = QpsLimiter::new(20.0, 30);
        assert!((0..30).all(|_| limiter.reserve(0) == 0));
        let delays: Vec<_> = (0..3).map(|_| limiter.reserve(0)).collect();
        assert_eq!(delays, [50, 100, 150].map(|ms| ms * MILLISECOND_NS));
        // One second brings 20 tokens: three were owed, one is taken now, 16 are left.
        assert!((0..17).all(|_| limiter.reserve(SECOND_NS) == 0));
        assert_eq!(limiter.reserve(SECOND_NS), 50 * MILLISECOND_NS);
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        for mut limiter in [
            QpsLimiter::unlimited(),
            QpsLimiter::new(-1.0, 1),
            QpsLimiter::new(0.0, 1),
        ] {
            assert!(limiter.is_unlimited());
            assert!((0..1_000).all(|_| limiter.reserve(0) == 0));
        }
    }
}
