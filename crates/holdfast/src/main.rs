//! Holdfast: one binary, all parts. Reads the command line and the configuration, runs one command, and ends with
//! an exit code of the product's one table.

mod agent;
mod appliance;
mod bring;
mod cli;
mod config;
mod failure;
mod graph;
mod guard;
mod image;
mod log;
mod manifests;
mod migrate;
mod output;
mod services;
mod status;
mod storage;
mod up;
mod upgrade;
mod volume;
mod witness;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let arguments = cli::with_document_spellings(std::env::args_os());
    let cli = cli::Cli::parse_from(arguments);
    match cli.run() {
        Ok(exit) => ExitCode::from(exit.code()),
        Err(failure) => {
            failure.print();
            ExitCode::from(failure.exit.code())
        }
    }
}
