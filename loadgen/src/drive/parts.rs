//! Several sending threads: the schedule is split by flow, and what became of the parts is joined.
//!
//! Each part has a sender, a receiver, clients and counters of its own, so what it sent is always a
//! prefix of its part. A flow is in one part only. Datagrams have the number of their request in
//! the whole schedule. So they are the same for any number of threads: counters, random fields,
//! identifiers and questions, and the numbers of a session rise. No two requests of a run have one
//! number, whatever a server tells them apart by.

use crate::drive::live::Live;
use crate::drive::receiver::Replies;
use crate::drive::schedule::{Request, place};
use crate::drive::sender::Sent;
use crate::drive::threads::Exchanged;
use forebay::time::Nanos;
use std::borrow::Cow;

/// The requests of one sending thread, in the order of the schedule.
// Aligned, so that no two threads count on one cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Part<'a> {
    pub(crate) schedule: Cow<'a, [Request]>,
    /// Their numbers in the whole schedule; empty if the part is all of it.
    pub(crate) numbers: Vec<u32>,
    pub(crate) live: Live,
}

/// A schedule and its parts.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    pub(crate) whole: &'a [Request],
    pub(crate) parts: Vec<Part<'a>>,
}

impl<'a> Parts<'a> {
    /// Splits `schedule` for this many threads. Flow `f` is in part `f % threads`. With
    /// `keeps_latencies` the latency of each request can be asked for.
    pub(crate) fn split(schedule: &'a [Request], threads: u16, keeps_latencies: bool) -> Parts<'a> {
        let live = |requests: usize| Live::of(if keeps_latencies { requests } else { 0 });
        let part = |nth: u16| {
            if threads == 1 {
                return Part { schedule: schedule.into(), numbers: Vec::new(), live: live(schedule.len()) };
            }
            let of_part = (0..).zip(schedule).filter(|(_, request)| request.flow % threads == nth);
            let (requests, numbers): (Vec<_>, _) = of_part.map(|(number, request)| (*request, number)).unzip();
            Part { live: live(requests.len()), schedule: requests.into(), numbers }
        };
        Parts { whole: schedule, parts: (0..threads).map(part).collect() }
    }

    /// The progress of all parts.
    pub(crate) fn live(&self) -> Live {
        Live::sum(self.parts.iter().map(|part| &part.live))
    }

    /// By how much the part that is most behind its schedule is late, `elapsed` after the start.
    pub(crate) fn late(&self, elapsed: Nanos) -> Nanos {
        let next = |part: &Part<'_>| part.schedule.get(part.live.sent() as usize).map(|next| elapsed.minus(next.at));
        self.parts.iter().filter_map(next).max().unwrap_or(Nanos::ZERO)
    }

    /// The latency of the request with this number; `None` before its answer.
    pub(crate) fn latency(&self, number: usize) -> Option<Nanos> {
        let part = &self.parts[usize::from(self.whole[number].flow) % self.parts.len()];
        part.live.latency(place(&part.numbers, number as u64)?)
    }

    /// Ends sending; the replies to what was sent are awaited.
    pub(crate) fn end_sending(&self) {
        self.parts.iter().for_each(|part| part.live.end_sending());
    }
}

/// The records of the parts of `schedule` as one, with all errors in those of the sender. After an
/// early end each part has sent requests up to another time. So what was sent comes first in the
/// schedule, then the rest.
pub(crate) fn join(schedule: Vec<Request>, parts: Vec<Exchanged>) -> (Vec<Request>, Sent, Replies) {
    let threads = parts.len();
    let pacer = parts.iter().map(|(sent, _)| sent.pacer).max().unwrap_or_default();
    let (mut sent, mut replies) = (Sent { pacer, ..Sent::default() }, Replies::default());
    let records = parts.into_iter().map(|(by_sender, by_receiver)| {
        let errors = by_sender.errors.into_iter().chain(by_receiver.errors);
        errors.for_each(|(error, count)| *sent.errors.entry(error).or_default() += count);
        sent.took = sent.took.max(by_sender.took);
        replies.heard += by_receiver.heard;
        replies.duplicates += by_receiver.duplicates;
        replies.foreign += by_receiver.foreign;
        replies.doubtful += by_receiver.doubtful;
        replies.taken += by_receiver.taken;
        replies.attempts = replies.attempts.plus(by_receiver.attempts);
        (by_sender.slips, by_sender.taken, by_receiver.last)
    });
    let mut records: Vec<_> = records.collect();
    if threads == 1 {
        (sent.slips, sent.taken, replies.last) = records.remove(0);
        return (schedule, sent, replies);
    }
    let by_request = |(slips, taken, last): (Vec<_>, Vec<_>, Vec<_>)| slips.into_iter().zip(taken).zip(last);
    let mut records: Vec<_> = records.into_iter().map(by_request).collect();
    let (mut requests, mut unsent) = (Vec::with_capacity(schedule.len()), Vec::new());
    for request in schedule {
        let Some(((slip, taken), last)) = records[usize::from(request.flow) % threads].next() else {
            unsent.push(request);
            continue;
        };
        requests.push(request);
        sent.slips.push(slip);
        sent.taken.push(taken);
        replies.last.push(last);
    }
    requests.extend(unsent);
    replies.last.resize(requests.len(), None);
    (requests, sent, replies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::pacer::Pacer;
    use crate::drive::receiver::Reply;
    use crate::drive::retries::AttemptCounts;
    use forebay::inside::wire::{Served, Status};

    const MS: Nanos = Nanos::from_millis(1);

    /// A request each millisecond, by turns over five flows but the fourth one.
    fn schedule() -> Vec<Request> {
        let request =
            |id: u64| Request { at: MS.times(id), cost: Nanos::ZERO, flow: [0, 1, 2, 4][id as usize % 4], class: 0 };
        (0..20).map(request).collect()
    }

    /// The record of a part that has sent this many of its requests, in which each figure is that
    /// of its request. A third request is not taken, and each other one is answered.
    fn record(part: &Part<'_>, sent: usize, pacer: Pacer) -> Exchanged {
        let number = |request: &Request| request.at.get() / MS.get();
        let of_sent = &part.schedule[..sent];
        let slips = of_sent.iter().map(|request| Nanos::new(number(request))).collect();
        let taken: Vec<bool> = of_sent.iter().map(|request| number(request) % 3 > 0).collect();
        let refused = taken.iter().filter(|taken| !**taken).count() as u64;
        let reply = |(id, request): (usize, &Request)| {
            let (at, served) = (request.at, Served::default());
            (id < sent && number(request) % 2 > 0).then_some(Reply {
                at,
                status: Status::Ok,
                code: "",
                served,
                late: false,
            })
        };
        let last = part.schedule.iter().enumerate().map(reply).collect();
        let attempts = AttemptCounts { sent: 10, late: 1, ..AttemptCounts::default() };
        let errors = |count| [("full".to_owned(), count)].into();
        let took = part.schedule.get(sent.max(1) - 1).map_or(Nanos::ZERO, |last| last.at);
        (
            Sent { slips, taken, errors: errors(refused), pacer, took },
            Replies { last, heard: 5, duplicates: 4, foreign: 3, doubtful: 2, taken: 1, errors: errors(1), attempts },
        )
    }

    // Is each record that of its request, in the order of the schedule, and what was not sent at
    // the end? Are counts sums? Method: parts that end at different times, and one that sent
    // nothing.
    #[test]
    fn parts_join_in_the_order_of_the_schedule() {
        let schedule = schedule();
        for (threads, sent) in [(1, vec![20]), (1, vec![7]), (2, vec![15, 5]), (2, vec![15, 2]), (3, vec![1, 10, 0])] {
            let parts = Parts::split(&schedule, threads, false);
            let records = || parts.parts.iter().zip(&sent).zip([Pacer::RealTime, Pacer::Ordinary, Pacer::RealTime]);
            let records: Vec<Exchanged> = records().map(|((part, sent), pacer)| record(part, *sent, pacer)).collect();
            let took = records.iter().map(|(sent, _)| sent.took).max();
            let (requests, joined, replies) = join(schedule.clone(), records);
            let count = sent.iter().sum::<usize>();
            assert_eq!((joined.slips.len(), joined.taken.len(), replies.last.len()), (count, count, 20), "{sent:?}");
            for (of_request, (slip, taken)) in
                requests.iter().zip(&replies.last).zip(joined.slips.iter().zip(&joined.taken))
            {
                let (request, last) = of_request;
                let number = slip.get();
                assert_eq!(
                    (request.at, *taken, last.map(|last| last.at)),
                    (MS.times(number), number % 3 > 0, (number % 2 > 0).then_some(request.at))
                );
            }
            assert!(
                [&requests[..count], &requests[count..]].iter().all(|part| part.is_sorted_by_key(|request| request.at))
            );
            assert!(replies.last[count..].iter().all(Option::is_none));
            let mut whole = requests.clone();
            whole.sort_by_key(|request| request.at);
            assert_eq!((whole, Some(joined.took)), (schedule.clone(), took), "{sent:?}");
            let n = u64::from(threads);
            let Replies { heard, duplicates, foreign, doubtful, taken, attempts, .. } = replies;
            assert_eq!([heard, duplicates, foreign, doubtful, taken], [5, 4, 3, 2, 1].map(|one| one * n));
            assert_eq!(attempts, AttemptCounts { sent: 10 * n, late: n, ..AttemptCounts::default() });
            let refused = joined.taken.iter().filter(|taken| !**taken).count() as u64;
            assert_eq!(joined.errors, [("full".to_owned(), refused + n)].into());
            assert_eq!(joined.pacer, if threads == 1 { Pacer::RealTime } else { Pacer::Ordinary });
        }
    }

    // Does each number lead to the latency of its request, and does a part know no other's number?
    // Is the lateness that of the part most behind, and the progress the sum?
    #[test]
    fn a_run_is_seen_as_one() {
        let schedule = schedule();
        for threads in [1, 2, 3] {
            let parts = Parts::split(&schedule, threads, true);
            assert_eq!(parts.latency(0), None);
            for (number, request) in schedule.iter().enumerate() {
                let places = parts.parts.iter().map(|part| place(&part.numbers, number as u64));
                let mut places: Vec<_> = places.zip(&parts.parts).filter_map(|(id, part)| Some((id?, part))).collect();
                let (id, part) = places.pop().expect("it is in a part");
                assert!(places.is_empty() && part.schedule[id] == *request, "{number} of {threads}");
                part.live.count_sent();
                part.live.note_latency(id, MS.times(number as u64));
            }
            assert!((0..20).all(|number| parts.latency(number) == Some(MS.times(number as u64))));
            assert_eq!((parts.live().sent(), parts.late(MS.times(100))), (20, Nanos::ZERO), "all are sent");
            assert!(parts.live().quantile(1.0) > Some(MS.times(17)));
            let stuck = Parts::split(&schedule, threads, false);
            (0..stuck.parts[0].schedule.len()).for_each(|_| stuck.parts[0].live.count_sent());
            let late = if threads == 1 { 0 } else { 99 };
            assert_eq!(stuck.late(MS.times(100)), MS.times(late), "flow 1 has sent nothing");
            stuck.end_sending();
            assert!(stuck.parts.iter().all(|part| part.live.is_enough()));
        }
    }
}
