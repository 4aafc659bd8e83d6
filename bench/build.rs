//! Passes the target and the compiler flags to the crate: counts for one set of target features
//! are not comparable with those for another.

use std::env;

fn main() {
    // Cargo also reruns this script when the compiler or the flags change.
    println!("cargo:rerun-if-changed=build.rs");
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
