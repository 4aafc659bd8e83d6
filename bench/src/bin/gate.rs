//! The `gate` command: a call.

fn main() -> std::process::ExitCode {
    podstorm_bench::gate::main()
}
