//! Orphaned requests: they reach the server, but no sync waits for their answers. The sender is
//! dead, has already received an error, or does not know that they were sent twice.

use std::sync::{Arc, Mutex};

use podstorm_apiserver::Cluster;
use podstorm_objects::Now;

use super::client::{ApiCalls, Client};
use super::observer::{Origin, Origins, SyncId};
use crate::due_queue::DueQueue;
use crate::executor::{Next, Task};
use crate::faults::Connection;
use crate::faults::connection::OrphanedRequest;
use crate::lock;

/// The connections of all controller managers of a run. Grows when a manager starts.
pub(super) type Connections = Arc<Mutex<Vec<Arc<Connection>>>>;

/// The task that carries orphaned requests to the server.
#[derive(Debug)]
pub(super) struct OrphanedRequests {
    client: Client,
    connections: Connections,
    origins: Arc<dyn Origins>,
    waiting: DueQueue<OrphanedRequest>,
    calls: ApiCalls,
}

impl OrphanedRequests {
    pub(super) fn new(
        cluster: &Arc<Cluster>,
        connections: Connections,
        origins: Arc<dyn Origins>,
    ) -> OrphanedRequests {
        OrphanedRequests {
            client: Client::new(Arc::clone(cluster), None),
            connections,
            origins,
            waiting: DueQueue::default(),
            calls: ApiCalls::default(),
        }
    }

    /// Returns the number of requests in flight.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl Task for OrphanedRequests {
    fn run(&mut self, now: Now) -> Next {
        for connection in &*lock(&self.connections) {
            for request in connection.take_orphaned() {
                self.waiting.push(request.due_ns, request);
            }
        }
        while let Some(orphan) = self.waiting.pop_due(now.mono_ns) {
            let sync = SyncId {
                incarnation: orphan.incarnation,
                kind: orphan.kind,
                number: orphan.sync,
            };
            let orphaned = true;
            self.origins.carries_out(Some(Origin { sync, orphaned }));
            // No sync waits for the answer.
            let _ = self.client.carry_out(&orphan.request, &mut self.calls, now);
            self.origins.carries_out(None);
        }
        self.waiting.next_due_ns().map_or(Next::Idle, Next::At)
    }
}
