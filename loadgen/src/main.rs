//! The `loadgen` command: sets the allocator and calls the library.

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    podstorm_loadgen::cli::main()
}
