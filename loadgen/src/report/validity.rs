//! Whether a run may be trusted, and if not, why. Validity is about the measurement, not about the
//! server's quality. `cause.rs` has what each reason does to the figures.

mod cause;

pub(crate) use cause::{Cause, Effect};

use crate::drive::flows::Elsewhere;
use crate::drive::pacer::Pacer;
use crate::drive::reconciled::Reconciled;
use crate::drive::retries::AttemptCounts;
use crate::lab::stats::{Interval, PRECISION};
use crate::report::run_result::{Fates, RunResult, SLIP_LIMIT};
use crate::text;
use forebay::metrics::Percentile;
use forebay::time::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt;

/// The validity of a run, shown with every result. The worst one of several results is that of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, JsonSchema, Serialize, Deserialize)]
pub enum Validity {
    /// The figures may be trusted.
    #[serde(rename = "VALID")]
    Valid,
    /// The figures are upper bounds, for the reasons given.
    #[serde(rename = "AT MOST")]
    AtMost,
    /// The figures may not be trusted, for the reasons given.
    #[serde(rename = "INVALID")]
    Invalid,
}

impl Validity {
    /// The validity of a run with these objections.
    pub(crate) fn of(objections: &[Objection]) -> Validity {
        match objections.iter().map(|objection| objection.cause.effect()).max() {
            None => Validity::Valid,
            Some(Effect::Raises) => Validity::AtMost,
            Some(Effect::Any) => Validity::Invalid,
        }
    }

    /// Whether the figures say something of the server: themselves, or as upper bounds.
    pub fn is_usable(self) -> bool {
        self < Validity::Invalid
    }

    /// The sign before a figure: `<` where it is an upper bound.
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Validity::AtMost => "<",
            Validity::Valid | Validity::Invalid => "",
        }
    }
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Validity::Valid => "VALID",
            Validity::AtMost => "AT MOST",
            Validity::Invalid => "INVALID",
        })
    }
}

/// The facts on which validity rests, beside the figures. Fields that are not skipped appear in the
/// report.
#[derive(Clone, Debug, JsonSchema, Serialize)]
pub(crate) struct Facts {
    /// The percentile that the run is about.
    #[serde(serialize_with = "crate::text::as_text")]
    #[schemars(with = "String")]
    pub(crate) percentile: Percentile,
    /// Whether the run must know that percentile without other rounds.
    #[serde(skip)]
    pub(crate) knows_alone: bool,
    /// The pacer that was used.
    pub(crate) pacer: Pacer,
    /// Replies that the kernel dropped at our own sockets, warm-up included. An error says why this
    /// is unknown.
    #[serde(serialize_with = "where_known")]
    #[schemars(with = "Option<u64>")]
    pub(crate) own_socket_drops: Result<u64, String>,
    /// Attempts at requests, warm-up included.
    #[serde(skip)]
    pub(crate) attempted: u64,
    /// Attempts after `--warmup`, by what became of each.
    pub(crate) attempts: AttemptCounts,
    /// Attempts that our own kernel did not take, by its error; warm-up included.
    pub(crate) send_errors: BTreeMap<String, u64>,
    /// The increase of `SndbufErrors` in our network namespace, or the reason why that is unknown.
    #[serde(skip)]
    pub(crate) send_buffer_errors: Result<u64, String>,
    /// Datagrams received; `foreign` of them were not a reply to a request of this run.
    #[serde(skip)]
    pub(crate) heard: u64,
    pub(crate) foreign: u64,
    /// See [`Elsewhere`].
    #[serde(skip)]
    pub(crate) elsewhere: Option<Elsewhere>,
    /// Replies that may belong to several open requests.
    pub(crate) doubtful: u64,
    /// See [`Profile::protocol`](crate::profile::Profile::protocol).
    #[serde(skip)]
    pub(crate) protocol: &'static str,
    /// With emulated cores: the time overslept as a share of the time slept. An error says why this
    /// is unknown.
    #[serde(skip)]
    pub(crate) overshoot_share: Option<Result<f64, String>>,
    /// With real cores: how long each worker waited for a CPU, as a share of the run. `None` if
    /// unknown.
    pub(crate) run_queue_share: Option<f64>,
    /// The error of the server's admin endpoint, if one was named: no answer, or an invalid one.
    #[serde(skip)]
    pub(crate) endpoint_error: Option<String>,
    /// Why the server at the end cannot be the server of the beginning.
    #[serde(skip)]
    pub(crate) restarted: Option<String>,
    /// The comparison with the server's counts, where it could be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reconciled: Option<Reconciled>,
    /// Whether the run was interrupted.
    #[serde(skip)]
    pub(crate) interrupted: bool,
    /// The measured time.
    #[serde(skip)]
    pub(crate) counted: Nanos,
}

fn where_known<S: Serializer>(count: &Result<u64, String>, serializer: S) -> Result<S::Ok, S::Error> {
    count.as_ref().ok().serialize(serializer)
}

/// The largest allowed slip, as a share of the latency at the same percentile.
const SLIP_SHARE_MAX: f64 = 0.05;
/// The largest share of a run for which a worker may wait for a CPU.
const RUN_QUEUE_SHARE_MAX: f64 = 0.02;
/// The largest share of sends with a slip above [`SLIP_LIMIT`](super::run_result::SLIP_LIMIT).
const SLIPS_OVER_LIMIT_SHARE: f64 = 0.001;
/// The largest share of sends that our own kernel refused.
const REFUSED_SHARE_MAX: f64 = 0.001;
/// The largest share of foreign datagrams among those received.
const FOREIGN_SHARE_MAX: f64 = 0.01;
/// The largest share of what is uncertain: of doubtful replies among the datagrams received, and of
/// requests that are not judged.
const UNCERTAIN_SHARE_MAX: f64 = 0.01;
/// The largest part of it of the share above the percentile in question: more could hide the tail.
const UNCERTAIN_OF_TAIL: f64 = 0.1;
/// The largest share of the slept time that emulated cores may oversleep.
const OVERSHOOT_SHARE_MAX: f64 = 0.02;
/// The longest allowed single lateness of the host, as a share of a run.
const LATE_SHARE_MAX: f64 = 0.1;

/// A reason against a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Objection {
    pub(crate) cause: Cause,
    pub(crate) why: String,
}

impl fmt::Display for Objection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.cause.effect() {
            Effect::Raises => "this can only raise the latency",
            Effect::Any => "the latency may be too high or too low",
        };
        write!(f, "{}; {effect}", self.why)
    }
}

/// All reasons against a run, causes before their effects; a valid run has none.
pub(crate) fn judge(result: &RunResult, facts: &Facts) -> Vec<Objection> {
    let [sends, retries] = [
        late("its schedule", "sends ", result.slips_over_limit, result.slip_us.count, facts.pacer),
        late("up with its retries", "", facts.attempts.late, facts.attempts.retries(), facts.pacer),
    ];
    let restarted = |how| format!("the server was restarted in the course of the run: {how}");
    let silent = |error| format!("the server's admin endpoint did not answer: {error}");
    let unknown = || unknown_percentile(result, facts.percentile);
    let found = [
        (Cause::Interrupted, facts.interrupted.then(|| "the run was interrupted".to_owned())),
        (Cause::Restarted, facts.restarted.as_ref().map(restarted)),
        (Cause::EndpointSilent, facts.endpoint_error.as_ref().map(silent)),
        (Cause::StoodStill, stood_still(result, facts.counted).filter(|_| !facts.knows_alone)),
        (Cause::LateSends, slip(result, facts)),
        (Cause::LateSends, sends),
        (Cause::Unjudged, unjudged(&result.fates, facts)),
        (Cause::LateRetries, retries),
        (Cause::Overslept, overshoot(facts.overshoot_share.as_ref())),
        (Cause::WorkersWaited, run_queue(facts.run_queue_share)),
        (Cause::OwnSocketDrops, own_socket_drops(&facts.own_socket_drops)),
        (Cause::RefusedSends, refused_sends(facts)),
        (Cause::DroppedSends, send_buffer_errors(&facts.send_buffer_errors)),
        (Cause::Foreign, foreign(facts)),
        (Cause::Doubtful, doubtful(facts)),
        (Cause::Unaccounted, facts.reconciled.as_ref().and_then(Reconciled::objection)),
        (Cause::NothingAnswered, nothing_answered(&result.fates, facts.elsewhere)),
        (Cause::NotKnown, facts.knows_alone.then(unknown).flatten()),
    ];
    found.into_iter().filter_map(|(cause, why)| Some(Objection { cause, why: why? })).collect()
}

/// By how many microseconds the host may have raised `percentile` of the latency, whose value is
/// `latency_us`. Zero if the host was too little late to matter; `None` if unknown.
pub(crate) fn raised_us(result: &RunResult, facts: &Facts, percentile: Percentile, latency_us: f64) -> Option<f64> {
    let slip_us = result.slip_us.percentile(percentile)?;
    let is_late = matches!(facts.overshoot_share, Some(Ok(share)) if share > OVERSHOOT_SHARE_MAX);
    let has_waited = facts.run_queue_share.is_some_and(|share| share > RUN_QUEUE_SHARE_MAX);
    if has_waited || facts.own_socket_drops != Ok(0) || matches!(facts.overshoot_share, Some(Err(_))) {
        return None;
    }
    if is_late || slip_us > SLIP_SHARE_MAX * latency_us { result.late_us.max } else { Some(0.0) }
}

/// An objection if the host stood still for long: what arrived meanwhile came all at once, which is
/// another load.
fn stood_still(result: &RunResult, counted: Nanos) -> Option<String> {
    let longest_us = result.late_us.max.filter(|longest_us| *longest_us > LATE_SHARE_MAX * counted.as_micros_f64())?;
    let (longest, all) = (text::time(Some(longest_us)), text::time(Some(counted.as_micros_f64())));
    Some(format!("this host was late by {longest} once, above 10 % of the {all} measured"))
}

fn unknown_percentile(result: &RunResult, percentile: Percentile) -> Option<String> {
    let latency_us = result.latency_us.all();
    let bounds = latency_us.bounds.filter(|_| !latency_us.supports(percentile))?;
    let Interval { low, high } = bounds.interval(percentile);
    let end = |us: f64| text::time(Some(us).filter(|us| us.is_finite()));
    let how = match (low > 0.0, high.is_finite()) {
        (false, false) if result.fates.unjudged > 0 => "too many requests are not judged".to_owned(),
        (false, false) => "the run is too short for its load, or its latency drifts".to_owned(),
        _ => format!("its 95 % interval goes from {} to {}", end(low), end(high)),
    };
    Some(format!(
        "{percentile} of the latency is not known within a factor of {PRECISION}: {how}; measure longer (--duration), or ask for a \
         lower --percentile"
    ))
}

/// An objection if no request was answered. The percentiles over all requests are then infinite,
/// and the percentiles over answered ones are empty.
fn nothing_answered(fates: &Fates, elsewhere: Option<Elsewhere>) -> Option<String> {
    let Fates { answered, late, shed, refused, failed, kernel_dropped, lost, unjudged } = *fates;
    (answered == 0).then(|| {
        let dropped = kernel_dropped.map_or_else(|| "an unknown number of these".to_owned(), |count| count.to_string());
        format!(
            "nothing was answered in time: of {} requests {lost} were lost, {dropped} dropped by the server's kernel, \
             {late} late, {shed} shed, {refused} refused, {failed} failed and {unjudged} not judged{}",
            fates.sum(),
            elsewhere.map_or_else(String::new, |elsewhere| format!("; {elsewhere}"))
        )
    })
}

fn slip(result: &RunResult, facts: &Facts) -> Option<String> {
    let percentile = facts.percentile;
    // Next to infinity every slip is short: where the percentile is infinite, the one over the
    // answered requests replaces it.
    let latency_us =
        [&result.latency_us, &result.latency_answered_us].map(|latency| latency.all().percentile(percentile));
    let latency_us = latency_us.into_iter().flatten().next().unwrap_or(0.0);
    let slip_us = result.slip_us.percentile(percentile).unwrap_or(f64::INFINITY);
    // A run without answers has no latency, and that is a reason of its own.
    (result.fates.answered > 0 && slip_us > SLIP_SHARE_MAX * latency_us).then(|| {
        format!(
            "the generator could not keep its schedule: {percentile} of the slip is {}, above 5 % of {percentile} of the \
             latency, which is {}; {}",
            text::time(Some(slip_us)),
            text::time(Some(latency_us)),
            facts.pacer.remedy()
        )
    })
}

/// An objection if more requests are not judged than leave the percentile known.
fn unjudged(fates: &Fates, facts: &Facts) -> Option<String> {
    let (unjudged, all) = (fates.unjudged, fates.sum());
    (unjudged as f64 > uncertain_share_max(facts.percentile) * all as f64).then(|| {
        format!(
            "{unjudged} of {all} requests are not judged: they were not answered in time, and this host sent them late, or \
             in the burst that follows late sends; {}",
            facts.pacer.remedy()
        )
    })
}

/// An objection if the generator could not keep `what`, because `late` of `all` `things` were late.
/// `None` if these are few enough.
fn late(what: &str, things: &str, late: u64, all: u64, pacer: Pacer) -> Option<String> {
    (late as f64 > SLIPS_OVER_LIMIT_SHARE * all as f64).then(|| {
        format!(
            "the generator could not keep {what}: {late} of {all} {things}were more than {} late, above 0.1 %; {}",
            text::time(Some(SLIP_LIMIT.as_micros_f64())),
            pacer.remedy()
        )
    })
}

fn own_socket_drops(drops: &Result<u64, String>) -> Option<String> {
    match drops {
        Ok(0) => None,
        Ok(drops) => Some(format!("the kernel dropped {drops} replies at the generator's own sockets")),
        Err(error) => Some(format!("drops at the generator's own sockets are not known: {error}")),
    }
}

fn refused_sends(facts: &Facts) -> Option<String> {
    let refused: u64 = facts.send_errors.values().sum();
    let attempted = facts.attempted;
    let errors: Vec<&str> = facts.send_errors.keys().map(String::as_str).collect();
    (refused as f64 > REFUSED_SHARE_MAX * attempted as f64).then(|| {
        format!(
            "our own kernel refused {refused} of {attempted} requests, above 0.1 % ({}): lower --rate, or use more --flows",
            errors.join("; ")
        )
    })
}

fn send_buffer_errors(growth: &Result<u64, String>) -> Option<String> {
    match growth {
        Ok(0) => None,
        Ok(growth) => Some(format!(
            "our own kernel did not send {growth} datagrams for want of room (SndbufErrors of this network namespace, in \
             /proc/net/snmp and snmp6: they may be ours, and they may be those of another process): lower --rate, or let \
             nothing else send by UDP meanwhile"
        )),
        Err(error) => Some(format!("whether our own kernel sent what it took is not known: {error}")),
    }
}

fn foreign(facts: &Facts) -> Option<String> {
    let Facts { heard, foreign, protocol, .. } = *facts;
    (foreign as f64 > FOREIGN_SHARE_MAX * heard as f64).then(|| {
        format!(
            "{foreign} of {heard} datagrams that came are no reply to a request of this run, above 1 %: is it a server of \
             the {protocol} protocol?"
        )
    })
}

/// The largest share of what is uncertain with which `percentile` is known.
pub(crate) fn uncertain_share_max(percentile: Percentile) -> f64 {
    // A little more: the difference is rounded.
    UNCERTAIN_SHARE_MAX.min(UNCERTAIN_OF_TAIL * (1.0 - percentile.quantile()) * (1.0 + 1e-9))
}

fn doubtful(facts: &Facts) -> Option<String> {
    let Facts { heard, doubtful, percentile, .. } = *facts;
    let most = uncertain_share_max(percentile);
    (doubtful as f64 > most * heard as f64).then(|| {
        format!(
            "{doubtful} of {heard} replies came while their flow waited for several that they fit, above {} %, and they do \
             not tell which one they answer: use more --flows, lower --rate, send a longer counter, or ask for a lower \
             --percentile than {percentile}",
            text::factor(Some(most * 100.0))
        )
    })
}

fn run_queue(share: Option<f64>) -> Option<String> {
    share.filter(|share| *share > RUN_QUEUE_SHARE_MAX).map(|share| {
        format!(
            "the server's workers waited for a CPU for {:.1} % of the run, above 2 %: something else ran there; leave the \
             machine more to itself, or pin server and generator to CPUs of their own",
            share * 100.0
        )
    })
}

fn overshoot(share: Option<&Result<f64, String>>) -> Option<String> {
    match share? {
        Ok(share) if *share <= OVERSHOOT_SHARE_MAX => None,
        Ok(share) => Some(format!(
            "emulated cores overslept by {:.1} % of the slept time, above 2 %: raise --time-scale, or leave the machine \
             more to itself",
            share * 100.0
        )),
        Err(error) => Some(format!("by how much emulated cores overslept is not known: {error}")),
    }
}

#[cfg(test)]
pub(super) mod tests;
