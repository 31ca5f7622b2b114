//! Reference policies: bounds to compare with, which no server can follow. They know each request's
//! cost beforehand, interrupt at any moment, or see all queues at once. Their steps cost nothing.

mod darc;
mod queues;

use super::event_list::EventList;
use super::requests::{Request, RequestId, Requests};
use super::{ArrivingRequest, Tally};
use forebay_base::time::Nanos;
use forebay_sched::WorkerId;
use queues::Queues;
use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

/// A policy that exists in simulation only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Shortest remaining processing time first, with preemption. It knows costs beforehand.
    Srpt,
    /// One queue for each class, the lightest first; no request is interrupted.
    Priority,
    /// DARC: reserves workers for each class by its share of the work. They may serve lighter
    /// classes.
    Darc,
}

/// The names of all references.
const NAMED: [(&str, Reference); 3] =
    [("srpt", Reference::Srpt), ("priority", Reference::Priority), ("darc", Reference::Darc)];

impl FromStr for Reference {
    type Err = ();

    /// Reads `srpt`, `priority` or `darc`.
    fn from_str(text: &str) -> Result<Reference, ()> {
        NAMED.into_iter().find(|(name, _)| *name == text).map(|(_, reference)| reference).ok_or(())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(NAMED.into_iter().find(|(_, named)| named == self).map_or("", |(name, _)| name))
    }
}

impl Reference {
    /// The result of this policy for `incoming` on this many workers.
    ///
    /// # Panics
    /// If there is no worker.
    pub fn simulate(self, workers: usize, incoming: impl Iterator<Item = ArrivingRequest>) -> Tally {
        let tally = RefCell::default();
        self.simulate_into(workers, incoming, &tally);
        tally.into_inner()
    }

    /// Like [`Reference::simulate`], but counts in a tally that `incoming` may read, as in
    /// [`simulate_into`](super::simulate_into).
    ///
    /// # Panics
    /// If there is no worker.
    pub fn simulate_into(
        self,
        workers: usize,
        incoming: impl Iterator<Item = ArrivingRequest>,
        tally: &RefCell<Tally>,
    ) {
        assert!(workers > 0, "somebody works");
        let stage = Stage { event_list: EventList::new(workers), requests: Requests::default(), tally };
        let mut discipline: Box<dyn Discipline> = match self {
            Reference::Srpt => Box::new(Queues::shortest(workers)),
            Reference::Priority => Box::new(Queues::priority(workers)),
            Reference::Darc => Box::new(darc::Darc::new(workers)),
        };
        stage.play(&mut *discipline, incoming);
    }
}

/// The decisions of a reference policy.
trait Discipline {
    /// Called when a request arrives.
    fn arrive(&mut self, stage: &mut Stage<'_>, now: Nanos, request: RequestId);
    /// Called at the time of `worker` in the event list.
    fn due(&mut self, stage: &mut Stage<'_>, now: Nanos, worker: WorkerId);
}

/// The state of a simulation that all reference policies share.
struct Stage<'t> {
    event_list: EventList,
    requests: Requests,
    tally: &'t RefCell<Tally>,
}

impl Stage<'_> {
    fn play(mut self, discipline: &mut dyn Discipline, mut incoming: impl Iterator<Item = ArrivingRequest>) {
        let mut next = incoming.next();
        loop {
            let (time, worker) = self.event_list.first;
            match next {
                Some(coming) if coming.at < time => {
                    let request = self.requests.add(Request::new(&coming));
                    discipline.arrive(&mut self, coming.at, request);
                    next = incoming.next();
                }
                _ if time < Nanos::MAX => discipline.due(&mut self, time, worker),
                _ => return,
            }
        }
    }

    fn finish(&mut self, request: RequestId, now: Nanos) {
        let request = self.requests.remove(request);
        self.tally.borrow_mut().answered(request.class, request.cost, now.minus(request.due), now, request.counts);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_shown() {
        for text in ["srpt", "priority", "darc"] {
            assert_eq!(text.parse::<Reference>().map(|reference| reference.to_string()), Ok(text.to_owned()));
        }
        for text in ["", "SRPT"] {
            assert_eq!(text.parse::<Reference>(), Err(()), "{text}");
        }
    }

    // Does each policy give the latencies that its rule implies? SRPT: the shortest remaining
    // request runs and interrupts. Priority: lighter classes first, without interruption.
    #[test]
    fn latencies_are_those_of_each_discipline() {
        let us = Nanos::from_micros;
        // Requests (at, cost), each of a lighter class than the one before, and their latencies.
        for (reference, workers, requests, expected) in [
            ("srpt", 1, &[(0, 10), (2, 3), (3, 1), (4, 9)][..], &[14, 4, 1, 19][..]),
            ("srpt", 2, &[(0, 10), (0, 8), (2, 3)], &[13, 8, 3]),
            ("priority", 1, &[(0, 10), (1, 5), (2, 3), (20, 1)], &[10, 17, 11, 1]),
            // The lightest waiting request goes first.
            ("darc", 2, &[(0, 10), (1, 5), (2, 3), (4, 1)], &[10, 5, 8, 3]),
        ] {
            let classes = || (0..requests.len() as u8).rev();
            let arrivals = classes().zip(requests).map(|(class, (at, cost))| {
                let (at, deadline) = (us(*at), Nanos::MAX);
                ArrivingRequest { class, deadline, ..ArrivingRequest::new(at, us(*cost)) }
            });
            let tally = reference.parse::<Reference>().expect("a reference").simulate(workers, arrivals);
            let latencies = classes().map(|class| tally.latency_mean(Some(class)).get() / 1_000);
            assert!(latencies.eq(expected.iter().copied()), "{reference} of {workers} for {requests:?}");
        }
    }
}
