//! Tells the crate with what it is built: counts of one compiler, or of one set of target
//! features, say little about those of another.

use std::env;
use std::process::Command;

fn main() {
    // Cargo runs this again when the compiler or the flags change, whatever is listed here.
    println!("cargo:rerun-if-changed=build.rs");
    let rustc = env::var_os("RUSTC").expect("cargo names the compiler");
    let version = Command::new(&rustc).arg("--version").output();
    let version = version.expect("cargo has just run the compiler").stdout;
    println!(
        "cargo:rustc-env=PODSTORM_RUSTC={}",
        String::from_utf8_lossy(&version).trim()
    );
    let of = |name| env::var(name).unwrap_or_default();
    let mut flags = format!("{} +{}", of("TARGET"), of("CARGO_CFG_TARGET_FEATURE"));
    for flag in of("CARGO_ENCODED_RUSTFLAGS").split('\x1f') {
        if !flag.is_empty() {
            flags.push(' ');
            flags.push_str(flag);
        }
    }
    println!("cargo:rustc-env=PODSTORM_FLAGS={flags}");
}
