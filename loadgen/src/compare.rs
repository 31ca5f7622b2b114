//! `loadgen compare`: a fresh server for each policy, the same requests for each server.

use crate::arguments::CompareArguments;
use crate::choices::Choices;
use crate::compare_text;
use crate::dump;
use crate::endpoint::{Endpoint, ServerView};
use crate::failure::Failure;
use crate::flows;
use crate::ground::Ground;
use crate::interrupt::Interrupt;
use crate::paired::{self, Simulated, Sockets};
use crate::paired_text;
use crate::plan::Plan;
use crate::progress::Progress;
use crate::report::{RunReport, write_json};
use crate::rounds_text;
use crate::run::{self, Course};
use crate::server_process::{self, ServerProcess};
use crate::text::show;
use crate::verdict::Verdict;
use anyhow::{Context, Result};
use forebay::config::Burn;
use forebay::sched::PolicyName;
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// On loopback, any that is free.
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A comparison, as its JSON tells it (`forebay-compare/1`).
#[derive(Debug, Serialize)]
pub(crate) struct CompareReport {
    schema: &'static str,
    /// One for each policy, in the order asked for, with each seed in turn.
    pub(crate) runs: Vec<ComparedRun>,
}

/// One policy's run, from both sides.
#[derive(Debug, Serialize)]
pub(crate) struct ComparedRun {
    /// The client's side.
    #[serde(flatten)]
    pub(crate) report: RunReport,
    /// The policy that was asked for.
    #[serde(skip)]
    pub(crate) policy: String,
    /// The server's side: the body of its `/latency` once it had nothing left to do.
    #[serde(serialize_with = "body")]
    pub(crate) server: ServerView,
    /// The same requests in virtual time, if that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) simulated: Option<Simulated>,
}

/// Runs the comparison, prints it, and returns the worst verdict.
///
/// # Errors
/// A usage failure for contradicting flags and for settings that a server refuses; otherwise what went wrong.
pub(crate) fn compare(arguments: &CompareArguments) -> Result<Verdict, Failure> {
    let interrupt = Interrupt::listen()?;
    let mut choices = Choices::of(arguments)?;
    // Whatever is wrong is said before the first server runs for its half minute.
    let plan = choices.plan(arguments, ANY_PORT)?;
    if arguments.simulate {
        paired::prepare(&mut choices, &arguments.policies, &plan)?;
    }
    for policy in &arguments.policies {
        server_process::check(&choices.serve_arguments(policy, ANY_PORT))?;
    }
    if let Some(folder) = &arguments.dump {
        std::fs::create_dir_all(folder).with_context(|| format!("--dump {} cannot be made", folder.display()))?;
    }
    show(&compare_text::heading(&choices, &plan, arguments));
    let seeds = if arguments.seeds.is_empty() { vec![arguments.offer.seed] } else { arguments.seeds.clone() };
    let mut runs = Vec::new();
    // The policies take turns, so that whatever the machine does meanwhile meets them all.
    for (seed, policy) in seeds.iter().flat_map(|seed| arguments.policies.iter().map(move |policy| (*seed, policy))) {
        runs.push(run_one(arguments, &choices, policy, seed, &interrupt)?);
        if interrupt.is_raised() {
            break;
        }
    }
    let report = CompareReport { schema: "forebay-compare/1", runs };
    let text =
        if seeds.len() > 1 { rounds_text::render(&report, &choices) } else { compare_text::render(&report, &choices) };
    show(&text);
    show(&paired_text::render(&report, &plan));
    if let Some(path) = &arguments.offer.json {
        write_json(path, &report)?;
    }
    let invalid = report.runs.iter().any(|run| run.report.verdict == Verdict::Invalid);
    Ok(if invalid { Verdict::Invalid } else { Verdict::Valid })
}

fn run_one(
    arguments: &CompareArguments,
    choices: &Choices,
    policy: &str,
    seed: u64,
    interrupt: &Interrupt,
) -> Result<ComparedRun, Failure> {
    let wanted_by = if arguments.simulate { Some("--simulate") } else { arguments.dump.as_ref().map(|_| "--dump") };
    let flows = choices.plan(arguments, ANY_PORT)?.flows;
    let ground = wanted_by.map(|flag| Ground::survey(flag, choices, flows, arguments.verbose)).transpose()?;
    let listen = ground.as_ref().map_or(ANY_PORT, |ground| ground.address);
    let process = ServerProcess::start(&choices.serve_arguments(policy, listen), arguments.verbose)?;
    let endpoint = Endpoint::new(&process.admin)?;
    let plan = Plan { seed, ..choices.plan(arguments, process.udp)? };
    let progress = Progress::new(policy, &plan, arguments.offer.quiet);
    let opened = if ground.is_none() { flows::open(plan.target, plan.flows)? } else { Vec::new() };
    let sockets = ground.as_ref().map_or(&opened, |ground| &ground.flows);
    let mut outcome = run::execute_on(&plan, sockets, Some(&endpoint), interrupt, progress)?;
    let server = outcome.server.context("the server's admin endpoint did not answer once")?;
    if let Err(error) = process.stop() {
        outcome.report.invalidate(format!("{error:#}"));
    }
    let simulated = match &ground {
        Some(ground) => once_more(arguments, choices, policy, &plan, ground, &outcome.course)?,
        None => None,
    };
    if let Some(Sockets { replies, elsewhere: elsewhere @ 1.. }) = simulated.as_ref().and_then(|again| again.sockets) {
        let reason =
            format!("{elsewhere} of {replies} replies came from another worker than was learnt of their flows");
        outcome.report.invalidate(reason);
    }
    let refused: u64 = outcome.report.send_errors.values().sum();
    if simulated.is_some() && refused > 0 {
        outcome.report.invalidate(format!(
            "our own kernel did not take {refused} requests: the run counts them as lost, the simulation leaves them out"
        ));
    }
    Ok(ComparedRun { report: outcome.report, policy: policy.to_owned(), server, simulated })
}

/// Writes and simulates what the run of `plan` on `ground` offered, as far as that was asked for.
fn once_more(
    arguments: &CompareArguments,
    choices: &Choices,
    policy: &str,
    plan: &Plan,
    ground: &Ground,
    course: &Course,
) -> Result<Option<Simulated>, Failure> {
    let offered = dump::offered(plan, choices.burn == Burn::Sleep, choices.workers, &ground.socket_of, course);
    if let Some(folder) = &arguments.dump {
        dump::write(&folder.join(format!("{policy}-seed{}.offered", plan.seed)), &offered)?;
    }
    // An interrupt may have come before the first request.
    let Some(name) = policy.parse::<PolicyName>().ok().filter(|_| arguments.simulate && !offered.requests.is_empty())
    else {
        return Ok(None);
    };
    let mut simulated = paired::simulated(choices, name, &offered);
    simulated.sockets = (!name.entry().shares_sockets).then(|| ground.disagreements(course));
    Ok(Some(simulated))
}

fn body<S: serde::Serializer>(view: &ServerView, serializer: S) -> Result<S::Ok, S::Error> {
    view.body.serialize(serializer)
}
