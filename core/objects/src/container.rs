//! Container statuses in three parts: the members that the controller reads, the members that
//! differ between containers, and the members that the containers of one template share.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::{PackedTime, Rest, Str};

/// The statuses of a pod's containers.
pub type ContainerStatuses = SmallVec<[ContainerStatus; 1]>;

/// An entry of `status.containerStatuses` or `status.initContainerStatuses`.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerStatus {
    /// The name of the container.
    pub name: Str,
    /// How often the container has been restarted.
    pub restart_count: i32,
    /// Whether the container passes its readiness probe.
    pub ready: bool,
    /// All other members; absent if there are none.
    pub details: Option<Arc<ContainerDetails>>,
}

/// The members of a container status that the controller does not read. The members that differ
/// between containers have typed fields, so that `rest` can be shared.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerDetails {
    /// `containerID`.
    pub id: Option<ContainerId>,
    /// `state.running.startedAt` of a state with no other member. Unset if `state` is absent or has
    /// another form, which `rest` then holds.
    pub running_since: PackedTime,
    /// Members without a typed field.
    pub rest: Rest,
}

/// A container takes 72 bytes including the counts of an `Arc`; 33 of them are the id.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<ContainerDetails>() <= 72 - 16);

/// The id that a container runtime assigned. `runtime://` and 64 hex digits take half the bytes;
/// any other text is stored unchanged.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ContainerId(Repr);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Repr {
    /// A runtime of [`RUNTIMES`] and 64 lower-case hex digits.
    Digest { runtime: u8, digest: [u8; 32] },
    /// Any other text.
    Text(Box<str>),
}

/// The prefixes of ids in the packed form. An id stores the index in this list.
const RUNTIMES: [&str; 3] = ["containerd://", "cri-o://", "docker://"];

const HEX: &[u8; 16] = b"0123456789abcdef";

impl ContainerId {
    /// Creates an id from its text.
    pub fn new(text: &str) -> ContainerId {
        let digest_of = |(runtime, start): (u8, &&str)| {
            let digest = read_digest(text.strip_prefix(*start)?.as_bytes())?;
            Some(Repr::Digest { runtime, digest })
        };
        let packed = (0..).zip(&RUNTIMES).find_map(digest_of);
        ContainerId(packed.unwrap_or_else(|| Repr::Text(text.into())))
    }
}

/// Reads 64 lower-case hex digits; `None` for any other text.
fn read_digest(text: &[u8]) -> Option<[u8; 32]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let text: &[u8; 64] = text.try_into().ok()?;
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(digest)
}

impl fmt::Display for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Text(text) => f.write_str(text),
            Repr::Digest { runtime, digest } => {
                let mut hex = [0; 64];
                for (pair, byte) in hex.chunks_exact_mut(2).zip(digest) {
                    pair[0] = HEX[usize::from(byte >> 4)];
                    pair[1] = HEX[usize::from(byte & 0xf)];
                }
                f.write_str(RUNTIMES[usize::from(*runtime)])?;
                f.write_str(str::from_utf8(&hex).expect("digits are ASCII"))
            }
        }
    }
}

impl fmt::Debug for ContainerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_reads_back_as_written() {
        let digits = "0123456789abcdef".repeat(4);
        for (text, packed) in [
            (format!("containerd://{digits}"), true),
            (format!("cri-o://{digits}"), true),
            (format!("docker://{digits}"), true),
            (format!("containerd://{digits}0"), false),
            (format!("containerd://{}", &digits[1..]), false),
            (format!("containerd://{}A", &digits[1..]), false),
            (format!("containerd://{}\u{e9}", &digits[2..]), false),
            (format!("Containerd://{digits}"), false),
            (digits.clone(), false),
            ("containerd://91d7aa07c3".into(), false),
            (String::new(), false),
        ] {
            let id = ContainerId::new(&text);
            assert_eq!(id.to_string(), text);
            assert_eq!(matches!(id.0, Repr::Digest { .. }), packed, "{text}");
        }
    }
}
