//! The disruption controller's task: syncs the cluster's budgets in small batches and hands the
//! events to an event writer.

use std::sync::{Arc, Mutex};

use podstorm::client::{EventIntent, EventMessage, EventType};
use podstorm_apiserver::Cluster;
use podstorm_apiserver::disruption::DisruptionEvent;
use podstorm_objects::Now;

use super::Builder;
use super::client::Client;
use super::event_sink::{EventQueue, EventWriter};
use crate::executor::{Next, Task};
use crate::rows::DISRUPTION;

/// Adds its task and its event writer. Only the writer's calls have a latency.
pub(super) fn add(builder: &mut Builder) {
    let cluster = Arc::clone(&builder.cluster);
    let sink = builder.executor.reserve();
    let events = Arc::new(EventQueue::new(Arc::clone(&builder.executor), sink));
    let writer = EventWriter::new(
        DISRUPTION.component,
        Arc::clone(&events),
        Arc::new(Client::new(Arc::clone(&cluster), None)),
        builder.call_latency(DISRUPTION.component, 0),
        builder.seed(DISRUPTION.component, 1),
        None,
    );
    builder.install(sink, Arc::new(Mutex::new(writer)));
    builder.add(|_, waker| {
        cluster.set_disruption_waker(Some(waker));
        DisruptionTask::new(cluster, events)
    });
}

/// Most keys synced in one run.
const BATCH: usize = 100;

/// The time between two runs, ns. A sync looks at all pods, so changes are gathered: a budget of a
/// rollout is synced a hundred times a second at most.
const PAUSE_NS: i64 = 10_000_000;

/// The disruption controller of a cluster. The cluster's disruption waker must wake this task.
#[derive(Debug)]
pub(super) struct DisruptionTask {
    cluster: Arc<Cluster>,
    events: Arc<EventQueue>,
    /// When the next run may be, ns.
    not_before_ns: i64,
}

impl DisruptionTask {
    pub(super) fn new(cluster: Arc<Cluster>, events: Arc<EventQueue>) -> DisruptionTask {
        DisruptionTask {
            cluster,
            events,
            not_before_ns: i64::MIN,
        }
    }
}

impl Task for DisruptionTask {
    fn run(&mut self, now: Now) -> Next {
        if now.mono_ns < self.not_before_ns {
            return Next::At(self.not_before_ns);
        }
        let syncs = self.cluster.sync_disruptions(BATCH, now);
        if syncs.done > 0 {
            self.not_before_ns = now.mono_ns.saturating_add(PAUSE_NS);
        }
        if !syncs.events.is_empty() {
            self.events.offer(syncs.events.into_iter().map(intent), now);
        }
        match syncs.next_due_ns {
            None => Next::Idle,
            Some(due_ns) => Next::At(due_ns.max(self.not_before_ns)),
        }
    }
}

fn intent(event: DisruptionEvent) -> EventIntent {
    EventIntent {
        regarding: Arc::new(event.regarding),
        kind: match event.warning {
            true => EventType::Warning,
            false => EventType::Normal,
        },
        reason: event.reason,
        message: EventMessage::Text(event.message.into()),
    }
}

#[cfg(test)]
mod tests;
