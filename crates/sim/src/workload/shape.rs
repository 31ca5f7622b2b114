//! The shape of arrivals: how requests follow one another. All shapes have the same rate in the
//! long run.

use super::{Recording, Trace};
use forebay_base::time::Nanos;
use rand::{Rng, RngExt};
use rand_distr::{Distribution, Gamma};
use std::f64::consts::TAU;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Each shape as it is written, and its meaning.
const SHAPES: [(&str, &str); 7] = [
    ("poisson", "independent requests: exponential gaps"),
    ("constant", "equal gaps"),
    ("gamma:CV", "gamma gaps; standard deviation over mean, 0.01 to 10"),
    ("bursts:FACTOR:ON:OFF", "FACTOR x the mean rate, then less; exponential times of mean ON and OFF"),
    ("steps:RATE@TIME,...", "relative rates, each for its TIME, over and over"),
    ("day:SWING:PERIOD", "a sine of 1 - SWING to 1 + SWING x the mean rate; SWING 0 to 1"),
    ("file:PATH", "intended times of a trace (GET /capture), stretched to the rate, over and over"),
];

/// The shortest and the longest mean length of a phase. The length of each phase is drawn. With a
/// mean of a microsecond, an hour has billions of phases.
const PHASE_MIN: Nanos = Nanos::from_micros(1);
const PHASE_MAX: Nanos = Nanos::from_secs(3_600);
/// The most phases of `steps`: the minutes of a day.
const STEPS_MAX: usize = 1_440;

/// How requests follow one another. All shapes have the same rate, the same shares and the same
/// costs in the long run.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    name: String,
    process: Process,
}

#[derive(Clone, Debug, PartialEq)]
enum Process {
    Poisson,
    Constant,
    /// Gaps of mean 1.
    Gamma(Gamma<f64>),
    /// Poisson arrivals at relative rates in turn, each for a time in seconds. With `drawn` this
    /// time is the mean of an exponential one: a Markov-modulated Poisson process.
    Phases {
        phases: Arc<[(f64, f64)]>,
        drawn: bool,
    },
    /// Poisson arrivals at a rate that changes like a sine, by this share, in a period of seconds.
    Day {
        swing: f64,
        seconds: f64,
    },
    /// Recorded arrival times in units of the mean gap. The first is 0.
    Recorded(Arc<[f64]>),
}

impl Default for Shape {
    fn default() -> Shape {
        Shape { name: "poisson".to_owned(), process: Process::Poisson }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Shape {
    /// The long help of `--arrivals`.
    pub fn help() -> String {
        let forms = SHAPES.map(|(form, meaning)| format!("  {form:<20}  {meaning}\n"));
        format!(
            "How requests follow one another, at the same mean rate; times 1us to 1h, at a time scale of 1\n\n{}",
            forms.concat()
        )
    }

    /// The shape for a text, after a comma; empty for Poisson arrivals.
    pub fn told(&self) -> String {
        if self.process == Process::Poisson { String::new() } else { format!(", arrivals {self}") }
    }

    /// Bursts of `factor` times the mean rate. `on` is their mean length, `off` the mean time
    /// between them.
    ///
    /// # Errors
    /// If the bursts alone exceed the mean rate.
    pub fn bursts(factor: f64, on: Nanos, off: Nanos) -> Result<Shape, String> {
        let most = (on.plus(off)).as_secs_f64() / on.as_secs_f64();
        if !(factor > 0.0 && factor <= most) {
            return Err(format!("FACTOR is {factor}: above 0, and at most {most:.4} = (ON + OFF) / ON"));
        }
        let (on_seconds, off_seconds) = (on.as_secs_f64(), off.as_secs_f64());
        let between = ((on_seconds + off_seconds - factor * on_seconds) / off_seconds).max(0.0);
        let phases = [(between, off_seconds), (factor, on_seconds)].into();
        Ok(Shape { name: format!("bursts:{factor}:{on}:{off}"), process: Process::Phases { phases, drawn: true } })
    }
}

impl FromStr for Shape {
    type Err = String;

    fn from_str(text: &str) -> Result<Shape, String> {
        let process = process(text).map_err(|why| {
            let forms = SHAPES.map(|(form, _)| form).join(", ");
            format!("`{text}` is no way for requests to follow one another: {why}; write {forms}")
        })?;
        Ok(Shape { name: text.to_owned(), process })
    }
}

fn process(text: &str) -> Result<Process, String> {
    let (kind, parts) = text.split_once(':').unwrap_or((text, ""));
    let words: Vec<&str> = parts.split(':').collect();
    match (kind, &words[..]) {
        ("poisson", [""]) => Ok(Process::Poisson),
        ("constant", [""]) => Ok(Process::Constant),
        ("gamma", [variation]) => {
            let square = number(variation, 0.01, 10.0, "CV")?.powi(2);
            Ok(Process::Gamma(Gamma::new(1.0 / square, square).expect("both are above zero")))
        }
        ("bursts", [factor, on, off]) => {
            let factor = number(factor, 0.0, f64::MAX, "FACTOR")?;
            Shape::bursts(factor, phase(on)?, phase(off)?).map(|shape| shape.process)
        }
        ("steps", [_]) => steps(parts),
        ("day", [swing, period]) => {
            let seconds = phase(period)?.as_secs_f64();
            Ok(Process::Day { swing: number(swing, 0.0, 1.0, "SWING")?, seconds })
        }
        ("file", _) if !parts.is_empty() => recorded(Path::new(parts)),
        _ => Err("unknown, or parts are missing".to_owned()),
    }
}

fn number(text: &str, from: f64, to: f64, name: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number| (from..=to).contains(number));
    number.ok_or_else(|| format!("{name} is `{text}`, and must be a number from {from} to {to:.3}"))
}

fn phase(text: &str) -> Result<Nanos, String> {
    let time = text.parse::<Nanos>().ok().filter(|time| (PHASE_MIN..=PHASE_MAX).contains(time));
    time.ok_or_else(|| format!("`{text}` must be a time from {PHASE_MIN} to {PHASE_MAX}, like 2ms"))
}

fn steps(text: &str) -> Result<Process, String> {
    let step = |part: &str| {
        let (rate, time) = part.split_once('@').ok_or_else(|| format!("`{part}` is no RATE@TIME"))?;
        Ok((number(rate, 0.0, 1e9, "RATE")?, phase(time)?.as_secs_f64()))
    };
    let steps = text.split(',').map(step).collect::<Result<Vec<(f64, f64)>, String>>()?;
    let (sum, seconds) = steps.iter().fold((0.0, 0.0), |(sum, all), (rate, time)| (sum + rate * time, all + time));
    if sum <= 0.0 || steps.len() > STEPS_MAX {
        return Err(format!("it has {} steps: 1 to {STEPS_MAX}, one of them above 0", steps.len()));
    }
    let phases = steps.into_iter().map(|(rate, time)| (rate * seconds / sum, time)).collect();
    Ok(Process::Phases { phases, drawn: false })
}

fn recorded(path: &Path) -> Result<Process, String> {
    let trace = Trace::read(path)?;
    let mut times: Vec<f64> = trace.requests.iter().map(|request| request.intended.as_secs_f64()).collect();
    times.sort_unstable_by(f64::total_cmp);
    let (first, last) = (times[0], times[times.len() - 1]);
    if first == last {
        return Err("all of its requests come at one instant".to_owned());
    }
    let gap = (last - first) / (times.len() - 1) as f64;
    times.iter_mut().for_each(|time| *time = (*time - first) / gap);
    Ok(Process::Recorded(times.into()))
}

/// Draws the times of arrivals of a shape, one after the other.
#[derive(Clone, Debug)]
pub(super) struct Gaps {
    process: Process,
    /// Requests per second in the mean.
    pub rate: f64,
    at: f64,
    /// Arrivals so far.
    count: usize,
    phase: usize,
    phase_ends: f64,
}

impl Gaps {
    pub(super) fn new(Shape { process, .. }: Shape, rate: f64) -> Gaps {
        // Start at the end of the last phase, so that the first arrival begins phase 0.
        let phase = if let Process::Phases { phases, .. } = &process { phases.len() - 1 } else { 0 };
        Gaps { process, rate, at: 0.0, count: 0, phase, phase_ends: 0.0 }
    }

    /// The time of the next arrival, in seconds.
    pub(super) fn next<R: Rng + ?Sized>(&mut self, random: &mut R) -> f64 {
        self.at = match &self.process {
            Process::Poisson => self.at + exponential(random) / self.rate,
            Process::Constant => (self.count + 1) as f64 / self.rate,
            Process::Gamma(gaps) => self.at + gaps.sample(random) / self.rate,
            Process::Recorded(times) => {
                let begun = self.count - self.count % times.len();
                (begun as f64 + times[self.count % times.len()]) / self.rate
            }
            Process::Day { swing, seconds } => loop {
                // Thinning: candidates arrive at the highest rate, and each is kept with
                // probability rate / highest rate.
                self.at += exponential(random) / (self.rate * (1.0 + swing));
                let rate = 1.0 + swing * (TAU * self.at / seconds).sin();
                if random.random::<f64>() * (1.0 + swing) < rate {
                    break self.at;
                }
            },
            Process::Phases { phases, drawn } => loop {
                let next = self.at + exponential(random) / (self.rate * phases[self.phase].0);
                if next <= self.phase_ends {
                    break next;
                }
                // Exponential gaps have no memory, so the rest of a gap may be drawn again at the
                // next phase.
                self.at = self.phase_ends;
                self.phase = (self.phase + 1) % phases.len();
                let length = if *drawn { exponential(random) } else { 1.0 };
                self.phase_ends += length * phases[self.phase].1;
            },
        };
        self.count += 1;
        self.at
    }
}

/// A draw from the exponential distribution with mean 1.
fn exponential<R: Rng + ?Sized>(random: &mut R) -> f64 {
    // The inverse of the distribution function; 1 - u is never 0.
    -(1.0 - random.random::<f64>()).ln()
}

#[cfg(test)]
mod tests;
