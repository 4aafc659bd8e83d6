//! A real kube-controller-manager 1.20.2, which `tests/control-plane/build` builds, on this server,
//! and for quotas on a real kube-apiserver too.

mod bootstrap;
mod differential;
mod manager;
mod node_lifecycle;
mod on_our_server;
mod quota;
mod server;
