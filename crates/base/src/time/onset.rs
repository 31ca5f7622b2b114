//! Reports when a condition begins and ends, with hysteresis, so that a condition that flickers
//! does not flood the log.

use super::Nanos;

/// Default hysteresis: a condition must be over for this long before its end is reported. So a
/// condition that flickers gives at most two log lines in ten seconds.
pub const QUIET: Nanos = Nanos::from_secs(10);

/// Follows one condition and reports its beginning and its end, once each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Onset {
    /// When the condition held last; `None` once it is over.
    last: Option<Nanos>,
}

/// The change that a reading shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It holds now, and did not before.
    Begins,
    /// It has not held for some time.
    Ends,
}

impl Onset {
    /// Takes a reading: whether the condition holds at `now`. Its end is reported once it has not
    /// held for `quiet`.
    pub fn see(&mut self, holds: bool, quiet: Nanos, now: Nanos) -> Option<Turn> {
        if holds {
            return self.last.replace(now).is_none().then_some(Turn::Begins);
        }
        let is_over = self.last.is_some_and(|last| now.minus(last) >= quiet);
        is_over.then(|| {
            self.last = None;
            Turn::Ends
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_begins_once_and_ends_after_a_quiet_time() {
        let mut onset = Onset::default();
        let readings = [(1, false), (2, true), (3, true), (5, false), (6, true), (15, false), (16, false), (17, false)];
        let turns = readings.map(|(second, holds)| onset.see(holds, QUIET, Nanos::from_secs(second)));
        assert_eq!(turns, [None, Some(Turn::Begins), None, None, None, None, Some(Turn::Ends), None]);
    }
}
