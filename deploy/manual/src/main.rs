//! Writes the manual pages and shell completions of `forebay` and `loadgen` into the folder of its
//! argument. The crates that this needs are not in the programs.

use anyhow::{Context, Result};
use clap::Command;
use clap_complete::Shell;
use std::env;
use std::fs::create_dir_all;
use std::path::{Path, PathBuf};

fn main() -> Result<()> {
    let folder = PathBuf::from(env::args_os().nth(1).context("usage: manual FOLDER")?);
    for command in [forebay::inside::command(), loadgen::command()] {
        let name = command.get_name().to_owned();
        write(&command, &name, &folder).with_context(|| format!("{name}: cannot write to {}", folder.display()))?;
    }
    Ok(())
}

/// Writes the pages of `command`, one for each subcommand too, and its completions for each shell.
fn write(command: &Command, name: &str, folder: &Path) -> Result<()> {
    let (pages, completions) = (folder.join("man"), folder.join("completions"));
    create_dir_all(&pages)?;
    create_dir_all(&completions)?;
    clap_mangen::generate_to(command.clone(), &pages)?;
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut command.clone(), name, &completions)?;
    }
    Ok(())
}
