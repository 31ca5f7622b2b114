//! What `--verbose` tells of a comparison: the settings, what became of every datagram, what was charged, and what is not
//! shown.

use crate::compare::capacity::{BASE, Capacities};
use crate::compare::server_settings::ServerSettings;
use crate::compare::{CompareReport, ComparedRun};
use crate::plan::Plan;
use crate::report::text::{cell, conditions, mix, offer, pacer, verdict};
use crate::text::{factor, grouped, time, workers, wrapped};
use forebay::config::Burn;
use forebay::metrics::Percentile;
use std::fmt::Write;

/// The settings, printed before the first run.
pub(crate) fn settings_of(settings: &ServerSettings, plan: &Plan) -> String {
    let ServerSettings { arguments, pools, reserved, .. } = settings;
    let mut servers = match settings.burn {
        Burn::Cpu => format!("{} on real cores; ", workers(settings.workers)),
        Burn::Sleep => format!("{} on emulated cores, which sleep for each cost; ", workers(settings.workers)),
    };
    if let Some(pools) = pools {
        let _ = write!(servers, "pools {pools} where policies have pools, ");
    }
    if let Some(reserved) = reserved {
        let _ = write!(servers, "{reserved} reserved under hybrid and reserve, ");
    }
    let _ = write!(servers, "slice {}", time(Some(settings.slice.as_micros_f64())));
    if settings.time_scale > 1 {
        let _ = write!(servers, " x {}", grouped(settings.time_scale));
    }
    let (classify, optimise) = (arguments.classify.name(), arguments.optimise.name());
    let _ = write!(servers, ", classify {classify}, optimise {optimise}");
    if settings.burn == Burn::Sleep {
        let _ = write!(servers, ", overheads {}", settings.overheads.text());
    }
    let load = match plan.load().filter(|_| settings.saturated_for.is_some()) {
        Some(load) => format!("{} at load {} of what {BASE} can do, measured first", mix(plan), factor(Some(load))),
        None => offer(plan),
    };
    let seeds: Vec<String> = arguments.seeds().map(|seed| seed.to_string()).collect();
    let rounds = conditions(plan, &seeds.join(", "));
    let items = [("load", &load), ("rounds", &rounds), ("servers", &servers), ("fits", &settings.fits)];
    let items = items.map(|(label, text)| wrapped(&format!("  {label:<9}"), text, "           "));
    format!("Comparing {}\n{}", arguments.policies.join(", "), items.concat())
}

/// The account of every run, the pacer, and what is not shown.
pub(crate) fn accounts(report: &CompareReport, settings: &ServerSettings) -> String {
    let mut text = String::from("\n");
    for run in &report.runs {
        let _ = write!(text, "seed {}, {}", run.report.seed, account(run, report.capacity.as_ref()));
    }
    if let Some(first) = report.runs.first() {
        text += &pacer(&first.report);
    }
    text.push('\n');
    text + &wrapped("", &limits(settings), "")
}

/// What became of the datagrams of a run, and whether its figures may be used.
fn account(run: &ComparedRun, capacity: Option<&Capacities>) -> String {
    let fates = &run.report.result.fates;
    let mut text = format!("{}: {}", run.arm, verdict(&run.report));
    if let Some(counts) = run.report.facts.reconciled {
        let _ = writeln!(
            text,
            "  in all: {} sent = {} received + {} kernel drops{}",
            grouped(counts.client_sent),
            grouped(counts.server_received),
            counts.server_kernel_dropped.map_or_else(|| "unknown".to_owned(), grouped),
            match counts.unaccounted {
                0 => ": nothing unaccounted".to_owned(),
                missing => format!(", UNACCOUNTED {missing}"),
            }
        );
    }
    let slip = cell(&run.report.result.slip_us, Percentile::P99, time);
    let (answered, sent) = (grouped(fates.answered), grouped(run.report.sent));
    let mut measured = format!("measured: {answered} of {sent} answered; slip p99 {slip}");
    if let Some(utilisation) = run.report.utilisation {
        let _ = write!(measured, "; workers busy {:.1} %", utilisation * 100.0);
    }
    let policy = run.report.policy.as_deref().unwrap_or_default();
    if let Some(said) = capacity.and_then(|capacity| capacity.share_said(policy, run.report.offered_rps)) {
        let _ = write!(measured, "; {said}");
    }
    if let Some(share) = run.report.facts.run_queue_share {
        let _ = write!(measured, "; workers waited for a CPU {:.2} %", share * 100.0);
    }
    if let Some(share) = run.server.overshoot_share() {
        let _ = write!(measured, "; cores overslept {:.2} %", share * 100.0);
    }
    text + &wrapped("  ", &measured, "    ")
}

/// What a comparison does not show.
fn limits(settings: &ServerSettings) -> String {
    let mut text = String::from("What this does not show: ");
    if settings.burn == Burn::Sleep {
        let _ = write!(
            text,
            "the cores are emulated and scaled {} times; beside costs they are charged {}, and caches nothing; divide latencies \
             by {} to compare them with the literature, and expect less from hardware. ",
            grouped(settings.time_scale),
            settings.overheads,
            grouped(settings.time_scale)
        );
    } else {
        text += "generator and server share this machine's caches and memory. ";
        if settings.time_scale > 1 {
            let _ = write!(
                text,
                "Costs are scaled {} times, so that the packets fit one generator: the kernel's cost per datagram (about 3 us) \
                 weighs that much less than on a server at this load. ",
                grouped(settings.time_scale)
            );
        }
    }
    text += "Requests come over loopback, without a network card or its interrupts. ";
    text += "Arrivals are Poisson and costs follow a formula; real traffic does neither.";
    text
}
