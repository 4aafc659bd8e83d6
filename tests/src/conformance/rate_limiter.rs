//! Cases of `rate_limiter`: the same calls to three limiters.

use podstorm::intern::StrTable;
use podstorm::limits::{BACKOFF_BASE_NS, BACKOFF_MAX_NS, RETRY_BURST, RETRY_QPS};
use podstorm::workqueue::{ControllerLimiter, ExponentialLimiter, TokenBucket};

use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let mut limiters = Limiters {
        ids: StrTable::new(),
        exponential: ExponentialLimiter::new(BACKOFF_BASE_NS, BACKOFF_MAX_NS),
        bucket: TokenBucket::new(RETRY_QPS, RETRY_BURST),
        both: ControllerLimiter::new(),
        now_ns: 0,
    };
    case.each("ops", |op| limiters.step(op))
}

struct Limiters {
    ids: StrTable,
    exponential: ExponentialLimiter<u32>,
    bucket: TokenBucket,
    both: ControllerLimiter<u32>,
    now_ns: i64,
}

impl Limiters {
    fn step(&mut self, op: &mut Fields) -> Result<(), String> {
        match &*op.text("op")? {
            "Step" => self.now_ns += op.int("nanos")?,
            "When" => {
                let key = self.ids.intern(&op.text("item")?);
                let delay_ns = self.exponential.when(key);
                expect_eq("exponential", &delay_ns, &op.int("exponential")?)?;
                let delay_ns = self.bucket.reserve(self.now_ns);
                expect_eq("bucket", &delay_ns, &op.int("bucket")?)?;
                let delay_ns = self.both.when(key, self.now_ns);
                expect_eq("max", &delay_ns, &op.int("max")?)?;
                self.requeues(key, op)?;
            }
            "Forget" => {
                let key = self.ids.intern(&op.text("item")?);
                self.exponential.forget(key);
                self.both.forget(key);
                self.requeues(key, op)?;
            }
            other => return Err(format!("unknown op {other:?}")),
        }
        Ok(())
    }

    fn requeues(&self, key: u32, op: &mut Fields) -> Result<(), String> {
        let recorded = op.int("numRequeues")?;
        expect_eq(
            "numRequeues",
            &i64::from(self.both.num_requeues(key)),
            &recorded,
        )?;
        let own = i64::from(self.exponential.num_requeues(key));
        expect_eq("numRequeues of the exponential limiter", &own, &recorded)
    }
}
