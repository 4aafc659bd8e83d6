//! Members of objects that depend on feature gates.

/// A member that objects have only while a feature gate, off by default, is on.
#[derive(Clone, Copy, Debug)]
pub struct GatedMember {
    /// The feature gate.
    pub gate: &'static str,
    /// The objects that contain the member, from the outermost.
    pub within: &'static [&'static str],
    /// The name of the member.
    pub name: &'static str,
    /// The value of the member if the gate is on and the client sets none.
    pub default: i64,
}
