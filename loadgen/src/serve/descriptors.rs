//! The process's limit of open files. Each connection takes one.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files to the process's hard limit, as Go's runtime does: the usual
/// limit of a shell, 1,024, is too low for the clients of a server. If the system refuses, the
/// limit stays unchanged, and connections beyond it wait to be accepted.
pub(crate) fn raise_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        let _stays = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}
