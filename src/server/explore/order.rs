//! Whether an explored server serves the requests of each flow one at a time, in the order of their
//! admission. The handler tells when it admits one, begins it and leaves it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

/// A request's place in its flow: the number of the flow, and how many requests of it were admitted
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
    /// The first rule that was broken.
    trouble: Option<String>,
}

#[derive(Default)]
struct Flow {
    admitted: u32,
    /// The number of the request that began last.
    begun: u32,
    serving: bool,
    /// Requests that have been in their handler to the end.
    served: u32,
}

/// A request in its handler: it leaves when this is dropped.
pub(super) struct Serving<'o> {
    order: &'o Order,
    place: Place,
    finished: bool,
}

impl Order {
    /// The place of a request of `flow` that is admitted now.
    pub(super) fn admit(&self, flow: u8) -> Place {
        let mut flows = self.flows();
        let of_number = flows.of_number.entry(flow).or_default();
        of_number.admitted += 1;
        Place { flow, number: of_number.admitted }
    }

    /// The request of `place` begins.
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

    /// The first rule that was broken.
    pub(super) fn trouble(&self) -> Option<String> {
        self.flows().trouble.clone()
    }

    /// The number of requests of `flow` that were served to the end.
    pub(super) fn served(&self, flow: u8) -> u32 {
        self.flows().of_number.get(&flow).map_or(0, |of_number| of_number.served)
    }

    /// The number of the last request of `flow` that was in its handler.
    pub(super) fn begun(&self, flow: u8) -> u32 {
        self.flows().of_number.get(&flow).map_or(0, |of_number| of_number.begun)
    }

    fn flows(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().expect("nothing panics under the lock")
    }
}

impl Serving<'_> {
    /// The request has been served to the end.
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
