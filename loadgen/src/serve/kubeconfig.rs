//! What clients need to find the server: a kubeconfig.

use std::net::SocketAddr;

/// A kubeconfig with one cluster, one user and one context, all called `podstorm`.
pub fn kubeconfig(address: SocketAddr) -> String {
    format!(
        "\
apiVersion: v1
kind: Config
current-context: podstorm
clusters:
- name: podstorm
  cluster:
    server: http://{address}
users:
- name: podstorm
  user: {{}}
contexts:
- name: podstorm
  context:
    cluster: podstorm
    user: podstorm
"
    )
}
