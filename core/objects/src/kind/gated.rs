//! Members of objects that depend on feature gates.

/// A member that objects have only while a feature gate is on. The gate is off by default.
#[derive(Clone, Copy, Debug)]
pub struct GatedMember {
    /// The gate.
    pub gate: &'static str,
    /// The objects that the member is in, from the outermost.
    pub within: &'static [&'static str],
    /// The member.
    pub name: &'static str,
    /// The number that the member has while the gate is on and a client gives none.
    pub default: i64,
}
