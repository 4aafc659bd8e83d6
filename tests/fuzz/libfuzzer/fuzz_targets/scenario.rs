//! The target `scenario` under libFuzzer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use podstorm_tests::fuzz::Target;

fuzz_target!(|data: &[u8]| {
    let target = Target::by_name("scenario").expect("a target of the package");
    (target.run)(data);
});
