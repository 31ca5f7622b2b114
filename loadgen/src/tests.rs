//! Is every command line either taken or refused with a code of the table, without a panic? Method: flags that exist
//! and flags that nearly do, with values that are right, at a bound, or absurd. They pass all code before the first
//! socket and the first server.

use crate::arguments::{Arguments, Command};
use crate::compare::server_settings::ServerSettings;
use crate::drive::schedule;
use crate::failure::Failure;
use crate::plan::Plan;
use clap::{CommandFactory, Parser};
use proptest::prelude::*;
use std::net::{Ipv4Addr, SocketAddr};

/// A schedule up to this length is drawn, for what is wrong with a workload may show only there.
const DRAWN_MAX: f64 = 20_000.0;

/// The exit code with which `loadgen` refuses `arguments`, and what it says; `None` where it would begin to work.
fn refusal(arguments: &[String]) -> Option<(i32, String)> {
    let command = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments.command,
        Err(error) => return Some((error.exit_code(), error.to_string())),
    };
    let plan = match &command {
        Command::Run(arguments) => Plan::of_run(arguments, None, None),
        Command::Compare(arguments) => {
            let target = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
            ServerSettings::of((**arguments).clone()).and_then(|settings| settings.plan(target))
        }
        Command::Serve { .. } => return None,
    };
    let checked = plan.and_then(|plan| {
        let expected = plan.rate * plan.warmup.plus(plan.duration).as_secs_f64();
        let long = expected > DRAWN_MAX && expected < schedule::REQUESTS_MAX as f64;
        // The part after the middle has a rate of its own.
        if long || plan.then.is_some() { Ok(()) } else { schedule::draw(&plan).map(drop) }
    });
    checked.err().map(|failure: Failure| (i32::from(failure.exit_code()), failure.to_string()))
}

/// Every flag of every subcommand, and some that are none.
fn flag() -> impl Strategy<Value = String> {
    let command = Arguments::command();
    let visible = command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set());
    let mut flags: Vec<String> = visible
        .flat_map(|subcommand| subcommand.get_arguments().filter_map(|flag| flag.get_long()))
        .map(str::to_owned)
        .collect();
    flags.extend(["help", "version", "polcies", "", "-"].map(str::to_owned));
    prop::sample::select(flags).prop_map(|flag| format!("--{flag}"))
}

/// Values that some flag takes, and values that none should.
fn value() -> impl Strategy<Value = String> {
    let chosen = [
        "extreme-bimodal",
        "tpcc",
        "lognormal:1us:1e300",
        "lognormal:1h:1000",
        "pareto:1ns:1.0000000000000002",
        "fixed:1h",
        "fixed:1ns",
        "fixed:99999999999999h",
        "bimodal:1e-300:1ns:1h",
        "file:/nowhere",
        "/dev/null",
        "/nowhere",
        "99999999999999h",
        "1000h",
        "1h",
        "1s",
        "1us",
        "0s",
        "0.7",
        "1e-300",
        "1e300",
        "inf",
        "nan",
        "1000/s",
        "steal,pools",
        "steal",
        "front=3,heavy=11",
        "front=65535,heavy=65535",
        "127.0.0.1:9",
        "127.0.0.1:99999",
        "99.9",
        "header",
        "sleep",
        "cpu",
        "65535",
        "1000000",
        "",
    ];
    prop_oneof![
        4 => prop::sample::select(chosen.to_vec()).prop_map(str::to_owned),
        2 => "-?[0-9]{1,22}",
        1 => "[0-9]{1,25}(ns|us|ms|s|min|h)",
        1 => "[0-9]{1,3}[.][0-9]{0,3}(e[0-9]{1,3})?",
        1 => "\\PC{0,12}",
    ]
}

/// A subcommand and up to six of its flags, a few of them without a value. There is no target, because its name would
/// be looked up.
fn command_line() -> impl Strategy<Value = Vec<String>> {
    let subcommand = prop_oneof![
        9 => prop::sample::select(vec!["run", "run --rate=100", "compare"]).prop_map(str::to_owned),
        1 => "\\PC{0,8}",
    ];
    let flags = prop::collection::vec((flag(), prop::option::weighted(0.9, value())), 0..6);
    (subcommand, flags).prop_map(|(subcommand, flags)| {
        let flags = flags.into_iter().filter(|(flag, _)| flag != "--target");
        let flags = flags.flat_map(|(flag, value)| [Some(flag), value].into_iter().flatten());
        let words = subcommand.split(' ').map(str::to_owned).collect::<Vec<_>>();
        [String::from("loadgen")].into_iter().chain(words).chain(flags).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_command_line_is_taken_or_refused(arguments in command_line()) {
        if let Some((code, message)) = refusal(&arguments) {
            prop_assert!(code == 0 || code == 2, "{:?} ends with {}", arguments, code);
            prop_assert!(!message.is_empty(), "{:?} is refused without a word", arguments);
        }
    }
}

// Does what is out of range name the value and what is allowed?
#[test]
fn refusals_name_the_value_and_the_range() {
    for (line, expected) in [
        ("run --rate 10 --duration 99999999999999h", "`99999999999999h` is too long: a duration is at most 1000h"),
        ("run --rate 10 --cost lognormal:1us:1e300", "not a coefficient of variation, 0 to 1000"),
        ("run --rate 10 --cost fixed:100000000000000000000000us", "a duration is at most 1000h"),
        ("run --rate 10 --cost fixed:2h", "`2h` in `fixed:2h` is out of range: a cost is 1ns to 1h"),
        ("run --rate 1e300", "0.001 to 1000000000"),
        ("run --rate 1e-300", "0.001 to 1000000000"),
        ("run --load 1e-300 --workers 2", "0.001 to 10"),
        ("compare --slice 99999999999999h", "at most 1000h"),
    ] {
        let arguments: Vec<String> = ["loadgen"].into_iter().chain(line.split(' ')).map(str::to_owned).collect();
        let (code, message) = refusal(&arguments).unwrap_or_else(|| panic!("{line} was taken"));
        assert_eq!(code, 2, "{line}");
        assert!(message.contains(expected), "{line}: {message}");
    }
}
