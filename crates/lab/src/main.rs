//! The `retrial-lab` binary.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
