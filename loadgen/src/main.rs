//! The `loadgen` command: the allocator, and a call.

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    podstorm_loadgen::cli::main()
}
