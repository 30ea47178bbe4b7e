//! The `retrial-sim` binary.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
