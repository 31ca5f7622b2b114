//! Checks that an explored server serves the requests of each flow one at a time, in order of
//! admission. The handler reports when it admits, begins and leaves one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// A request's place in its flow: the flow's number, and how many of its requests had been admitted
/// by then. The default is the place of a request without a flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    flow: u8,
    pub(super) number: u32,
}

/// What has happened in each flow.
#[derive(Default)]
pub(super) struct Order {
    flows: Mutex<Flows>,
}

#[derive(Default)]
struct Flows {
    of_number: HashMap<u8, Flow>,
    /// The first violation.
    trouble: Option<String>,
}

#[derive(Default)]
struct Flow {
    admitted: u32,
    /// The number of the request that began last.
    begun: u32,
    serving: bool,
    /// Number of requests that the handler has served to the end.
    served: u32,
}

/// A request in its handler. Dropping it reports that the request has left.
pub(super) struct Serving<'o> {
    order: &'o Order,
    place: Place,
    finished: bool,
}

impl Order {
    /// Admits a request of `flow` and returns its place.
    pub(super) fn admit(&self, flow: u8) -> Place {
        let mut flows = self.flows();
        let of_number = flows.of_number.entry(flow).or_default();
        of_number.admitted += 1;
        Place { flow, number: of_number.admitted }
    }

    /// Begins the request with this place.
    pub(super) fn begin(&self, place: Place) -> Serving<'_> {
        let Place { flow, number } = place;
        if flow != 0 {
            let flows = &mut *self.flows();
            let of_number = flows.of_number.entry(flow).or_default();
            if of_number.serving || number <= of_number.begun {
                let begun = of_number.begun;
                let trouble = || format!("flow {flow}: request {number} begins after {begun}, or beside it");
                flows.trouble.get_or_insert_with(trouble);
            }
            (of_number.serving, of_number.begun) = (true, number);
        }
        Serving { order: self, place, finished: false }
    }

    /// The first violation.
    pub(super) fn trouble(&self) -> Option<String> {
        self.flows().trouble.clone()
    }

    /// Number of requests of `flow` that were served to the end.
    pub(super) fn served(&self, flow: u8) -> u32 {
        self.flows().of_number.get(&flow).map_or(0, |of_number| of_number.served)
    }

    /// The number of the last request of `flow` that began.
    pub(super) fn begun(&self, flow: u8) -> u32 {
        self.flows().of_number.get(&flow).map_or(0, |of_number| of_number.begun)
    }

    fn flows(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().expect("nothing panics under the lock")
    }
}

impl Serving<'_> {
    /// Notes that the request was served to the end.
    pub(super) fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let flows = &mut *self.order.flows();
        let of_number = flows.of_number.entry(self.place.flow).or_default();
        of_number.serving = false;
        of_number.served += u32::from(self.finished);
    }
}
