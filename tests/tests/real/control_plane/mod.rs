//! A real kube-controller-manager 1.20.2, built by `tests/control-plane/build`, on this server and,
//! for quotas, also on a real kube-apiserver.

mod bootstrap;
mod differential;
mod manager;
mod node_lifecycle;
mod on_our_server;
mod quota;
mod server;
