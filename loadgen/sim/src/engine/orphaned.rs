//! Requests that nobody waits for any more: their sender is dead, was told that they had failed,
//! or knows nothing of their being sent twice. They reach the server all the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex};

use podstorm_apiserver::Cluster;
use podstorm_objects::Now;

use super::client::{ApiCalls, Client};
use super::observer::{Observer, Origin, SyncId};
use crate::executor::{Next, Task};
use crate::faults::Connection;
use crate::faults::connection::OrphanedRequest;

/// The controllers' lines of a run; grows when a controller is started.
pub(super) type Connections = Arc<Mutex<Vec<Arc<Connection>>>>;

/// Brings stray requests to the server.
#[derive(Debug)]
pub(super) struct OrphanedRequests {
    client: Client,
    connections: Connections,
    observer: Arc<dyn Observer>,
    waiting: BinaryHeap<Reverse<(i64, u64)>>,
    /// By number of arrival; taken when they are carried out.
    requests: Vec<Option<OrphanedRequest>>,
    calls: ApiCalls,
}

impl OrphanedRequests {
    pub(super) fn new(
        cluster: &Arc<Cluster>,
        connections: Connections,
        observer: Arc<dyn Observer>,
    ) -> OrphanedRequests {
        OrphanedRequests {
            client: Client::new(Arc::clone(cluster), None),
            connections,
            observer,
            waiting: BinaryHeap::new(),
            requests: Vec::new(),
            calls: ApiCalls::default(),
        }
    }

    fn take_in(&mut self) {
        let connections = self
            .connections
            .lock()
            .expect("no thread panics while it holds this lock");
        for orphan in connections
            .iter()
            .flat_map(|connection| connection.take_orphaned())
        {
            let number = self.requests.len() as u64;
            self.waiting.push(Reverse((orphan.due_ns, number)));
            self.requests.push(Some(orphan));
        }
    }

    /// Requests on their way.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl Task for OrphanedRequests {
    fn run(&mut self, now: Now) -> Next {
        self.take_in();
        while let Some(&Reverse((due_ns, number))) = self.waiting.peek() {
            if due_ns > now.mono_ns {
                return Next::At(due_ns);
            }
            self.waiting.pop();
            let index = usize::try_from(number).expect("requests in memory fit a usize");
            let Some(orphan) = self.requests[index].take() else {
                continue;
            };
            let sync = SyncId {
                incarnation: orphan.incarnation,
                kind: orphan.kind,
                number: orphan.sync,
            };
            self.observer.carries_out(Some(Origin {
                sync,
                orphaned: true,
            }));
            // Nobody waits for the answer.
            let _ = self.client.carry_out(&orphan.request, &mut self.calls, now);
            self.observer.carries_out(None);
        }
        Next::Idle
    }
}
