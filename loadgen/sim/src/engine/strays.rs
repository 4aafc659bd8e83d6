//! Requests that nobody waits for any more: their sender is dead, was told that they had failed,
//! or knows nothing of their being sent twice. They reach the server all the same.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex};

use podstorm_apiserver::Cluster;
use podstorm_objects::Now;

use super::client::{ApiCalls, Client};
use super::probe::{Origin, Probe, SyncId};
use crate::executor::{Next, Part};
use crate::faults::Line;
use crate::faults::line::Stray;

/// The controllers' lines of a run; grows when a controller is started.
pub(super) type Lines = Arc<Mutex<Vec<Arc<Line>>>>;

/// Brings stray requests to the server.
#[derive(Debug)]
pub(super) struct Strays {
    client: Client,
    lines: Lines,
    probe: Arc<dyn Probe>,
    waiting: BinaryHeap<Reverse<(i64, u64)>>,
    /// By number of arrival; taken when they are carried out.
    requests: Vec<Option<Stray>>,
    calls: ApiCalls,
}

impl Strays {
    pub(super) fn new(cluster: &Arc<Cluster>, lines: Lines, probe: Arc<dyn Probe>) -> Strays {
        Strays {
            client: Client::new(Arc::clone(cluster), None),
            lines,
            probe,
            waiting: BinaryHeap::new(),
            requests: Vec::new(),
            calls: ApiCalls::default(),
        }
    }

    fn take_in(&mut self) {
        let lines = self
            .lines
            .lock()
            .expect("no thread panics while it holds this lock");
        for stray in lines.iter().flat_map(|line| line.take_strays()) {
            let number = self.requests.len() as u64;
            self.waiting.push(Reverse((stray.due_ns, number)));
            self.requests.push(Some(stray));
        }
    }

    /// Requests on their way.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}

impl Part for Strays {
    fn run(&mut self, now: Now) -> Next {
        self.take_in();
        while let Some(&Reverse((due_ns, number))) = self.waiting.peek() {
            if due_ns > now.mono_ns {
                return Next::At(due_ns);
            }
            self.waiting.pop();
            let index = usize::try_from(number).expect("requests in memory fit a usize");
            let Some(stray) = self.requests[index].take() else {
                continue;
            };
            let sync = SyncId {
                incarnation: stray.incarnation,
                kind: stray.kind,
                number: stray.sync,
            };
            self.probe.carries_out(Some(Origin { sync, stray: true }));
            // Nobody waits for the answer.
            let _ = self.client.carry_out(&stray.request, &mut self.calls, now);
            self.probe.carries_out(None);
        }
        Next::Idle
    }
}
