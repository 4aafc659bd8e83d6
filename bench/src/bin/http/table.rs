//! The figures as a document.

use std::fmt::Write;

use podstorm_loadgen::units::count_for_people;

/// A line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// What is done, and how its figures are to be read.
    pub(crate) work: &'static str,
    /// Ours, plain; ours, with TLS and a token; the real one, with TLS, a token and etcd.
    pub(crate) cells: [String; 3],
    /// What we mean to reach.
    pub(crate) target: &'static str,
}

/// Returns the document; `where_from` tells the machine, the commit and the time.
pub(crate) fn render(rows: &[Row], where_from: &str) -> String {
    let mut text = format!(
        "# The API server over HTTP\n\n\
         Made by `cargo run --release --bin http`; don't edit. {where_from}\n\n\
         Server and client are processes of their own and share the machine's cores; loopback, connections stay open. CPU is the server's own, \
         for one request, event or pod;\nbeside a real server that of etcd is shown separately. The real server is kube-apiserver 1.20.2 with etcd 3.4 that does not wait for the \
         disk; it speaks only TLS,\nso it is to be compared with ours with TLS and a token. Rates of a client of our own are medians of three rounds.\n\n\
         | work | ours, plain | ours, TLS and token | kube-apiserver 1.20.2 and etcd | target |\n|---|--:|--:|--:|---|\n"
    );
    for Row {
        work,
        cells: [plain, tls, real],
        target,
    } in rows
    {
        let _ = writeln!(text, "| {work} | {plain} | {tls} | {real} | {target} |");
    }
    text
}

/// `12,345`.
pub(crate) fn thousands(number: f64) -> String {
    count_for_people(number.round() as u64)
}

/// Bytes as `12.3 MB`.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
