//! Which request a reply answers, where its protocol repeats only a part of the request's number,
//! or nothing of it. Then several requests may be alike for a reply. It is taken for the last open
//! one, and if others are open too, it is doubtful.

use crate::drive::retries::Clients;
use crate::drive::schedule::place;
use crate::profile::{Datagrams, Told, WHOLE_BITS};
use forebay::time::Nanos;

/// How many requests with the same low bits are looked at, from the last one back. With 16 bits
/// these are 4 million requests, or 17 s at 250,000/s: more than a timeout.
const LOOKS_MAX: usize = 64;

/// Finds the requests of replies.
#[derive(Debug)]
pub(crate) struct Matching {
    /// The requests of each flow that may be open, the last one sent at the end. Only for replies
    /// that repeat nothing. It needs 4 bytes for each request without a reply.
    open: Vec<Vec<u32>>,
    /// Requests with smaller numbers have been in `open`.
    seen: u64,
    /// Replies that could answer several open requests.
    pub(crate) doubtful: u64,
}

/// A reply that has come.
#[derive(Clone, Copy)]
pub(crate) struct Incoming<'a> {
    /// The flow over which it came, and when.
    pub(crate) flow: usize,
    pub(crate) at: Nanos,
    pub(crate) bytes: &'a [u8],
    /// What the bytes tell.
    pub(crate) told: &'a Told,
}

impl Matching {
    /// Matches the replies of this many flows.
    pub(crate) fn new(flows: usize) -> Matching {
        Matching { open: vec![Vec::new(); flows], seen: 0, doubtful: 0 }
    }

    /// The request that `reply` answers. The first `sent` requests of the schedule have been sent,
    /// as `datagrams` says.
    pub(crate) fn request(
        &mut self,
        clients: &Clients<'_>,
        sent: u64,
        datagrams: Datagrams<'_>,
        reply: &Incoming<'_>,
    ) -> Option<usize> {
        let Incoming { flow, at, bytes, told } = *reply;
        match told.id_bits {
            0 => {
                self.note_sent(clients, datagrams.profile.handshake(), sent);
                let alike = self.open[flow].iter().rev().map(|id| *id as usize);
                last_open(clients, at, &alike, &mut self.doubtful)
            }
            WHOLE_BITS.. => place(datagrams.numbers, told.id),
            bits => {
                let period = 1 << bits;
                let newest = datagrams.number(sent.checked_sub(1)?);
                let last = newest.checked_sub(told.id)? / period * period + told.id;
                let alike = (0..=last).rev().step_by(period as usize).take(LOOKS_MAX).filter_map(|number| {
                    let id = place(datagrams.numbers, number)?;
                    let is_of_flow = usize::from(clients.schedule[id].flow) == flow;
                    (is_of_flow && datagrams.profile.answers(number, bytes)).then_some(id)
                });
                last_open(clients, at, &alike, &mut self.doubtful)
            }
        }
    }

    /// Notes which of the first `sent` requests may be open, and forgets the last ones that have a
    /// reply. With `only` those of that class count.
    fn note_sent(&mut self, clients: &Clients<'_>, only: Option<u8>, sent: u64) {
        for (id, request) in (self.seen..sent).zip(&clients.schedule[self.seen as usize..]) {
            if only.is_none_or(|class| class == request.class) {
                let open = &mut self.open[usize::from(request.flow)];
                // One stays, for a duplicate.
                while open.len() > 1 && open.last().is_some_and(|id| clients.is_replied_to(*id as usize)) {
                    open.pop();
                }
                open.push(id as u32);
            }
        }
        self.seen = sent;
    }
}

/// The last of the requests `alike`, which come from the last one back, that was open when a reply
/// came at `at`. If none was, the last one without a reply, else the last one. Counts in `doubtful`
/// a reply for which another one was open as well.
///
/// An older request without a reply was probably lost. If the oldest were taken, each loss would
/// move all later replies to other requests.
fn last_open(
    clients: &Clients<'_>,
    at: Nanos,
    alike: &(impl Iterator<Item = usize> + Clone),
    doubtful: &mut u64,
) -> Option<usize> {
    // A reply that we read late came before the requests that have been sent since.
    let due = alike.clone().skip_while(|id| !clients.is_due(*id, at)).take_while(|id| clients.is_young(*id, at));
    let mut open = due.filter(|id| !clients.is_replied_to(*id));
    let Some(last) = open.next() else {
        return alike.clone().find(|id| !clients.is_replied_to(*id)).or_else(|| alike.clone().next());
    };
    *doubtful += u64::from(open.next().is_some());
    Some(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::parts::Parts;
    use crate::drive::schedule::Request;
    use crate::plan::Retrying;
    use crate::profile::{Chosen, test_datagrams};
    use forebay::inside::wire::Status;

    const MS: Nanos = Nanos::from_millis(1);

    /// A request each millisecond from 1 s on, by turns over three flows.
    fn schedule() -> Vec<Request> {
        let request =
            |id: u64| Request { at: MS.times(1_000 + id), cost: Nanos::ZERO, flow: (id % 3) as u16, class: 0 };
        (0..20_000).map(request).collect()
    }

    /// The requests that each of `replies` answers: sent by then, flow, what it repeats. Those that
    /// it ends are ended. Beside it: how many were doubtful.
    fn answered(replies: &[(u64, usize, Told)]) -> (Vec<Option<usize>>, u64) {
        let (schedule, mut matching) = (schedule(), Matching::new(3));
        let mut clients = Clients::new(&schedule, Retrying::default(), 1, Nanos::ZERO, Nanos::ZERO, MS.times(100));
        let ids = replies.iter().map(|(sent, flow, told)| {
            let at = MS.times(1_000 + sent);
            let found = matching.request(
                &clients,
                *sent,
                test_datagrams(1),
                &Incoming { flow: *flow, at, bytes: b"", told },
            )?;
            clients.on_reply(found, 0, Status::Ok, Nanos::ZERO, at);
            Some(found)
        });
        (ids.collect(), matching.doubtful)
    }

    // Is a short number that of the last request that has it, was sent over the flow and has no
    // reply? Is a duplicate that of a request with a reply, and is the search bounded?
    #[test]
    fn a_short_number_is_the_last_open_request_of_its_flow() {
        let low = |id: usize| Told::answer(id as u64 % 256, 8);
        // 700, 444 and 188 have the same low bits; 700 and 188 are not of one flow.
        let (ids, _) = answered(&[
            (701, 1, low(700)),
            (701, 1, low(700)),
            (700, 0, low(700)),
            (701, 2, low(188)),
            (100, 2, low(188)),
            (20_000, 0, low(3)),
            (20_000, 0, low(3)),
        ]);
        let back = |id: Option<usize>| id.map(|id| (id % 256, id % 3));
        assert_eq!(ids[..5], [Some(700), Some(700), Some(444), Some(188), None]);
        assert!(ids[5] > ids[6] && ids[5..].iter().all(|id| back(*id) == Some((3, 0))), "{ids:?}");
        let (ids, _) = answered(&[(20_000, 0, low(3)); 30]);
        // Every third of 64 looks is of the flow: then they are duplicates of the last one.
        let oldest = ids.iter().flatten().min().expect("found");
        assert!(*oldest >= 20_000 - 65 * 256 && ids[29] == ids[0], "{ids:?}");
    }

    // Where several threads send, does a part look only for requests of its own? Numbers are those
    // of the whole schedule.
    #[test]
    fn a_short_number_is_of_the_own_part() {
        let schedule = schedule();
        let parts = Parts::split(&schedule, 3, false);
        let (own, mut matching) = (&parts.parts[1], Matching::new(3));
        let mut clients = Clients::new(&own.schedule, Retrying::default(), 1, Nanos::ZERO, Nanos::ZERO, MS.times(100));
        let datagrams = Datagrams { numbers: &own.numbers, ..test_datagrams(1) };
        // The first 100 requests of the part have the numbers 1, 4, 7 to 298.
        let mut found = |sent, number: u64, bits| {
            let told = Told::answer(number % (1_u64 << bits), bits);
            let id = matching.request(
                &clients,
                sent,
                datagrams,
                &Incoming { flow: 1, at: Nanos::ZERO, bytes: b"", told: &told },
            )?;
            clients.on_reply(id, 0, Status::Ok, Nanos::ZERO, Nanos::ZERO);
            Some(own.numbers[id])
        };
        assert_eq!([found(100, 298, 8), found(100, 40, 8), found(100, 41, 8)], [Some(298), Some(40), None]);
        assert_eq!([found(0, 1, 8), found(100, 301, 8), found(100, 298, 8)], [None, None, Some(298)]);
        assert_eq!([found(100, 7, 32), found(100, 8, 32)], [Some(7), None]);
    }

    // If nothing is repeated: is a reply that of the last open request of its flow, also after a
    // loss? Is it counted when it could be another's?
    #[test]
    fn a_reply_without_a_number_is_of_the_last_open_request() {
        let none = Told::answer(0, 0);
        // Flow 0 sends 0, 3, 6; 0 is lost, and older than the timeout from 101 on.
        assert_eq!(answered(&[(1, 0, none), (4, 0, none), (4, 1, none)]), (vec![Some(0), Some(3), Some(1)], 0));
        assert_eq!(answered(&[(4, 0, none), (4, 0, none), (4, 0, none)]), (vec![Some(3), Some(0), Some(3)], 1));
        assert_eq!(answered(&[(7, 0, none), (7, 2, none), (1, 2, none)]).1, 2);
        assert_eq!(answered(&[(2, 2, none)]).0, [None]);
        // The first one stays open for 5 s.
        let old: Vec<_> = (0..2_000).map(|nth| (3 * nth + 4, 0, none)).collect();
        let (ids, doubtful) = answered(&old);
        assert!(ids.iter().zip(1..).all(|(id, nth)| *id == Some(3 * nth)), "{ids:?}");
        assert_eq!(doubtful, 1_666, "until 5 s have passed");
    }

    // Is a reply with a short number doubtful where another request of that flow and number is
    // open, also after its timeout? Is one of another flow no doubt, nor one with a reply?
    // Method: the smallest wrap. With one bit, requests 1 and 7 of flow 1 are alike.
    #[test]
    fn a_short_number_of_several_open_requests_is_doubtful() {
        let bits = |id: u64, bits| Told::answer(id % (1_u64 << bits), bits);
        assert_eq!(answered(&[(2, 1, bits(1, 1)), (5, 1, bits(4, 1)), (8, 1, bits(7, 1))]).1, 0, "each in turn");
        assert_eq!(answered(&[(8, 1, bits(7, 1)), (8, 1, bits(1, 1))]), (vec![Some(7), Some(1)], 1));
        assert_eq!(answered(&[(8, 1, bits(4, 1)), (8, 2, bits(5, 1))]), (vec![Some(4), Some(5)], 0));
        // 700 and 700 - 768 are of one flow.
        assert_eq!(answered(&[(769, 1, bits(700, 8))]).1, 0, "no other one is sent");
        assert_eq!(answered(&[(1_469, 1, bits(1_468, 8))]), (vec![Some(1_468)], 1), "that of 0.8 s ago is open");
        assert_eq!(answered(&[(701, 1, bits(700, 8)), (1_469, 1, bits(1_468, 8))]).1, 0, "it has its reply");
        assert_eq!(answered(&[(19_999, 1, bits(700, 16))]), (vec![Some(700)], 0), "16 bits are enough for 20,000");
    }

    // Are two questions of DNS alike whose identifiers have wrapped, and not if their names differ?
    // Method: the last of 65,537 questions is answered while the first one is open.
    #[test]
    fn identifiers_of_dns_that_wrap_are_doubtful() {
        const LAST: u64 = 1 << 16;
        for (names, doubtful) in [("a A\n", 1), ("a A\nb A\nc A\n", 0)] {
            let file = tempfile::NamedTempFile::new().expect("a file");
            std::fs::write(file.path(), names).expect("written");
            let chosen: Chosen = format!("dns={}", file.path().display()).parse().expect("questions");
            let datagrams = Datagrams { profile: &*chosen.profile, ..test_datagrams(7) };
            let request = |id| Request { at: Nanos::from_micros(id), cost: Nanos::ZERO, flow: 0, class: 0 };
            let schedule: Vec<Request> = (0..=LAST).map(request).collect();
            let clients = Clients::new(&schedule, Retrying::default(), 1, Nanos::ZERO, Nanos::ZERO, MS.times(100));
            let mut reply = Vec::new();
            datagrams.write(LAST, 0, &schedule[LAST as usize], &mut reply);
            reply[2] |= 0x80;
            let told = datagrams.profile.read(datagrams.common, &reply).expect("a reply");
            let mut matching = Matching::new(1);
            let found = matching.request(
                &clients,
                LAST + 1,
                datagrams,
                &Incoming { flow: 0, at: MS.times(1_000), bytes: &reply, told: &told },
            );
            assert_eq!((found, matching.doubtful), (Some(LAST as usize), doubtful), "{names}");
        }
    }

    // Is a reply that came before a request was sent not that of the request, however late we read
    // it?
    #[test]
    fn a_reply_that_is_read_late_is_of_a_request_before_it() {
        let schedule = schedule();
        for (told, doubtful) in [(Told::answer(0, 0), 0), (Told::answer(1, 1), 0)] {
            let mut matching = Matching::new(3);
            let clients = Clients::new(&schedule, Retrying::default(), 1, Nanos::ZERO, Nanos::ZERO, MS.times(100));
            // It came after request 1, and is read after request 13.
            let found = matching.request(
                &clients,
                14,
                test_datagrams(1),
                &Incoming { flow: 1, at: MS.times(1_003), bytes: b"", told: &told },
            );
            assert_eq!((found, matching.doubtful), (Some(1), doubtful), "{told:?}");
        }
    }
}
