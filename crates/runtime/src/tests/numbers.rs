//! Workers without ingresses, whose jobs are numbers and end at once.

use crate::sched::WorkerId;
use crate::sched::turn::{Arrived, Boundary, Description, Discarded, Engine, Ran, Received, Requeued};
use crate::time::Nanos;

/// An engine that calls `run` with each job, and `flush` whenever its worker has nothing more to do
/// for now.
pub(crate) struct Numbers<R, F> {
    pub run: R,
    pub flush: F,
}

impl<R: FnMut(usize), F: FnMut()> Engine for Numbers<R, F> {
    type Job = usize;

    fn receive(&mut self, _: WorkerId, _: &mut Vec<Arrived<usize>>) -> Received {
        Received::default()
    }

    fn run(&mut self, job: usize, _: Nanos) -> Ran<usize> {
        (self.run)(job);
        Ran::Ended { ran: Nanos::ZERO }
    }

    fn describe(&self, _: &usize) -> Description {
        Description { class: None, attained: Nanos::ZERO }
    }

    fn discard(&mut self, _: usize, _: Discarded) {}

    fn requeued(&mut self, _: &mut usize, _: Requeued) -> bool {
        true
    }

    fn flush(&mut self) {
        (self.flush)();
    }

    fn boundary(&mut self, _: Boundary) {}

    fn now(&self) -> Nanos {
        Nanos::ZERO
    }
}
