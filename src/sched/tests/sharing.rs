//! Is no victim always asked first, and does what overloaded workers give away stay little?

use super::*;
use crate::sched::sharing::shards;

// Is each victim the first one as often as any other?
#[test]
fn no_victim_is_always_first_or_never() {
    let mut local = Local::new(2, policies()[2].topology());
    let mut first = [0; 5];
    for _ in 0..5_000 {
        let steps = search_of(&policies()[2], &mut local);
        let victims: Vec<WorkerId> =
            steps.iter().filter_map(|step| if let Step::Steal(victim) = step { Some(*victim) } else { None }).collect();
        assert_eq!(victims.len(), 4, "each of the others once");
        first[victims[0]] += 1;
    }
    assert_eq!(first, [1_250, 1_250, 0, 1_250, 1_250]);
}

/// Workers under `shed` take their turns in any order, and their sockets are never empty. For each worker the queue holds at
/// most what is too much of one batch. So it is never full, and no request is lost for want of room in it.
#[test]
fn what_is_shed_stays_little_because_it_is_taken_back_before_more_is_received() {
    const BATCH: usize = 32;
    let policy = &policies()[6];
    let kept = (0..BATCH)
        .take_while(|backlog| policy.place(0, Event::Arrived { class: None, backlog: *backlog }) == Place::Own);
    let surplus = BATCH - kept.count();
    for seed in 0..20 {
        let (mut deques, mut queue, mut longest) = ([0_usize; 5], 0_usize, 0);
        let mut locals: Vec<Local> = (0..5).map(|worker| Local::new(worker, policy.topology())).collect();
        for turn in 0..20_000 {
            let worker = shards(seed, turn)[0] % 5;
            let local = &mut locals[worker];
            let mut walk = policy.search(local);
            while let Some(step) = walk.next(local, NOW, &Fixed) {
                let found = match step {
                    Step::Own => take(&mut deques[worker]),
                    Step::Queue(0) => take(&mut queue),
                    Step::Receive(_) => {
                        for _ in 0..BATCH {
                            let event = Event::Arrived { class: None, backlog: deques[worker] };
                            *(if policy.place(0, event) == Place::Own { &mut deques[worker] } else { &mut queue }) += 1;
                        }
                        true
                    }
                    _ => panic!("with sockets that are never empty no search comes to {step:?}"),
                };
                if found {
                    break;
                }
            }
            longest = longest.max(queue);
        }
        assert!(longest > 0 && longest <= 5 * surplus, "seed {seed}: {longest} waited");
    }
}

/// Takes one job, if there is one.
fn take(count: &mut usize) -> bool {
    let found = *count > 0;
    *count -= usize::from(found);
    found
}
