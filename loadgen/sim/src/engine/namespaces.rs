//! The namespace controller as a task: syncs the namespaces that are being deleted when they are due.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_apiserver::namespaces::{FIRST_AFTER_NS, StoreApi, sync};
use podstorm_objects::{Namespace, Now};

use crate::executor::stream::{ObjectEvent, ObjectStream};
use crate::executor::{Next, Task, Waker};

/// First delay after an error, ns; it doubles with each.
const RETRY_FIRST_NS: i64 = 5_000_000;

/// Longest delay after an error, ns.
const RETRY_MAX_NS: i64 = 60_000_000_000;

/// The longest wait where namespaces don't wait as upstream's do, ns.
const SOON_NS: i64 = 100_000_000;

/// The namespace controller of a cluster.
#[derive(Debug)]
pub(super) struct NamespaceTask {
    cluster: Arc<Cluster>,
    namespaces: ObjectStream<Namespace>,
    /// Whether namespaces are left alone as long as upstream leaves them.
    waits: bool,
    /// The namespaces to sync, by name.
    due: BTreeMap<String, Due>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Due {
    at_ns: i64,
    /// Errors in a row.
    failures: u32,
}

impl NamespaceTask {
    pub(super) fn new(cluster: Arc<Cluster>, waits: bool, waker: Waker) -> NamespaceTask {
        NamespaceTask {
            namespaces: ObjectStream::new(Arc::clone(&cluster), waker),
            cluster,
            waits,
            due: BTreeMap::new(),
        }
    }

    /// The moment `delay_ns` from now, or sooner where namespaces don't wait.
    fn after(&self, delay_ns: i64, now: Now) -> i64 {
        let delay_ns = match self.waits {
            true => delay_ns,
            false => delay_ns.min(SOON_NS),
        };
        now.mono_ns.saturating_add(delay_ns)
    }

    /// Syncs a namespace, and notes when it is due again.
    fn sync(&mut self, name: &str, now: Now) {
        let mut api = StoreApi {
            cluster: &self.cluster,
            name,
            now,
        };
        let outcome = sync(&mut api, now);
        let failures = self.due.get(name).map_or(0, |due| due.failures);
        let due = match outcome.map(|outcome| outcome.again_after_seconds()) {
            Ok(None) => {
                self.due.remove(name);
                return;
            }
            Ok(Some(seconds)) => Due {
                at_ns: self.after(seconds.saturating_mul(1_000_000_000), now),
                failures: 0,
            },
            Err(_) => {
                let delay_ns = RETRY_FIRST_NS.saturating_mul(1_i64 << failures.min(30));
                Due {
                    at_ns: self.after(delay_ns.min(RETRY_MAX_NS), now),
                    failures: failures.saturating_add(1),
                }
            }
        };
        self.due.insert(name.to_owned(), due);
    }
}

impl Task for NamespaceTask {
    fn run(&mut self, now: Now) -> Next {
        let first_ns = match self.waits {
            true => now.mono_ns.saturating_add(FIRST_AFTER_NS),
            false => now.mono_ns,
        };
        let due = &mut self.due;
        let next = self.namespaces.poll(now, |event| match event {
            ObjectEvent::Added(namespace) | ObjectEvent::Modified(namespace)
                if namespace.metadata.is_deleting() =>
            {
                let new = Due {
                    at_ns: first_ns,
                    failures: 0,
                };
                // A notification that comes while the namespace waits brings it forward.
                let known = due.entry(namespace.metadata.name.to_string());
                known
                    .and_modify(|due| due.at_ns = due.at_ns.min(first_ns))
                    .or_insert(new);
            }
            // The next sync finds that there is nothing to do.
            _ => {}
        });
        let is_due =
            |(name, due): (&String, &Due)| (due.at_ns <= now.mono_ns).then(|| name.clone());
        let names: Vec<String> = self.due.iter().filter_map(is_due).collect();
        for name in names {
            self.sync(&name, now);
        }
        let earliest = self.due.values().map(|due| due.at_ns).min();
        next.or(Next::not_before(earliest.unwrap_or(i64::MAX)))
    }
}
