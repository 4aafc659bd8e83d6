//! The namespace controller as a task: syncs the namespaces that are being deleted when they are due.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use podstorm_apiserver::Cluster;
use podstorm_apiserver::namespaces::{FIRST_AFTER_NS, StoreApi, sync};
use podstorm_objects::{Namespace, Now};

use super::Builder;
use crate::executor::stream::{ObjectEvent, ObjectStream};
use crate::executor::{Next, Task, Waker};

/// Adds its task.
pub(super) fn add(builder: &mut Builder) {
    let (cluster, waits) = (
        Arc::clone(&builder.cluster),
        builder.options.services.namespaces_wait,
    );
    builder.add(|_, waker| NamespaceTask::new(cluster, waits, waker));
}

/// First delay after an error, ns; it doubles with each.
const RETRY_FIRST_NS: i64 = 5_000_000;

/// Longest delay after an error, ns.
const RETRY_MAX_NS: i64 = 60_000_000_000;

/// From something that went to the next look, where namespaces don't wait as upstream's do, ns.
const SOON_NS: i64 = 100_000_000;

/// A moment that never comes.
const NEVER: i64 = i64::MAX;

/// The namespace controller of a cluster.
#[derive(Debug)]
pub(super) struct NamespaceTask {
    cluster: Arc<Cluster>,
    namespaces: ObjectStream<Namespace>,
    /// Whether namespaces are looked at when upstream looks at them. If not, it is at once, and then soon
    /// after something went.
    waits: bool,
    /// Whether something went from a namespace that is being deleted.
    went: Arc<AtomicBool>,
    /// The namespaces to sync, by name.
    due: BTreeMap<String, Due>,
}

#[derive(Clone, Copy, Debug)]
struct Due {
    /// [`NEVER`] where something must go first.
    at_ns: i64,
    /// Errors in a row.
    failures: u32,
    /// Whether it was looked at since something went.
    looked: bool,
}

impl NamespaceTask {
    pub(super) fn new(cluster: Arc<Cluster>, waits: bool, waker: Waker) -> NamespaceTask {
        let went = Arc::new(AtomicBool::new(false));
        if !waits {
            let (went, waker) = (Arc::clone(&went), Arc::clone(&waker));
            cluster.set_namespaces_waker(Some(Arc::new(move || {
                // Relaxed, as the load: the run queue's lock orders what is done before a wake before the run.
                went.store(true, Ordering::Relaxed);
                waker();
            })));
        }
        NamespaceTask {
            namespaces: ObjectStream::new(Arc::clone(&cluster), waker),
            cluster,
            waits,
            went,
            due: BTreeMap::new(),
        }
    }

    /// Syncs a namespace, and notes when it is due again.
    fn sync(&mut self, name: &str, now: Now) {
        let mut api = StoreApi {
            cluster: &self.cluster,
            name,
            now,
        };
        let outcome = sync(&mut api, now);
        let known = self.due.get(name);
        let before = known.map_or(0, |due| due.failures);
        let looked = known.is_some_and(|due| due.looked);
        let (delay_ns, failures) = match outcome.map(|outcome| outcome.again_after_seconds()) {
            Ok(None) => {
                self.due.remove(name);
                return;
            }
            Ok(Some(seconds)) => (seconds.saturating_mul(1_000_000_000), 0),
            Err(_) => {
                let delay_ns = RETRY_FIRST_NS.saturating_mul(1_i64 << before.min(30));
                (delay_ns.min(RETRY_MAX_NS), before.saturating_add(1))
            }
        };
        let at_ns = match self.waits {
            true => now.mono_ns.saturating_add(delay_ns),
            false if looked => NEVER,
            // Requests that were admitted before the deletion began may have come behind this look.
            false => now.mono_ns.saturating_add(SOON_NS),
        };
        let due = Due {
            at_ns,
            failures,
            looked: true,
        };
        self.due.insert(name.to_owned(), due);
    }
}

impl Task for NamespaceTask {
    fn run(&mut self, now: Now) -> Next {
        if self.went.swap(false, Ordering::Relaxed) {
            let soon_ns = now.mono_ns.saturating_add(SOON_NS);
            for due in self.due.values_mut() {
                due.at_ns = due.at_ns.min(soon_ns);
                due.looked = false;
            }
        }
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
                    looked: false,
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
        next.or(Next::not_before(earliest.unwrap_or(NEVER)))
    }
}
