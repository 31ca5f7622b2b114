//! Does the command do what its help says?

mod command_lines;

use super::*;

// Is the command well-formed by clap's debug assertions?
#[test]
fn the_command_is_consistent() {
    command().debug_assert();
}

// Does each subcommand have a summary that says what it does, not what the source calls its flags,
// and an example?
#[test]
fn every_subcommand_has_a_summary() {
    for subcommand in command().get_subcommands() {
        let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(about.len() > 40 && !about.contains("Flags of"), "{}: {about}", subcommand.get_name());
        assert_eq!(subcommand.get_long_about(), None, "{}", subcommand.get_name());
        let help = [subcommand.clone().render_help(), subcommand.clone().render_long_help()];
        let example = format!("Example:\n  forebay {} ", subcommand.get_name());
        assert!(help.iter().all(|help| help.to_string().contains(&example)), "{}", subcommand.get_name());
    }
}
