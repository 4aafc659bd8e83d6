//! The invariants that hold in every scenario, as far as one sync shows them: I1 to I7. I5 is
//! looked at by the server's observer, I8 and I9 when a scenario is over; a panic is I10.

use std::collections::BTreeSet;

use podstorm::replicaset::{Outcome, SyncErrorClass};
use podstorm_sim::faults::Call;

use super::diary::{Asked, SyncPage};

/// How long expectations hold, ns.
pub(super) const EXPECTATIONS_NS: i64 = 300_000_000_000;

/// What a request breaks that is about to join those that its sync has sent before.
pub(super) fn at_request(page: &SyncPage, asked: &Asked) -> Option<String> {
    let seen = page.seen.as_ref()?;
    let name = &page.parent;
    let scales = matches!(asked.call, Call::CreatePod | Call::DeletePod);
    if seen.deleting && (scales || asked.call == Call::PatchPod) {
        return Some(format!(
            "I3: {:?} for {name}, which is being deleted",
            asked.call
        ));
    }
    if scales && seen.expecting {
        return Some(format!(
            "I6: {:?} for {name} while events are awaited",
            asked.call
        ));
    }
    let generation = asked.observed_generation;
    if generation.is_some_and(|generation| generation != seen.generation) {
        let used = seen.generation;
        return Some(format!(
            "I7: {name} was synced at {used}, not {generation:?}"
        ));
    }
    if scales && page.requests.iter().any(failed_claim) {
        return Some(format!("I4: {name} is scaled after a claim has failed"));
    }
    if asked.call == Call::DeletePod && !claimed(page).contains(asked.name.as_str()) {
        return Some(format!(
            "I4: {name} deletes {}, which it has not claimed",
            asked.name
        ));
    }
    None
}

/// What a sync has broken that is over.
pub(super) fn at_end(page: &SyncPage) -> Option<String> {
    let name = &page.parent;
    let Some(seen) = page.seen.as_ref() else {
        let idle = page.requests.is_empty();
        return (!idle).then(|| format!("I2: {name} is not in the cache and is worked on"));
    };
    let active = i64::try_from(claimed(page).len()).expect("there are few pods");
    let sent = |call| i64::try_from(page.sent(call)).expect("there are few requests");
    let (creates, deletes) = (sent(Call::CreatePod), sent(Call::DeletePod));
    if creates > 0 && deletes > 0 {
        return Some(format!("I2: one sync of {name} creates and deletes"));
    }
    let missing = (seen.replicas - active).min(seen.burst);
    let surplus = (active - seen.replicas).min(seen.burst);
    if creates > missing.max(0) || deletes > surplus.max(0) {
        return Some(format!(
            "I2: {creates} creates, {deletes} deletes for {name} with {active} of {}",
            seen.replicas
        ));
    }
    if let Some((_, Outcome::Failed(error))) = &page.ended
        && matches!(error.class, SyncErrorClass::Consistency(_))
        && !page.requests.is_empty()
    {
        return Some(format!(
            "a sync of {name} that the gate refused has sent requests"
        ));
    }
    None
}

/// The pods that the sync has claimed so far: its own in the cache, and those it has adopted.
fn claimed(page: &SyncPage) -> BTreeSet<&str> {
    let own = page.seen.iter().flat_map(|seen| &seen.own);
    let adopted = page
        .requests
        .iter()
        .filter(|asked| asked.adopts && asked.answer == Some(Ok(())));
    own.map(String::as_str)
        .chain(adopted.map(|asked| asked.name.as_str()))
        .collect()
}

/// Whether a pod could not be claimed: for an adoption a pod that is gone is none, for a release
/// neither is one that has changed hands.
fn failed_claim(asked: &Asked) -> bool {
    if asked.call == Call::GetParent {
        // Before anything is scaled, that is the check before an adoption.
        return matches!(asked.answer, Some(Err(_)));
    }
    let harmless: &[u16] = if asked.adopts { &[404] } else { &[404, 422] };
    asked.call == Call::PatchPod
        && asked
            .answer
            .is_some_and(|answer| answer.is_err_and(|code| !harmless.contains(&code)))
}
