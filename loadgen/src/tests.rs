//! Is every command line either taken or refused with a code of the table, without a panic? Method:
//! flags that exist and flags that nearly do, with values that are right, at a bound, or absurd.
//! They pass all code before the first socket and the first server.

use crate::arguments::{Arguments, Command, RunArguments};
use crate::compare::pair;
use crate::compare::server_settings::ServerSettings;
use crate::drive::schedule;
use crate::failure::Failure;
use crate::lab;
use crate::plan::{self, Plan};
use crate::report::slo;
use crate::series;
use clap::{CommandFactory, Parser};
use std::net::{Ipv4Addr, SocketAddr};
use support::any_line::{assert_any_line_is_answered, words};

/// A schedule up to this length is drawn, for what is wrong with a workload may show only there.
const DRAWN_MAX: f64 = 20_000.0;

/// The exit code with which `loadgen` refuses `arguments`, and what it says; `None` where it would
/// begin to work.
fn refusal(arguments: &[String]) -> Option<(i32, String)> {
    let command = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments.command,
        Err(error) => return Some((error.exit_code(), error.to_string())),
    };
    let of_run = |arguments: &RunArguments| {
        let plan = plan::chosen(arguments).and_then(|profile| Plan::of_run(arguments, profile, None, None))?;
        arguments.slo.iter().try_fold(plan, slo::planned)
    };
    let plan = match &command {
        Command::Run(arguments) => of_run(arguments),
        Command::Sweep(arguments) => of_run(&series::first_of(arguments)),
        Command::Search(arguments) => of_run(&arguments.run),
        Command::Compare(arguments) if arguments.a.is_some() => {
            pair::of(arguments).map(|pair| pair.expect("both servers are given").1)
        }
        Command::Compare(arguments) => {
            let target = SocketAddr::from((Ipv4Addr::LOCALHOST, 9));
            ServerSettings::of((**arguments).clone()).and_then(|settings| settings.plan(target))
        }
        Command::Simulate(arguments) => return refused(lab::simulate::check(arguments)),
        Command::Plan(arguments) => return refused(lab::plan::check(arguments)),
        Command::Calibrate(_) | Command::Merge(_) | Command::Schema | Command::Serve { .. } => return None,
    };
    let checked = plan.and_then(|plan| {
        let expected = plan.rate * plan.warmup.plus(plan.duration).as_secs_f64();
        let long = expected > DRAWN_MAX && expected < schedule::REQUESTS_MAX as f64;
        // The part after the middle has a rate of its own.
        if long || plan.then.is_some() { Ok(()) } else { schedule::draw(&plan).map(drop) }
    });
    checked.err().map(|failure: Failure| (i32::from(failure.exit_code()), failure.to_string()))
}

fn refused(checked: Result<(), String>) -> Option<(i32, String)> {
    checked.err().map(|message| (i32::from(Failure::usage("").exit_code()), message))
}

// Is the command well-formed in every part that clap checks only in debug builds, and does each
// subcommand have a summary?
#[test]
fn the_command_is_consistent() {
    Arguments::command().debug_assert();
    for command in Arguments::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(about.len() > 40 && !about.contains("Flags of"), "{}: {about}", command.get_name());
    }
}

// Are the command lines of README and help accepted?
#[test]
fn what_is_right_is_taken() {
    for line in [
        "run --profile bench --rate 100 --retries 1 --target 127.0.0.1:9",
        "run --profile coap=/a?b --rate 100 --workers 1 --target 127.0.0.1:9",
        "run --rate 100 --target 127.0.0.1:9 --slo p99.9<500us,p50-slowdown-long<=3,loss<0.01%",
        "sweep --target 127.0.0.1:9 --rates 1000..3000:1000,9000 --slo p99.9<5ms --html sweep.html",
        "search --target 127.0.0.1:9 --rate 1000 --slo p99.9<500us,loss<0.01%",
        "compare --a 127.0.0.1:9 --b localhost:9 --rate 100 --profile coap=/a",
        "simulate --policy steal,pools,auto,srpt --load 0.7 --requests 300000 --overheads lab",
        "simulate --policy steal,auto,srpt --load 0.1..0.9:0.1",
        "simulate --workload rocksdb --max-load p99.9-slowdown<=10 --policy darc",
        "plan --workload extreme-bimodal --rate 4200000 --workers 14 --policy steal,levels --overheads lab",
        "plan --workload extreme-bimodal --rate 2000000 --slo p99.9-slowdown<=20",
    ] {
        assert_eq!(refusal(&words("loadgen", line)), None, "{line}");
    }
}

#[test]
fn any_command_line_is_taken_or_refused() {
    assert_any_line_is_answered(
        &Arguments::command(),
        &[
            "run",
            "run --rate=100",
            "sweep --rates=100",
            "search --slo=p99<1ms",
            "compare",
            "compare --a=127.0.0.1:9 --b=127.0.0.1:9",
            "simulate",
            "plan",
        ],
        refusal,
    );
}
