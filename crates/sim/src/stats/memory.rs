//! How long a queue remembers its past. Theory gives this time, because a short run cannot show it.

/// A run must contain this many relaxation times.
const RELAXATIONS_MIN: f64 = 20.0;

/// How long a queue remembers its past, counted in requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// The shortest length of a typical episode of waiting. It ends when one of the workers ends
    /// its request.
    episode: f64,
    /// How long a backlog lasts.
    relaxation: f64,
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::UNKNOWN
    }
}

impl Memory {
    /// No theory is used; only the values count.
    pub const UNKNOWN: Memory = Memory { episode: 1.0, relaxation: 0.0 };

    /// The memory of workers that share all work, at `load` (a share of their capacity).
    /// `dispersion` is the mean of the squared costs over the square of the mean cost: 1 for equal
    /// costs, 2 for exponential ones. From a load of 1 on, the memory is infinite.
    pub fn of_queue(load: f64, dispersion: f64) -> Memory {
        let odds = if load < 1.0 { load / (1.0 - load) } else { f64::INFINITY };
        Memory { episode: (load * dispersion).max(1.0), relaxation: odds * odds * dispersion }
    }

    /// Like [`Memory::of_queue`], from the mean time of requests and the mean of their squared
    /// times. [`Memory::UNKNOWN`] if no request took any time.
    pub fn of_moments(load: f64, mean: f64, mean_square: f64) -> Memory {
        if mean > 0.0 { Memory::of_queue(load, mean_square / (mean * mean)) } else { Memory::UNKNOWN }
    }

    /// The memory counted in requests of one class, which has the share `share` (above 0) of all
    /// requests.
    pub fn of_share(self, share: f64) -> Memory {
        Memory { episode: (self.episode * share).max(1.0), relaxation: self.relaxation * share }
    }

    /// The number of requests that a run needs before its intervals are trusted.
    pub fn requests_needed(self) -> f64 {
        RELAXATIONS_MIN * self.relaxation
    }

    /// Whether a run of `values` values is long enough.
    pub fn fits_into(self, values: u64) -> bool {
        values as f64 >= self.requests_needed()
    }

    /// The most independent values to which `values` values can be equivalent.
    pub fn effective_most(self, values: u64) -> f64 {
        values as f64 / self.episode
    }
}
