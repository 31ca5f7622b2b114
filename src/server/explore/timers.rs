//! Does a session whose peer sends in time live, although the whole server has no CPU for longer
//! than the session's time? Does a silent one end within the bound, also under a flood that no
//! worker can take in? Method: services in virtual time, whose workers are all held by requests
//! without checkpoints. Peers send meanwhile.

use super::scenario::{Event, Scenario};
use super::server::explore_service;
use crate::handler::{self, Admitted, Arrival, Out, Rejected, Service};
use crate::sched::bounds::BATCH;
use crate::sched::{Tuning, Wait};
use crate::time::Nanos;
use crate::time::clock::{self, virtual_time};
use forebay_sim::Rest;
use std::sync::Mutex;

const MS: fn(u64) -> Nanos = Nanos::from_millis;
const SESSIONS: u8 = 8;
/// The shard of requests that belong to no session, one for each worker.
const OTHERS: u8 = SESSIONS;
/// A session ends so long after its peer was last heard.
const EXPIRES: Nanos = Nanos::from_millis(2_500);
/// When the workers lose their CPUs, and for how long.
const PAUSE: (u64, u64) = (5_050, 3_000);

/// The times at which each session ended.
#[derive(Default)]
struct Sessions(Mutex<[Vec<Nanos>; SESSIONS as usize]>);

impl Service for Sessions {
    type Ticket = ();
    type Shard = ();
    type Message = std::convert::Infallible;

    const SHARDS: usize = OTHERS as usize + 2;

    fn shard(&self, _: usize) {}

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::new(()).shard(arrival.bytes()[0].into()))
    }

    async fn handle(&self, (): &mut (), event: handler::Event<'_>, out: &mut Out<'_>) {
        match event {
            handler::Event::Datagram(request) => {
                let (shard, ms) = request.bytes().split_first().expect("a request has a shard");
                virtual_time::pass(MS(ms.iter().map(|part| u64::from(*part) * 20).sum()));
                if *shard < SESSIONS {
                    out.at(0, clock::instant(clock::now().plus(EXPIRES))).expect("there is room");
                }
            }
            handler::Event::Timer { .. } => {
                self.0.lock().expect("no panic")[out.shard()].push(clock::now());
            }
            _ => panic!("there are no others"),
        }
    }
}

/// A request for `shard` that holds its worker for `ms`.
fn request(shard: u8, ms: u64) -> Vec<u8> {
    let whole = vec![u8::MAX; (ms / 20 / 255) as usize];
    [vec![shard], whole, vec![(ms / 20 % 255) as u8]].concat()
}

/// When each session ended, under a policy of this name. `others` is beside what the sessions send,
/// which is one datagram each second until the end at 12 s. Session 0 is silent from `silent_from`
/// on, in ms.
fn ends(policy: &str, silent_from: u64, others: impl Iterator<Item = (u64, usize, Vec<u8>)>) -> [Vec<Nanos>; 8] {
    let sends = |session: u8| {
        let until = if session == 0 { silent_from } else { 12_000 };
        // Of the time of one second, each has its own part, and its own worker's socket.
        let times = (u64::from(session) * 100..until).step_by(1_000);
        times.map(move |at| (at, usize::from(session) % 2, request(session, 0)))
    };
    let mut events: Vec<_> = (0..SESSIONS).flat_map(sends).chain(others).collect();
    events.sort_by_key(|(at, ..)| *at);
    let mut events: Vec<_> = events.into_iter().map(|(at, to, bytes)| (MS(at), Event::Datagram(to, bytes))).collect();
    events.extend((0..12_000).step_by(10).map(|at| (MS(at), Event::Tick)));
    events.sort_by_key(|(at, _)| *at);
    let tuning = Tuning::new(2, Nanos::from_micros(50));
    let scenario = Scenario {
        rest: Rest { wait: Wait::Park, nap_min: Nanos::from_micros(10) },
        packets: BATCH + 2_000,
        set_aside: [1_000, 500],
        stamps: true,
        ..Scenario::plain(tuning.policy(policy), 20_000, events)
    };
    let sessions = Sessions::default();
    explore_service(&scenario, &sessions, &|| None, None, None).expect("the accounts balance");
    sessions.0.into_inner().expect("no panic")
}

// Five of eight were told that they had expired when timers came before datagrams.
#[test]
fn a_live_session_outlives_a_pause() {
    for policy in ["isolated", "steal", "global", "levels"] {
        let pause = [0, 1].map(|to: u8| (PAUSE.0, to.into(), request(OTHERS + to, PAUSE.1)));
        let ended = ends(policy, PAUSE.0, pause.into_iter());
        let silent = &ended[0];
        assert!(ended[1..].iter().all(Vec::is_empty), "{policy}: {ended:?}");
        // Its peer was last heard at 5 s, and the pause ends at 8,05 s.
        let resumed = MS(PAUSE.0 + PAUSE.1);
        assert!(silent.len() == 1 && silent[0] >= resumed && silent[0] < resumed.plus(MS(20)), "{policy}: {ended:?}");
    }
}

// Does it end within half a second of its time, although more datagrams wait than can be served
// for as long as the server runs?
#[test]
fn a_flood_keeps_no_session_alive() {
    for policy in ["isolated", "levels"] {
        let flood = (4_000..11_000).map(|at| (at, at as usize % 2, request(OTHERS + (at % 2) as u8, 20)));
        let ended = ends(policy, 3_500, flood);
        let due = MS(3_000).plus(EXPIRES);
        let silent = &ended[0];
        assert!(silent.len() == 1 && silent[0] >= due && silent[0] < due.plus(MS(600)), "{policy}: {ended:?}");
    }
}
