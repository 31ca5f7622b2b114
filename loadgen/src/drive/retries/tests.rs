use super::*;

const MS: Nanos = Nanos::from_millis(1);
const START: Nanos = Nanos::from_secs(100);
const TIMEOUT: Nanos = Nanos::from_millis(100);
const BACKOFF: Nanos = Nanos::from_millis(20);

fn schedule(requests: u64) -> Vec<Request> {
    (0..requests).map(|at| Request { at: MS.times(at), cost: MS, flow: 0, class: 0 }).collect()
}

fn clients(schedule: &[Request], max: u8) -> Clients<'_> {
    Clients::new(schedule, Retrying { max, backoff: BACKOFF }, 1, START, Nanos::ZERO, TIMEOUT)
}

/// The next retry, and when it is due: all clients time out what they must on the way.
fn next(clients: &mut Clients<'_>, sent: u64) -> Option<(Nanos, Retry)> {
    loop {
        let at = clients.next_at(sent)?;
        clients.time_out(at, sent);
        if let Some(retry) = clients.next_retry(at) {
            return Some((at.minus(START), retry));
        }
    }
}

/// Whether the pause from `from` to `at` is one before a retry whose number is `nth`, from 1 on.
fn is_pause(from: Nanos, at: Nanos, nth: u32) -> bool {
    let (pause, mean) = (at.minus(from), BACKOFF.times(1 << (nth - 1)));
    pause >= Nanos::new(mean.get() / 2) && pause < mean.plus(Nanos::new(mean.get() / 2))
}

// Is a request that nothing answers sent again after its timeout and a pause that doubles, and
// given up after the last?
#[test]
fn silence_is_timed_out_and_tried_again() {
    let schedule = schedule(1);
    let mut clients = clients(&schedule, 2);
    assert_eq!(clients.next_at(0), None, "what has not been sent has no timeout");
    let (first, retry) = next(&mut clients, 1).expect("a retry");
    assert!(retry == Retry { id: 0, attempt: 1 } && is_pause(TIMEOUT, first, 1), "{first}");
    let (second, retry) = next(&mut clients, 1).expect("a retry");
    assert!(retry == Retry { id: 0, attempt: 2 } && is_pause(first.plus(TIMEOUT), second, 2), "{second}");
    assert_eq!((next(&mut clients, 1), clients.over), (None, 1));
    assert_eq!(
        clients.counts(1),
        AttemptCounts { sent: 3, unanswered: 3, after_timeout: 2, ..AttemptCounts::default() }
    );
    assert_eq!(clients.lost(Nanos::MAX, 1), 1);
    // What comes now is late, and only once.
    let mut reply = |attempt| clients.on_reply(0, attempt, Status::Ok, Nanos::ZERO, Nanos::MAX);
    assert_eq!([0, 0, 1].map(&mut reply), [Heard::End { late: true }, Heard::Duplicate, Heard::Duplicate]);
    assert_eq!((clients.over, clients.counts(1).answered), (1, 2));
}

// Without retries, is a request lost once its timeout is over, unless a reply came before?
#[test]
fn silence_is_a_loss() {
    let schedule = schedule(10);
    let mut clients = clients(&schedule, 0);
    clients.on_reply(1, 0, Status::Ok, Nanos::ZERO, START.plus(MS.times(2)));
    let mut lost = |ms, sent| clients.lost(START.plus(MS.times(ms)), sent);
    assert_eq!([(99, 10), (100, 10), (101, 10), (109, 4), (109, 10)].map(|(ms, sent)| lost(ms, sent)), [0, 1, 1, 3, 9]);
}

// Is a shed request sent again after the server's hint and a pause, no later than a minute, and its
// last end its fate?
#[test]
fn hints_are_honoured_up_to_a_minute() {
    let schedule = schedule(1);
    for (hint, honoured) in [(Nanos::ZERO, Nanos::ZERO), (MS.times(250), MS.times(250)), (Nanos::MAX, HINT_MAX)] {
        let mut clients = clients(&schedule, 1);
        let at = START.plus(MS);
        assert_eq!(clients.on_reply(0, 0, Status::ShedWaited, hint, at), Heard::Attempt);
        let (due, retry) = next(&mut clients, 1).expect("a retry");
        assert!(retry.attempt == 1 && is_pause(MS.plus(honoured), due, 1), "{due} with a hint of {hint}");
        assert_eq!(clients.on_reply(0, 1, Status::ShedWaited, hint, START.plus(due)), Heard::End { late: false });
        let counts = AttemptCounts { sent: 2, shed: 2, after_shed: 1, ..AttemptCounts::default() };
        assert_eq!((clients.counts(1), clients.over), (counts, 1));
    }
}

// Does an answer to an earlier attempt end the request, whether the next is waited for or not yet
// sent? Does a shed one not?
#[test]
fn any_attempt_may_be_answered() {
    let schedule = schedule(1);
    for retried in [false, true] {
        let mut clients = clients(&schedule, 3);
        clients.time_out(START.plus(TIMEOUT), 1);
        let sent = usize::from(retried && next(&mut clients, 1).is_some());
        assert_eq!(clients.on_reply(0, 0, Status::Ok, Nanos::ZERO, START), Heard::End { late: false });
        assert_eq!((clients.over, next(&mut clients, 1)), (1, None), "it is not sent again");
        let counts = clients.counts(1);
        assert_eq!((counts.sent, counts.answered, counts.unanswered), (1 + sent as u64, 1, sent as u64));
    }
    let mut clients = clients(&schedule, 3);
    next(&mut clients, 1).expect("a retry");
    assert_eq!(clients.on_reply(0, 0, Status::ShedWaited, Nanos::ZERO, START), Heard::Attempt);
    assert_eq!(clients.on_reply(0, 1, Status::Refused, Nanos::ZERO, START), Heard::End { late: false });
    assert_eq!(clients.counts(1).retries(), 1, "the second attempt was on its way already");
}

// Without retries: does the first reply end a request, whatever it is, and is nothing timed or
// given up?
#[test]
fn without_retries_nothing_is_timed() {
    let schedule = schedule(2);
    let mut clients = clients(&schedule, 0);
    assert_eq!(clients.next_at(2), None);
    clients.time_out(Nanos::MAX, 2);
    assert_eq!(clients.on_reply(0, 0, Status::ShedWaited, MS, Nanos::MAX), Heard::End { late: false });
    assert_eq!(clients.on_reply(1, 0, Status::Ok, MS, Nanos::MAX), Heard::End { late: false });
    assert_eq!((clients.over, clients.next_at(2), clients.next_retry(Nanos::MAX)), (2, None, None));
}

// Are only attempts at requests after the warm-up counted?
#[test]
fn the_warm_up_does_not_count() {
    let schedule = schedule(4);
    let retrying = Retrying { max: 1, backoff: BACKOFF };
    let mut clients = Clients::new(&schedule, retrying, 1, START, MS.times(3), TIMEOUT);
    clients.on_reply(0, 0, Status::ShedWaited, Nanos::ZERO, START);
    clients.on_reply(1, 0, Status::Ok, Nanos::ZERO, START);
    while next(&mut clients, 4).is_some() {}
    let counts = AttemptCounts { sent: 2, unanswered: 2, after_timeout: 1, ..AttemptCounts::default() };
    assert_eq!(clients.counts(4), counts);
}

// Does each request end exactly once, with at most 1 + N attempts, and do the counts add up,
// whatever the server does?
// Method: replies drawn at random, late, early, twice and in any order; what is due is sent at
// once.
#[test]
fn every_request_ends_once_whatever_comes_back() {
    let mut draw = SplitMix64::seed_from_u64(7);
    for max in [1, 2, RETRIES_MAX] {
        let schedule = schedule(2_000);
        let mut clients = clients(&schedule, max);
        let mut replies: BinaryHeap<Reverse<(Nanos, usize, u8, usize)>> = BinaryHeap::new();
        let (mut ends, mut sent) = (vec![0; schedule.len()], vec![0; schedule.len()]);
        let (mut told, mut duplicates, mut first) = (0, 0, 0);
        let mut answer = |replies: &mut BinaryHeap<_>, now: Nanos, id: usize, attempt: u8| {
            for _ in 0..[1, 1, 1, 0, 2][draw.next_u64() as usize % 5] {
                let status = draw.next_u64() as usize % (2 * Status::ALL.len());
                let after = MS.times(draw.next_u64() % 300);
                replies.push(Reverse((now.plus(after), id, attempt, status)));
            }
        };
        while clients.over < schedule.len() as u64 || !replies.is_empty() {
            let next_first = schedule.get(first).map_or(Nanos::MAX, |request| START.plus(request.at));
            let next_reply = replies.peek().map_or(Nanos::MAX, |Reverse((at, ..))| *at);
            let now = next_first.min(next_reply).min(clients.next_at(first as u64).unwrap_or(Nanos::MAX));
            while let Some(Reverse((_, id, attempt, status))) =
                replies.peek().copied().filter(|Reverse((at, ..))| *at <= now)
            {
                replies.pop();
                // Half of the replies say that the attempt was shed.
                let status = Status::ALL.get(status).copied().unwrap_or(Status::ShedWaited);
                told += 1;
                match clients.on_reply(id, attempt, status, Nanos::ZERO, now) {
                    Heard::End { .. } => ends[id] += 1,
                    Heard::Duplicate => duplicates += 1,
                    Heard::Attempt => {}
                }
            }
            if next_first <= now {
                answer(&mut replies, now, first, 0);
                (sent[first], first) = (1, first + 1);
            }
            clients.time_out(now, first as u64);
            while let Some(Retry { id, attempt }) = clients.next_retry(now) {
                assert_eq!(attempt, sent[id], "one after the other");
                sent[id] += 1;
                answer(&mut replies, now, id, attempt);
            }
        }
        assert!(ends.iter().all(|ends| *ends <= 1) && ends.contains(&0) && ends.contains(&1));
        assert!(sent.iter().all(|sent| (1..=max + 1).contains(sent)) && sent.contains(&(max + 1)));
        let counts = clients.counts(first as u64);
        assert_eq!(counts.sent, sent.iter().map(|sent| u64::from(*sent)).sum::<u64>());
        assert_eq!(counts.retries(), counts.sent - first as u64);
        let replied = counts.sent - counts.unanswered;
        assert!(replied <= told && duplicates > 0 && counts.shed > 0 && counts.unanswered > 0);
        assert_eq!(counts.late, 0);
    }
}

// Is a retry that the generator sends late counted as such?
#[test]
fn a_late_retry_is_counted() {
    let schedule = schedule(2);
    let mut clients = clients(&schedule, 1);
    clients.time_out(START.plus(TIMEOUT).plus(MS), 2);
    let due = [(); 2].map(|()| clients.backing_off.pop().expect("two retries").0);
    clients.backing_off.extend(due.map(Reverse));
    clients.next_retry(due[0].0.plus(SLIP_LIMIT)).expect("the sooner one");
    assert_eq!(clients.counts(2).late, 0);
    clients.next_retry(due[1].0.plus(SLIP_LIMIT).plus(Nanos::new(1))).expect("the other");
    assert_eq!(clients.counts(2).late, 1);
}

// Is the pause of an attempt the same with the same seed, different for others, and spread over its
// whole range?
#[test]
fn pauses_are_drawn_from_the_seed() {
    let retrying = Retrying { max: 2, backoff: BACKOFF };
    let pauses: Vec<Nanos> = (0..1_000).map(|id| retrying.pause(5, id, 0)).collect();
    assert_eq!(pauses, (0..1_000).map(|id| retrying.pause(5, id, 0)).collect::<Vec<_>>());
    assert_ne!(pauses, (0..1_000).map(|id| retrying.pause(6, id, 0)).collect::<Vec<_>>());
    assert_ne!(pauses[1], retrying.pause(5, 1, 1).minus(pauses[1]));
    let (least, most) = (pauses.iter().min().expect("some"), pauses.iter().max().expect("some"));
    assert!(*least < MS.times(11) && *most > MS.times(29) && pauses.iter().all(|at| is_pause(Nanos::ZERO, *at, 1)));
    let mean = pauses.iter().fold(Nanos::ZERO, |sum, pause| sum.plus(*pause)).as_secs_f64() / 1e3;
    assert!((mean / BACKOFF.as_secs_f64() - 1.0).abs() < 0.05, "{mean} s");
}
