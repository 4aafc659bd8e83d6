//! The trace of a run, which is a hash of everything that happens, and the text of the log.

use podstorm::client::Request;
use podstorm_apiserver::{Change, Commit};
use podstorm_objects::{Pod, Uid};
use podstorm_sim::engine::client::RequestInfo;
use podstorm_sim::engine::observer::{Origin, SyncId};

use super::Oracle;

/// An FNV-1a hash with 128 bits, which is the same on every machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trace(u128);

impl Default for Trace {
    fn default() -> Trace {
        Trace(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d)
    }
}

impl Trace {
    fn byte(&mut self, byte: u8) {
        self.0 =
            (self.0 ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }

    pub(super) fn add(&mut self, number: u64) {
        number
            .to_le_bytes()
            .into_iter()
            .for_each(|byte| self.byte(byte));
    }

    pub(super) fn add_str(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.byte(byte));
        self.byte(0xff);
    }

    pub(super) fn hash(self) -> u128 {
        self.0
    }
}

/// Formats a commit for the log.
pub(super) fn commit_text(commit: &Commit, origin: Option<Origin>, oracle: &dyn Oracle) -> String {
    let who = match origin {
        None => String::new(),
        Some(Origin { sync, orphaned }) => format!(
            " by sync {} of controller {}{}",
            sync.number,
            sync.incarnation,
            if orphaned {
                ", which no longer waits for the answer"
            } else {
                ""
            }
        ),
    };
    let what = match commit.change {
        Change::Added => "created",
        Change::Modified => "changed",
        Change::Deleted => "removed",
    };
    let detail = if let Some((_, pod)) = commit.downcast::<Pod>() {
        let owner = pod.metadata.controller();
        let owner = owner.map_or("none".to_owned(), |owner| {
            format!("{} {}", owner.name, short(&owner.uid))
        });
        let deleting = if pod.metadata.is_deleting() {
            ", deleting"
        } else {
            ""
        };
        format!(" (owner {owner}, {:?}{deleting})", pod.status.phase)
    } else {
        oracle.object_words(&commit.new).unwrap_or_default()
    };
    format!(
        "version {}: {:?} {} {what}{who}{detail}",
        commit.version,
        commit.new.kind(),
        commit.new.metadata().name
    )
}

/// Formats a request of a sync for the log.
pub(super) fn request_text(sync: SyncId, request: &Request, oracle: &dyn Oracle) -> String {
    format!(
        "  sync {} of controller {} requests: {}",
        sync.number,
        sync.incarnation,
        request_words(request, oracle)
    )
}

/// Formats a request without its sync.
pub(super) fn request_words(request: &Request, oracle: &dyn Oracle) -> String {
    match request {
        Request::CreatePod { name, .. } => {
            let name = name.as_deref().unwrap_or("a new name");
            format!("create a pod as {name}")
        }
        Request::DeletePod { name, uid, .. } => {
            let uid = uid.as_ref().map_or("any uid".to_owned(), short);
            format!("delete pod {name} ({uid})")
        }
        Request::PatchOwners { name, patch, .. } => format!("patch {name}: {patch:?}"),
        Request::Get { name, .. } => format!("read {name}"),
        Request::Create { object } => format!("create {}", object.metadata().name),
        Request::Put { object } => format!("write {}", object.metadata().name),
        Request::Delete { name, .. } => format!("delete {name}"),
        Request::PutStatus { object } => {
            let words = oracle.status_words(object).unwrap_or_default();
            format!("write the status of {}{words}", object.metadata().name)
        }
        Request::ReadVersion { kind } => format!("read the version of {}", kind.resource()),
        Request::Patch { name, .. }
        | Request::GetScale { name, .. }
        | Request::PutScale { name, .. } => {
            format!("{} of {name}", RequestInfo::from_request(request))
        }
        Request::List { namespace, .. } | Request::DeleteCollection { namespace, .. } => {
            format!(
                "{} of namespace {namespace:?}",
                RequestInfo::from_request(request)
            )
        }
        Request::Finalize { namespace } => format!("finalize {}", namespace.metadata.name),
        Request::Discover => "discover".to_owned(),
        Request::GetOwnerScale { owner, .. } => {
            format!("get the scale of {} {}", owner.kind, owner.name)
        }
        Request::Raw { path } => format!("get {path}"),
    }
}

/// Returns a prefix of a UID that is long enough to identify the object.
pub(crate) fn short(uid: &Uid) -> String {
    let mut text = uid.to_string();
    text.truncate(8);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_depends_on_order_and_on_text_boundaries() {
        let hash = |texts: &[&str]| {
            let mut trace = Trace::default();
            texts.iter().for_each(|text| trace.add_str(text));
            trace.hash()
        };
        assert_eq!(hash(&["a", "b"]), hash(&["a", "b"]));
        assert_ne!(hash(&["a", "b"]), hash(&["b", "a"]));
        assert_ne!(hash(&["ab", "c"]), hash(&["a", "bc"]));
    }
}
