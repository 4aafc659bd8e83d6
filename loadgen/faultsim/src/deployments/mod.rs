//! Deployments under faults: a campaign of their own, beside that of ReplicaSets, whose seeds keep their
//! meaning.
//!
//! A seed draws, from a stream of its own ([`draw`]), one to three Deployments, what users do
//! to them ([`users`]) and faults of the classes that there are. The faults are carried out by the
//! simulation that schedules of ReplicaSets use, and its checker looks at everything that the controller
//! of ReplicaSets does. Beside it [`checker`] looks at every commit of the Deployment controller.
//!
//! A run ([`mod@play`]) creates them, disturbs the cluster, and puts everything right: faults end, users resume
//! what is paused and give what can't run a template that can. Then everything must come to the wanted
//! state, and stay so without a write.
//!
//! # Invariants
//!
//! Each looks at one commit of the Deployment controller, on the server's state of that moment. *Seen* is
//! what the controller's caches had when the sync began, with what the sync wrote itself. A sync *scales*
//! when the Deployment is paused or an active ReplicaSet has another desired size on it than the
//! Deployment. What a user changed, or another sync wrote, after it was seen excuses exactly the pods that
//! it explains: upstream's controller waits for none of its own writes.
//!
//! * **D1** No write makes a ReplicaSet larger where all together then are more than `replicas` and
//!   `maxSurge`. Of another ReplicaSet no more counts than was seen. A sync that scales is checked at its
//!   end, if it came to one, as some grow before others shrink. Where there were too many already, each has
//!   at most what it had, or its share by the `max-replicas` on it, which is not right any more where a
//!   user has sized it. A rollback
//!   that is asked for by annotation creates the ReplicaSet of the present template first, with `Recreate`
//!   in its whole size.
//! * **D2** No write of a rolling update that takes a pod away which was seen available leaves fewer than
//!   `replicas` less `maxUnavailable` pods available; and none of an old ReplicaSet leaves less than that of
//!   old sizes and the new one's available pods. Pods that were seen available and are not (they died
//!   since, or their ReplicaSet has just been made smaller) count. A sync that scales has no such limit:
//!   upstream looks at sizes alone there.
//! * **D3** The revision of a ReplicaSet never falls; that of a new one is above all that were seen; that
//!   of a Deployment changes to no less than the highest that was seen.
//! * **D4** A ReplicaSet grows only if it is the oldest seen one with the template that was seen, or in a
//!   sync that scales.
//! * **D5** No ReplicaSet is created for a Deployment that was seen paused, and none for a template that a
//!   seen one has.
//! * **D6** With `Recreate` none grows while another that was seen has pods or wants some, but for such a
//!   rollback.
//! * **D7** Only names of ReplicaSets that were seen old, without pods, and beyond the history's limit are
//!   deleted.
//!   That is so of what the sync began with: while paused upstream may make one larger and delete it.
//! * **L1** So long after the end of faults every Deployment is complete: the ReplicaSet of its template
//!   has all pods, no other has any, the status and its conditions say so, and the history is within its
//!   limit. Hazards H3 and H4 of the controller's specification are exceptions that users end: they scale,
//!   or ask for a rolling update. H2 and H10 are ended by a touch.
//! * **L2** Then nothing is written for ten minutes.
//! * **L6** No livelock: after the last fault no Deployment asks for the same and gets the same answer
//!   more than 24 times once nothing was written for a second. Hazard H1 is an exception: a Deployment that
//!   was complete and isn't is looked at every few milliseconds, and where H2 hides a failure the write is
//!   tried as often.

pub mod checker;
pub mod draw;
mod ending;
mod faults;
mod limits;
#[cfg(test)]
mod planted_tests;
pub mod play;
pub mod schedule;
#[cfg(test)]
mod tests;
pub mod users;

pub use play::play;
pub use schedule::Schedule;
