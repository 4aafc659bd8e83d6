//! The faults between controllers and cluster, those of the clock and those of the nodes.

use podstorm_apiserver::DeleteOptions;
use podstorm_objects::Namespace;
use podstorm_sim::faults::{Armed, Connection, FaultClass, StreamEnd};

use super::super::action::Action;
use super::{Later, MS, NAMESPACE, Simulation, Stale, node_name};

impl Simulation {
    /// Changes the connection of each live controller manager.
    pub(super) fn each_connection(&self, change: impl Fn(&Connection)) {
        self.harness
            .alive()
            .iter()
            .for_each(|connection| change(connection));
    }

    pub(super) fn disturb(&mut self, class: Option<FaultClass>, action: &Action) {
        let now = self.harness.now();
        let until = |ms: u32| now.mono_ns.saturating_add(i64::from(ms) * MS);
        match action {
            Action::Requests {
                calls,
                owner,
                batch,
                index,
                effect,
                times,
                within_ms,
            } => self.harness.network().arm(Armed {
                class: class.unwrap_or(FaultClass::ApiError),
                calls: calls.clone(),
                workload: owner.clone(),
                batch: *batch,
                index: *index,
                effect: effect.clone(),
                times: *times,
                until_ns: until(*within_ms),
            }),
            Action::Hold { stream, for_ms } => {
                self.each_connection(|connection| connection.hold(*stream, until(*for_ms)))
            }
            Action::Break { stream } => {
                self.each_connection(|connection| connection.break_for_good(*stream))
            }
            Action::Drop {
                stream,
                events,
                list_after_ms,
            } => {
                self.each_connection(|connection| connection.drop_events(*stream, *events));
                self.after_ms(*list_after_ms, Later::List { stream: *stream });
            }
            Action::Duplicate { stream, events } => {
                self.each_connection(|connection| connection.duplicate_events(*stream, *events))
            }
            Action::Replay { stream, events } => {
                self.each_connection(|connection| connection.replay_events(*stream, *events))
            }
            Action::EndWatch { stream, end } => {
                self.each_connection(|connection| connection.end(*stream, *end))
            }
            Action::RefuseWatch {
                stream,
                fault,
                times,
            } => {
                self.each_connection(|connection| {
                    connection.refuse_open(*stream, *fault, *times);
                    connection.end(*stream, StreamEnd::Closed);
                });
            }
            Action::Compact { stream } => {
                let compacted = self.cluster().api(stream.kind()).compact();
                compacted.expect("every cluster serves the kinds that its controllers watch");
                self.each_connection(|connection| connection.end(*stream, StreamEnd::Closed));
            }
            Action::ServeStale {
                stream,
                versions,
                for_ms,
            } => {
                let for_ns = i64::from(*for_ms) * MS;
                self.each_connection(|connection| {
                    connection.lag(*stream, u64::from(*versions), for_ns)
                });
                // The end of the watch, which forces a new list, is not an effect of the lagging
                // server.
                self.harness.network().set_fault_id(None);
                self.each_connection(|connection| {
                    connection.end(*stream, StreamEnd::ClosedAndExpired)
                });
            }
            Action::Crash {
                point,
                passes,
                down_ms,
                stale_versions,
                stale_for_ms,
            } => {
                let stale = Stale {
                    versions: *stale_versions,
                    for_ms: *stale_for_ms,
                };
                self.crash = (i64::from(*down_ms) * MS, stale);
                if let Some(connection) = self.harness.alive().last() {
                    connection.crash_at(*point, *passes);
                }
            }
            Action::Overlap { for_ms } => {
                self.start(Stale::default());
                self.after_ms(*for_ms, Later::KillOldest);
            }
            Action::Pause { for_ms } => {
                self.each_connection(|connection| connection.pause_until(until(*for_ms)))
            }
            Action::WallClock { offset_s, for_ms } => {
                self.each_connection(|connection| {
                    connection.set_wall_offset(i64::from(*offset_s) * 1_000 * MS)
                });
                self.after_ms(*for_ms, Later::ClockRight);
            }
            Action::Quota { pods, for_ms } => {
                let pods = Some(u64::from(*pods));
                self.written(self.cluster().set_pod_quota(NAMESPACE, pods, now));
                self.after_ms(*for_ms, Later::LiftQuota);
            }
            Action::LoseNode { node, for_ms } => {
                let node = node % self.planned.nodes;
                self.harness.nodes().lose(&node_name(node));
                self.after_ms(*for_ms, Later::RestoreNode { node });
            }
            Action::RejectPods { node, for_ms } => {
                let node = node % self.planned.nodes;
                self.harness.nodes().set_rejecting(&node_name(node), true);
                self.after_ms(*for_ms, Later::RestoreNode { node });
            }
            Action::DeleteNamespace { gap_ms } => {
                if !self.away {
                    self.away = true;
                    let options = DeleteOptions::default();
                    self.written(
                        self.cluster()
                            .delete::<Namespace>("", NAMESPACE, &options, now),
                    );
                    self.after_ms(*gap_ms, Later::CreateNamespace);
                }
            }
            other => unreachable!("{other:?} is handled by the caller"),
        }
    }
}
