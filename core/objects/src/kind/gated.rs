//! Members of objects that depend on feature gates.

/// A member that objects have only while a feature gate, off by default, is on.
#[derive(Clone, Copy, Debug)]
pub struct GatedMember {
    /// The gate.
    pub gate: &'static str,
    /// The objects that contain the member, from the outermost.
    pub within: &'static [&'static str],
    /// The member.
    pub name: &'static str,
    /// The value of the member while the gate is on and a client sets none.
    pub default: i64,
}
