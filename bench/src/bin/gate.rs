//! The `gate` command.

fn main() -> std::process::ExitCode {
    podstorm_bench::gate::main()
}
