//! Reference policies: bounds to compare with, which no server can follow. They know each request's
//! cost beforehand, interrupt at any moment, or see all queues at once. Their steps cost only what
//! their parameters say.

mod darc;
mod processor_sharing;
mod queues;

use super::event_list::EventList;
use super::requests::{Request, RequestId, Requests};
use super::{ArrivingRequest, Tally};
use forebay::inside::emulation::overheads::STEP_MAX;
use forebay::inside::sched::WorkerId;
use forebay::time::{Nanos, parse_duration};
use queues::Queues;
use std::cell::RefCell;
use std::fmt;
use std::str::FromStr;

/// A policy that exists in simulation only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// Shortest remaining processing time first, with preemption. It knows costs beforehand.
    Srpt,
    /// All requests progress at once. Each gets an equal share of the workers, and at most one
    /// worker.
    ProcessorSharing,
    /// One queue for all workers. A request that has run for a quantum goes to the end of the
    /// queue, if another one waits.
    RoundRobin {
        /// CPU time of a turn; above zero.
        quantum: Nanos,
        /// The cost of switching to another request.
        switch: Nanos,
    },
    /// One queue for each class, the lightest first; no request is interrupted.
    Priority,
    /// Each request goes to the worker with the fewest requests, and stays there.
    JoinShortestQueue,
    /// DARC: reserves workers for each class by its share of the work. They may serve lighter
    /// classes.
    Darc,
}

/// Central preemption with published figures: a quantum of 5 us, and 1 us for a switch.
const CENTRAL: Reference = Reference::RoundRobin { quantum: Nanos::from_micros(5), switch: Nanos::from_micros(1) };

/// All references with a fixed name. Round robin with other parameters has a form instead.
const NAMED: [(&str, Reference); 6] = [
    ("srpt", Reference::Srpt),
    ("ps", Reference::ProcessorSharing),
    ("priority", Reference::Priority),
    ("jsq", Reference::JoinShortestQueue),
    ("darc", Reference::Darc),
    ("central", CENTRAL),
];

impl FromStr for Reference {
    type Err = ();

    /// Reads `srpt`, `ps`, `priority`, `jsq`, `darc`, `central` (round robin of 5us, 1us to switch)
    /// and `rr:QUANTUM:SWITCH`. A quantum is above zero, a switch at most 10ms.
    fn from_str(text: &str) -> Result<Reference, ()> {
        let round_robin = || {
            let (quantum, switch) = text.strip_prefix("rr:")?.split_once(':')?;
            let (quantum, switch) = (parse_duration(quantum).ok()?, parse_duration(switch).ok()?);
            (quantum > Nanos::ZERO && switch <= STEP_MAX).then_some(Reference::RoundRobin { quantum, switch })
        };
        let named = NAMED.into_iter().find(|(name, _)| *name == text);
        named.map(|(_, reference)| reference).or_else(round_robin).ok_or(())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (NAMED.into_iter().find(|(_, named)| named == self), *self) {
            (None, Reference::RoundRobin { quantum, switch }) => f.pad(&format!("rr:{quantum}:{switch}")),
            (named, _) => f.pad(named.map_or("", |(name, _)| name)),
        }
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
            Reference::ProcessorSharing => Box::new(processor_sharing::ProcessorSharing::new(workers)),
            Reference::RoundRobin { quantum, switch } => Box::new(Queues::round_robin(workers, quantum, switch)),
            Reference::Priority => Box::new(Queues::priority(workers)),
            Reference::JoinShortestQueue => Box::new(Queues::joined(workers)),
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
        for text in ["srpt", "ps", "priority", "jsq", "darc", "central", "rr:20us:100ns"] {
            assert_eq!(text.parse::<Reference>().map(|reference| reference.to_string()), Ok(text.to_owned()));
        }
        assert_eq!("rr:5us:1us".parse(), Ok(CENTRAL));
        for text in ["", "rr", "rr:5us", "rr:0us:1us", "rr:5us:1us:1us", "SRPT"] {
            assert_eq!(text.parse::<Reference>(), Err(()), "{text}");
        }
    }

    // Does each policy give the latencies that its rule implies? SRPT: the shortest remaining
    // request runs and interrupts. Processor sharing: equal shares, at most one worker for each.
    // Round robin: a turn ends after a quantum if another waits. Priority: lighter classes first,
    // without interruption. JSQ: the shortest queue is joined.
    #[test]
    fn latencies_are_those_of_each_discipline() {
        let us = Nanos::from_micros;
        // Requests (at, cost), each of a lighter class than the one before, and their latencies.
        for (reference, workers, requests, expected) in [
            ("srpt", 1, &[(0, 10), (2, 3), (3, 1), (4, 9)][..], &[14, 4, 1, 19][..]),
            ("srpt", 2, &[(0, 10), (0, 8), (2, 3)], &[13, 8, 3]),
            ("ps", 1, &[(0, 4), (0, 4)], &[8, 8]),
            ("ps", 1, &[(0, 4), (2, 1)], &[5, 2]),
            ("ps", 2, &[(0, 4), (0, 6), (100, 2)], &[4, 6, 2]),
            ("ps", 2, &[(0, 4), (0, 4), (0, 4), (0, 4)], &[8, 8, 8, 8]),
            ("rr:2us:0us", 1, &[(0, 4), (0, 3)], &[6, 7]),
            // Two switches; after the second one no other request is left to switch to.
            ("rr:2us:1us", 1, &[(0, 4), (0, 3)], &[8, 9]),
            ("rr:2us:1us", 1, &[(0, 7)], &[7]),
            ("rr:2us:0us", 2, &[(0, 4), (0, 3), (0, 1)], &[4, 4, 3]),
            ("priority", 1, &[(0, 10), (1, 5), (2, 3), (20, 1)], &[10, 17, 11, 1]),
            ("jsq", 2, &[(0, 10), (1, 3), (2, 2), (3, 1)], &[10, 3, 10, 2]),
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
