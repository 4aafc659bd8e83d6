//! Notes about a ranking: what it ignores and what it depends on.

use super::Objects;
use super::order::{Outcome, Question};
use super::words::{age, pods};

/// The age from which a dump gets a note, in seconds.
const OLD_SECONDS: i64 = 3_600;

/// Returns the notes about a ranking, in sentences.
pub(super) fn notes(objects: &Objects, question: &Question, outcome: &Outcome) -> Vec<String> {
    let mut notes = Vec::new();
    let meta = &outcome.object.metadata;
    if outcome.inactive > 0 {
        notes.push(format!(
            "Left out: {} that it owns and that no longer counts, ended or being deleted.",
            pods(outcome.inactive)
        ));
    }
    if outcome.released > 0 {
        notes.push(format!(
            "Left out: {} that it owns and releases, because the selector does not match.",
            pods(outcome.released)
        ));
    }
    let adopted = outcome.rows.iter().filter(|row| row.ranked.adopted).count();
    if adopted > 0 {
        notes.push(format!(
            "Of these, {} without an owner that match the selector: adopted first, then \
             ranked with the others.",
            pods(adopted)
        ));
    }
    if let Some(owner) = meta.controller() {
        notes.push(format!(
            "It belongs to {} {}, which sets its replicas: scale that.",
            owner.kind, owner.name
        ));
    }
    if outcome.syncs > 1 {
        notes.push(format!(
            "A sync deletes {} at most (--burst-replicas); the pods on each node are counted again \
             before the next one.",
            pods(question.options.burst_replicas)
        ));
    }
    if outcome.unranked {
        notes.push(match outcome.syncs {
            1 => "All of them go, so upstream ranks none.".to_owned(),
            _ => "The last sync deletes all that are left, so upstream ranks none of them."
                .to_owned(),
        });
    }
    if outcome.without_uid > 0 {
        notes.push(format!(
            "Without a UID: {}; they tie where the UID decides.",
            pods(outcome.without_uid)
        ));
    }
    if !question.options.gates.pod_deletion_cost {
        notes.push("PodDeletionCost is off: rule 4 does not apply.".to_owned());
    }
    if outcome.ages_matter() {
        let now = outcome.now.wall();
        let newest = objects.newest_time();
        let mut note = format!(
            "Ages put some pods before others; they are as of {now} (--now sets another time)."
        );
        let since = now.unix_seconds().unwrap_or(0) - newest.unix_seconds().unwrap_or(i64::MIN / 2);
        if since > OLD_SECONDS && !newest.is_unset() {
            note.push_str(&format!(
                " The newest time in the input is {newest}, {} before: --now {newest} ranks as \
                 at that time.",
                age(newest, outcome.now)
            ));
        } else if since < 0 {
            note.push_str(&format!(
                " The input has later times, up to {newest}: they count as just now."
            ));
        }
        notes.push(note);
    }
    notes
}
