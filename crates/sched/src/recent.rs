//! What adaptive policies follow.

use crate::fate::CLASSES;
use crate::time::Nanos;

/// Recent measurements, from which adaptive policies decide.
#[derive(Clone, Debug, Default)]
pub struct Recent {
    /// Service times of the last 9 to 10 seconds over all classes, each with its number of
    /// requests. Unanswered requests count with an estimate of the time that they would have taken
    /// (`served_to_the_end`). A running slice that is longer than all of these counts as one more,
    /// for at most ten seconds.
    pub service_times: Vec<(Nanos, u64)>,
    /// For each class, the number of requests, answered or not, and their total service time.
    pub by_class: [(u64, Nanos); CLASSES],
    /// As `service_times`, for each class.
    pub times_of_class: [Vec<(Nanos, u64)>; CLASSES],
    /// The mean number of workers in handlers, including requests that still run.
    pub busy_workers: f64,
    /// The mean number of workers in handlers that passed no checkpoint.
    pub uninterruptible_workers: f64,
    /// The mean number of workers that were neither in a handler nor idle: they received, searched,
    /// passed on or replied.
    pub between_workers: f64,
    /// The mean number of idle workers.
    pub idle_workers: f64,
    /// The mean number of workers in handlers of requests that are still unfinished.
    pub unended_workers: f64,
    /// The mean number of emulated cores that were busy with steps outside handlers.
    pub charged_workers: f64,
    /// Datagrams received per second.
    pub rate: f64,
    /// The measurements since the mix of requests shifted; `None` if that was ten seconds ago or
    /// longer.
    pub since_shift: Option<Box<Recent>>,
    /// Whether the mix shifted in the last second.
    pub has_shifted: bool,
}
