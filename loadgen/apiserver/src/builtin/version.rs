//! Other versions of kinds. Clients see such a version as a kind of its own; its objects are
//! converted from and to the stored version.
//!
//! Source: `pkg/apis/core/v1`, `events/v1` and `autoscaling/v1` conversions of Kubernetes.

use podstorm_objects::{Cause, Kind, ResourceType};
use serde_json::{Map, Value};

use super::{autoscaling, event};

/// Reports whether a document is an object of a kind: whether its members have their types.
pub(super) type Decodes = fn(Kind, Value) -> bool;

/// A version of a kind that is stored in another version.
#[derive(Debug)]
pub struct OtherVersion {
    /// The row of the version.
    pub row: ResourceType,
    /// The stored version.
    pub stored: Kind,
    /// Converts an object's members from the stored version to this one.
    pub to: fn(&mut Map<String, Value>),
    /// Converts an object's members from this version to the stored one.
    pub from: fn(&mut Map<String, Value>, Decodes),
    /// Whether this version validates a new object's metadata more strictly than the stored one.
    pub checks_metadata: bool,
    /// Returns the violations of this version's additional rules, for an update with the stored
    /// object. The objects are in the stored version.
    pub check: fn(&Value, Option<&Value>) -> Vec<Cause>,
}

/// The other versions of all built-in kinds.
pub static OTHER_VERSIONS: [&OtherVersion; 2] = [&event::NEW_GROUP, &autoscaling::VERSION_1];
