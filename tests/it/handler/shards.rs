//! Has each request exclusive access to the state of its shard, and does the next one see its
//! changes, however it ends? Method: a service reads a count, lets others run, and writes the
//! count.

use forebay::{Event, Out, Service};
use support::prelude::*;

/// A request has its shard ('-' names none), its action, and space for the answer. The answer is
/// the shard's number, and how many of its requests have come so far.
struct Counting;

impl Service for Counting {
    type Ticket = ();
    type Shard = (usize, u64);
    type Message = std::convert::Infallible;

    const SHARDS: usize = 3;

    fn shard(&self, number: usize) -> (usize, u64) {
        (number, 0)
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(match arrival.bytes()[0] {
            b'-' => Admitted::new(()),
            shard => Admitted::new(()).shard(shard.into()),
        })
    }

    async fn handle(&self, (number, count): &mut (usize, u64), event: Event<'_>, out: &mut Out<'_>) {
        let Event::Datagram(request) = event else { return };
        let before = *count;
        match request.bytes()[1] {
            b'c' => {
                for _ in 0..5 {
                    thread::yield_now();
                    checkpoint().await;
                }
            }
            b'f' => fork(async { checkpoint().await }).await,
            b'o' => hop(1).await,
            b's' => sleep(Nanos::from_micros(100)).await,
            b'n' => std::future::pending().await,
            b'p' => std::panic::resume_unwind(Box::new(())),
            _ => {}
        }
        *count = before + 1;
        write!(out.reply(), "{number} {count}").expect("there is room");
    }
}

/// Its shard 2, with room for `ROOM` requests, gets them all. It serves none until it may.
#[derive(Clone, Default)]
struct Narrow<const ROOM: usize>(Arc<AtomicBool>);

impl<const ROOM: usize> Service for Narrow<ROOM> {
    type Ticket = ();
    type Shard = ();
    type Message = std::convert::Infallible;

    const SHARDS: usize = 3;
    const ROOM: usize = ROOM;

    fn shard(&self, _: usize) {}

    fn admit(&self, _: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::new(()).shard(2))
    }

    async fn handle(&self, (): &mut (), _: Event<'_>, _: &mut Out<'_>) {
        while !self.0.load(Ordering::SeqCst) {
            sleep(Nanos::from_millis(1)).await;
        }
    }
}

/// How many of a burst of `BURST` requests a shard with this room does not serve. `full` is called
/// before it serves the others.
fn turned_away<const ROOM: usize>(full: impl FnOnce()) -> u64 {
    const BURST: u64 = 151;
    let service = Narrow::<ROOM>::default();
    let server = Running::on(bound(&[("workers", "2")]), service.clone());
    let client = client(&server);
    (0..BURST).for_each(|_| _ = client.send(b"burst").expect("the server's port is open"));
    await_until(|| fates(&latency(server.admin)).received == BURST, "the burst does not come");
    full();
    service.0.store(true, Ordering::SeqCst);
    let fates = server.quiescent(BURST);
    assert_eq!(fates.no_reply + fates.shed_queue_full, BURST, "{fates:?}");
    fates.shed_queue_full
}

// Does a shard hold as many requests as its service chooses, beside the one that it serves?
#[test]
fn the_room_of_a_shard_is_the_services_choice() {
    let turned_away = [turned_away::<64>(|| {}), turned_away::<150>(|| {}), turned_away::<{ usize::MAX }>(|| {})];
    assert_eq!(turned_away, [86, 0, 0]);
}

// Does one line of the log name a shard that is full? Method: this test again, in a process of its
// own, whose log it reads.
#[test]
fn the_log_names_a_full_shard() {
    const NAME: &str = "handler::shards::the_log_names_a_full_shard";
    const LOGS_TO: &str = "FOREBAY_TEST_LOGS_TO";
    let directory = tempfile::tempdir().expect("a directory");
    let Some(path) = env::var_os(LOGS_TO) else {
        let path = directory.path().join("log");
        let (code, _, said) = ended(&mut this_as(NAME, LOGS_TO, path.to_str().expect("text")));
        let log = fs::read_to_string(path).expect("a log");
        assert_eq!((code, log.matches("a shard is full").count()), (Some(0), 1), "{said}{log}");
        return;
    };
    let file = fs::File::create(&path).expect("a file");
    tracing_subscriber::fmt().with_writer(Arc::new(file)).with_ansi(false).init();
    let is_named = || {
        let log = fs::read_to_string(&path).expect("a log");
        log.lines().any(|line| line.contains("a shard is full") && line.contains("shard=2"))
    };
    turned_away::<64>(|| await_until(is_named, "the log does not name the shard"));
}

// Is no count lost if requests of a shard come at the same time? Do requests that panic or stall
// not count?
#[test]
fn a_shard_has_one_request_at_a_time() {
    const EACH: u64 = 28;
    for policy in policies() {
        let server = Running::on(bound(&sized(policy, 4)), Counting);
        let clients = [(); 3].map(|()| client(&server));
        // 52 is number 1 of three shards.
        let shards = [(b'0', 0), (52, 1), (b'2', 2)];
        for number in 0..EACH as usize {
            for (shard, _) in shards {
                clients[number % 3].send(&[shard, b"?cfosnp"[number % 7], 0, 0, 0]).expect("the server's port is open");
            }
        }
        let answered = EACH * 5 / 7;
        let mut counts = [vec![], vec![], vec![]];
        server.ends_as(
            fates! { received: 3 * EACH, answered: 3 * answered, failed: 3 * EACH / 7, stalled: 3 * EACH / 7 },
            policy,
        );
        for client in &clients {
            client.set_nonblocking(true).expect("a socket");
            let mut answer = [0; 8];
            while let Ok(length) = client.recv(&mut answer) {
                let answer = String::from_utf8_lossy(&answer[..length]).into_owned();
                let (shard, count) = answer.split_once(' ').expect("two numbers");
                counts[shard.parse::<usize>().expect("a number")].push(count.parse::<u64>().expect("a number"));
            }
        }
        for mut counts in counts {
            counts.sort_unstable();
            assert!(counts.iter().copied().eq(1..=answered), "{policy}: {counts:?}");
        }
    }
}

// Does the sender's address decide the shard of requests that name none?
#[test]
fn a_sender_has_one_shard() {
    let server = Running::on(bound(&sized("steal", 4)), Counting);
    let mut met = BTreeSet::new();
    for _ in 0..40 {
        let client = client(&server);
        let answers = [(); 3].map(|()| ask_from(&client, "-c..."));
        let shards = answers.each_ref().map(|answer| answer.split_once(' ').expect("two numbers").0);
        assert!(shards.iter().all(|shard| *shard == shards[0]), "{answers:?}");
        met.insert(shards[0].to_owned());
    }
    assert_eq!(met.len(), 3, "40 senders are spread");
    server.ends_as(fates! { received: 120, answered: 120 }, "steal");
}

/// A request arms the key in its second byte, to fire after the milliseconds in its first byte; 0
/// stops it. The answer begins with 1 if the key was armed.
#[derive(Clone, Default)]
struct Later {
    /// The keys that fired.
    fired: Arc<Mutex<Vec<u64>>>,
}

impl Service for Later {
    type Ticket = ();
    /// When each key is to fire.
    type Shard = BTreeMap<u64, Nanos>;
    type Message = std::convert::Infallible;

    const SHARDS: usize = 16;

    fn shard(&self, _: usize) -> BTreeMap<u64, Nanos> {
        BTreeMap::new()
    }

    async fn handle(&self, due: &mut BTreeMap<u64, Nanos>, event: Event<'_>, out: &mut Out<'_>) {
        match event {
            Event::Datagram(request) => {
                let after = Nanos::from_millis(request.bytes()[0].into());
                let key = request.bytes()[1].into();
                checkpoint().await;
                let was_armed = if after == Nanos::ZERO {
                    out.at(key, None).expect("there is room");
                    due.remove(&key)
                } else {
                    let when = clock::now().plus(after);
                    out.at(key, clock::instant(when)).expect("there is room");
                    due.insert(key, when)
                };
                out.reply().put(&[was_armed.is_some().into(), request.bytes()[1]]).expect("there is room");
            }
            Event::Timer { key, due: when } => {
                let due = due.remove(&key).expect("it was to fire, and once");
                assert_eq!(clock::at(when), due, "the time that was set");
                checkpoint().await;
                assert!(clock::now() >= due, "not before its time");
                assert!(out.reply().put(b"!").is_err(), "there is no request");
                self.fired.lock().expect("no panic").push(key);
            }
            _ => unreachable!("there are no other events"),
        }
    }
}

// Does a timer fire once, not early, and not after it was stopped or moved? Under every policy, on
// an idle server. Is each timer event received, and does it end with a fate?
#[test]
fn timers_fire_once() {
    for policy in policies() {
        let service = Later::default();
        let server = Running::on(bound(&sized(policy, 4)), service.clone());
        let client = client(&server);
        // Each of 20 keys is armed, every third is stopped, and every fifth is armed again. The
        // last one does not fire before the stop.
        let first = (0..20).map(|key| [30, key]);
        let stopped = (0..20).step_by(3).map(|key| [0, key]);
        let moved = (1..20).step_by(5).map(|key| [200, key]);
        let (mut fires, mut asked) = (BTreeMap::<u64, usize>::new(), 0);
        for question in first.chain(stopped).chain(moved) {
            let [after, key] = question;
            client.send(&question).expect("the server's port is open");
            let was_armed = usize::from(receive_bytes(&client)[0]);
            let times = fires.entry(key.into()).or_default();
            // On a busy host the timer may fire before the test stops it.
            *times = *times + usize::from(after > 0) - was_armed;
            asked += 1;
        }
        let fired = || {
            let mut fired = service.fired.lock().expect("no panic").clone();
            fired.sort_unstable();
            fired
        };
        let expected: Vec<_> = fires.iter().flat_map(|(key, times)| vec![*key; *times]).collect();
        await_until(|| fired().len() >= expected.len(), &format!("{policy}: {expected:?}"));
        ask_from(&client, [255, 99]);
        asked += 1;
        assert_eq!(fired(), expected, "{policy}");
        let report = server.stop();
        let fates = report.totals.fates;
        assert_eq!((fates.answered, fates.in_flight, report.packets_away), (asked, 0, 0), "{policy}: {fates:?}");
        assert_eq!(fates.received, fates.answered + fates.handled, "{policy}: {fates:?}");
        // Keys of one shard that are due at the same time are one event.
        let events = report.totals.counts.counted.shard_events[0];
        assert!(events == fates.handled && events <= expected.len() as u64, "{policy}: {events} of {fates:?}");
    }
}

/// The slice of the first level. While others on this host interrupt a brief request, its service
/// time goes on. It must not reach the level of the long one.
const FIRST_SLICE: Nanos = Nanos::from_millis(100);

/// A request 'l' runs until a timer and a later sleep have both ended, or the test gives up.
#[derive(Clone, Default)]
struct GivesWay {
    runs: Arc<AtomicBool>,
    /// How many of the two have ended.
    ended: Arc<AtomicUsize>,
}

impl Service for GivesWay {
    type Ticket = ();
    type Shard = ();
    type Message = std::convert::Infallible;

    const SHARDS: usize = 3;

    fn shard(&self, _: usize) {}

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::new(()).shard(arrival.bytes()[0].into()))
    }

    async fn handle(&self, (): &mut (), event: Event<'_>, out: &mut Out<'_>) {
        let soon = Nanos::from_millis(5);
        match event {
            Event::Datagram(request) if request.bytes()[0] == b'l' => {
                let (began, give_up) = (clock::now(), clock::now().plus(GIVE_UP_AFTER));
                while self.ended.load(Ordering::SeqCst) < 2 && clock::now() < give_up {
                    checkpoint().await;
                    self.runs.store(clock::now() > began.plus(FIRST_SLICE).plus(soon), Ordering::SeqCst);
                }
                let ended = self.ended.load(Ordering::SeqCst);
                write!(out.reply(), "{ended}").expect("there is room");
            }
            Event::Datagram(request) if request.bytes()[0] == b't' => {
                out.at(0, clock::instant(clock::now().plus(soon))).expect("there is room");
            }
            Event::Datagram(_) => {
                sleep(soon).await;
                self.ended.fetch_add(1, Ordering::SeqCst);
            }
            _ => _ = self.ended.fetch_add(1, Ordering::SeqCst),
        }
    }
}

// If no worker is free, does a long request yield to due timers and to requests that have finished
// waiting? It has passed its last level, so it has no other reason to yield.
#[test]
fn a_long_request_gives_way_to_what_became_ready() {
    let service = GivesWay::default();
    let settings = [("policy", "levels"), ("workers", "1"), ("slice", "100ms")];
    let server = Running::on(bound(&settings), service.clone());
    let client = client(&server);
    client.send(b"l....").expect("the server's port is open");
    await_until(|| service.runs.load(Ordering::SeqCst), "it has passed its last level");
    for other in [b"t....", b"s...."] {
        client.send(other).expect("the server's port is open");
    }
    assert_eq!(receive_bytes(&client), b"2");
}

/// A request is its shard, and 'h' to stay until `may_end`.
#[derive(Clone, Default)]
struct Held {
    may_end: Arc<AtomicBool>,
}

impl Service for Held {
    type Ticket = ();
    type Shard = ();
    type Message = std::convert::Infallible;

    const SHARDS: usize = 8;

    fn shard(&self, _: usize) {}

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted, Rejected> {
        Ok(Admitted::new(()).shard(arrival.bytes()[0].into()))
    }

    async fn handle(&self, (): &mut (), event: Event<'_>, out: &mut Out<'_>) {
        let Event::Datagram(request) = event else { return };
        while request.bytes()[1] == b'h' && !self.may_end.load(Ordering::SeqCst) {
            sleep(Nanos::from_millis(1)).await;
        }
        out.reply().put(request.bytes()).expect("as long as the request");
    }
}

// Does `/slow` name the shard that held a request up, and for how long, meanwhile and afterwards?
#[test]
fn a_shard_that_holds_an_event_up_is_named() {
    let service = Held::default();
    let server = Running::on(bound(&sized("auto", 2)), service.clone());
    let socket = client(&server);
    let culprits = |list: &str| -> Vec<(u64, f64)> {
        let report: Value = serde_json::from_str(&page(server.admin, "/slow")).expect("JSON");
        let culprits = report[list].as_array().expect("a list").iter().map(|entry| &entry["culprit"]);
        let named = culprits.filter_map(|culprit| Some((culprit["shard"].as_u64()?, culprit["held_us"].as_f64()?)));
        named.collect()
    };
    [[5, b'h'], [5, b'w']].iter().for_each(|request| assert!(socket.send(request).is_ok()));
    await_until(|| !culprits("waiting").is_empty(), "the shard is named");
    // On a busy host both have waited for a worker too: the wait for the shard must be the longest.
    let (_, before) = culprits("waiting")[0];
    let is_long = |list| matches!(culprits(list)[..], [(5, held)] if held > 2.0 * before);
    await_until(|| matches!(culprits("waiting")[..], [(5, held)] if held > 4.0 * before), "it waits on");
    service.may_end.store(true, Ordering::SeqCst);
    await_until(|| is_long("slowest"), "and afterwards");
    server.ends_as(fates! { received: 2, answered: 2 }, "auto");
}
