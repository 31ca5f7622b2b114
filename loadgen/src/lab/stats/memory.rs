//! How long a queue remembers, by theory: what a run that is too short cannot show.

/// The fewest relaxation times in a run that says anything.
const RELAXATIONS_MIN: f64 = 20.0;

/// How long a queue remembers, in requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// Requests for which a typical episode of waiting lasts at least: until one of the workers
    /// ends what it runs.
    episode: f64,
    /// Requests for which a backlog remains.
    relaxation: f64,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::UNKNOWN
    }
}

impl Memory {
    /// Nothing is known beside the sample.
    pub const UNKNOWN: Memory = Memory { episode: 1.0, relaxation: 0.0 };

    /// The memory of workers that share all work, at `load` (a share of their capacity). The mean
    /// of the squared costs is `dispersion` times the square of the mean cost: 1 for equal costs, 2
    /// for exponential ones. At a load of 1 and above it is without end.
    pub fn of_queue(load: f64, dispersion: f64) -> Memory {
        let odds = if load < 1.0 { load / (1.0 - load) } else { f64::INFINITY };
        Memory { episode: (load * dispersion).max(1.0), relaxation: odds * odds * dispersion }
    }

    /// The memory at `load` where requests take the mean time `mean`, and their squared times have
    /// the mean `mean_square`; [`Memory::UNKNOWN`] where no request took any.
    pub fn of_moments(load: f64, mean: f64, mean_square: f64) -> Memory {
        if mean > 0.0 { Memory::of_queue(load, mean_square / (mean * mean)) } else { Memory::UNKNOWN }
    }

    /// The memory as a class sees it that `share` (above 0) of the requests belong to.
    pub fn of_share(self, share: f64) -> Memory {
        Memory { episode: (self.episode * share).max(1.0), relaxation: self.relaxation * share }
    }

    /// The memory in the requests of this many servers together, each of which has a queue of its
    /// own that remembers as much as this. Episodes on different servers are independent, so as
    /// many values are worth as much as on one.
    pub fn of_servers(self, servers: usize) -> Memory {
        Memory { relaxation: self.relaxation * servers as f64, ..self }
    }

    /// The requests that a run needs to say anything.
    pub fn requests_needed(self) -> f64 {
        RELAXATIONS_MIN * self.relaxation
    }

    /// Whether a run of `values` values is long enough to say anything.
    pub fn fits_into(self, values: u64) -> bool {
        values as f64 >= self.requests_needed()
    }

    /// The most independent values that `values` values can be worth.
    pub fn effective_most(self, values: u64) -> f64 {
        values as f64 / self.episode
    }
}
