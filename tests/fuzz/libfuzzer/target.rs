//! One of the fuzz targets under libFuzzer: the environment variable `TARGET` names it.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use podstorm_tests::fuzz::Target;

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var("TARGET").expect("TARGET names a fuzz target");
    Target::by_name(&name).expect("TARGET names a fuzz target")
});

fuzz_target!(|data: &[u8]| {
    (TARGET.run)(data);
});
