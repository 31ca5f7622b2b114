//! DARC (Demoulin et al., "When Idling is Ideal", SOSP 2021). It reserves workers for each class,
//! by the class's share of the work, and knows each request's class and cost beforehand. A reserved
//! worker also serves lighter classes, but never heavier ones: it stays idle if only heavier ones
//! wait.

use super::{Discipline, Stage};
use crate::requests::RequestId;
use forebay_base::fate::CLASSES;
use forebay_base::time::Nanos;
use forebay_sched::WorkerId;
use std::collections::VecDeque;

pub(super) struct Darc {
    /// Waiting requests by class. Classes are numbered by cost, the lightest first.
    waiting: [VecDeque<RequestId>; CLASSES],
    /// CPU time of the arrived requests of each class.
    demands: [Nanos; CLASSES],
    serving: Vec<Option<RequestId>>,
}

impl Darc {
    pub(super) fn new(workers: usize) -> Darc {
        Darc { waiting: Default::default(), demands: Default::default(), serving: vec![None; workers] }
    }

    /// The heaviest class that `worker` serves. Workers are reserved in the order of their numbers,
    /// lightest class first. Of two workers or more, the lightest class has at least one. The last
    /// worker serves all classes.
    fn heaviest(&self, worker: WorkerId) -> usize {
        let workers = self.serving.len();
        let sum = |demands: &[Nanos]| demands.iter().map(|demand| demand.as_secs_f64()).sum::<f64>();
        let last = self.demands.iter().rposition(|demand| *demand > Nanos::ZERO).unwrap_or(0);
        if worker + 1 == workers {
            return CLASSES - 1;
        }
        let reserved =
            |class: usize| (sum(&self.demands[..=class]) / sum(&self.demands) * workers as f64).round().max(1.0);
        let mut known = (0..last).filter(|class| self.demands[*class] > Nanos::ZERO);
        known.find(|class| reserved(*class) > worker as f64).unwrap_or(CLASSES - 1)
    }

    fn serve(&mut self, stage: &mut Stage<'_>, now: Nanos, worker: WorkerId, request: RequestId) {
        self.serving[worker] = Some(request);
        stage.event_list.set(worker, now.plus(stage.requests.of(request).cost));
    }
}

impl Discipline for Darc {
    fn arrive(&mut self, stage: &mut Stage<'_>, now: Nanos, request: RequestId) {
        let (class, cost) = (usize::from(stage.requests.of(request).class), stage.requests.of(request).cost);
        self.demands[class] = self.demands[class].plus(cost);
        let is_free = |worker: &WorkerId| self.serving[*worker].is_none() && self.heaviest(*worker) >= class;
        match (0..self.serving.len()).find(is_free) {
            Some(worker) => self.serve(stage, now, worker, request),
            None => self.waiting[class].push_back(request),
        }
    }

    fn due(&mut self, stage: &mut Stage<'_>, now: Nanos, worker: WorkerId) {
        stage.finish(self.serving[worker].take().expect("it was serving"), now);
        let heaviest = self.heaviest(worker);
        match self.waiting[..=heaviest].iter_mut().find_map(VecDeque::pop_front) {
            Some(next) => self.serve(stage, now, worker, next),
            None => stage.event_list.set(worker, Nanos::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{ArrivingRequest, Reference};
    use forebay_base::time::Nanos;

    // Does the worker reserved for light requests stay idle while a heavy request waits? Does it
    // serve light requests?
    #[test]
    fn a_reserved_worker_idles_while_heavy_requests_wait() {
        let us = Nanos::from_micros;
        let requests = [(0, 0), (5, 1), (6, 1), (7, 0)].map(|(at, class)| {
            let cost = us(if class == 0 { 1 } else { 10 });
            ArrivingRequest { class, ..ArrivingRequest::new(us(at), cost) }
        });
        let tally = Reference::Darc.simulate(2, requests.into_iter());
        // Light requests take 1 us each. The heavy ones arrive at 5 and 6 us, and end at 15 and 25
        // us.
        let [light, heavy] = [0, 1].map(|class| tally.latency_mean(Some(class)));
        assert_eq!((light, heavy), (us(1), Nanos::new(14_500)));
    }
}
