//! Cases of `workqueue`: operations on a rate-limiting queue with a manual clock.

use podstorm::intern::StrTable;
use podstorm::workqueue::{RateLimitingQueue, Take};
use serde_json::Value;

use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let mut harness = Harness::default();
    case.each("ops", |op| harness.step(op))
}

#[derive(Default)]
struct Harness {
    ids: StrTable,
    queue: RateLimitingQueue<u32>,
    now_ns: i64,
    /// Whether the requested drain has returned; `None` if no drain was requested.
    drain: Option<bool>,
}

impl Harness {
    fn step(&mut self, op: &mut Fields) -> Result<(), String> {
        let (name, item) = (op.text("op")?, op.take("item"));
        let (queue, now_ns) = (&self.queue, self.now_ns);
        let key = match &item {
            Some(Value::String(item)) => Ok(self.ids.intern(item)),
            _ => Err(format!("{name} without an item")),
        };
        match &*name {
            "Add" => drop(queue.add(key?, now_ns)),
            "AddAfter" => drop(queue.add_after(key?, op.int("nanos")?, now_ns)),
            "AddRateLimited" => {
                let key = key?;
                let delay = queue.add_rate_limited(key, now_ns);
                expect_eq("delay", &delay, &op.int("delay")?)?;
                requeues(queue, key, op)?;
            }
            "Forget" => {
                let key = key?;
                queue.forget(key);
                requeues(queue, key, op)?;
            }
            "NumRequeues" => requeues(queue, key?, op)?,
            "Get" => {
                let recorded = (op.text("got")?, op.flag("blocked")?, op.flag("shutdown")?);
                let ours = match queue.try_take(now_ns) {
                    Take::Key(key) => (self.ids.text(key).to_string(), false, false),
                    Take::Empty => (String::new(), true, false),
                    Take::ShutDown => (String::new(), false, true),
                };
                expect_eq("got, blocked, shutdown", &ours, &recorded)?;
            }
            "Done" => queue.done(key?, now_ns),
            "Step" => self.advance(op.int("nanos")?),
            "Len" => {}
            "ShutDown" => queue.shut_down(),
            "ShutDownWithDrain" => {
                queue.start_drain();
                self.drain = Some(false);
            }
            other => return Err(format!("unknown op {other:?}")),
        }
        // Once a drain has returned, it remains so.
        self.drain = self
            .drain
            .map(|returned| returned || self.queue.drain_complete());
        let recorded = match op.take("drainReturned") {
            None => None,
            Some(Value::Bool(returned)) => Some(returned),
            Some(other) => return Err(format!("drainReturned: expected a boolean, found {other}")),
        };
        expect_eq("drainReturned", &self.drain, &recorded)?;
        let len = i64::try_from(self.queue.len()).expect("few items");
        expect_eq("len", &len, &op.int("len")?)?;
        expect_eq(
            "shuttingDown",
            &self.queue.shutting_down(),
            &op.flag("shuttingDown")?,
        )
    }

    /// Advances the clock, and stops at each time at which a key is due.
    fn advance(&mut self, nanos: i64) {
        let until_ns = self.now_ns + nanos;
        while let Some(due_ns) = self.queue.next_due().filter(|&due_ns| due_ns <= until_ns) {
            self.now_ns = due_ns.max(self.now_ns);
            self.queue.fire_due(self.now_ns);
        }
        self.now_ns = until_ns;
    }
}

fn requeues(queue: &RateLimitingQueue<u32>, key: u32, op: &mut Fields) -> Result<(), String> {
    expect_eq(
        "numRequeues",
        &i64::from(queue.num_requeues(key)),
        &op.int("numRequeues")?,
    )
}
