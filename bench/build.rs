//! Tells the crate for what target and with what flags it is built: counts of one set of target features say
//! little about those of another.

use std::env;

fn main() {
    // Cargo runs this again when the compiler or the flags change, whatever is listed here.
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
