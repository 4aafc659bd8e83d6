//! What things are called in a simulation.

/// The namespace of every object.
pub(crate) const NAMESPACE: &str = "sim";

/// The finalizer that keeps a pod.
pub(crate) const STUCK: &str = "podstorm.example/stuck";

/// The name of the node with that number.
pub(crate) fn node_name(number: u32) -> String {
    format!("node-{number}")
}
