use super::*;
use crate::cpus::allowed;
use nix::sched::CpuSet;
use rustix::process::getpriority_process;
use std::sync::Arc;
use std::sync::mpsc::channel;

// Is there a helper for each CPU, even if a thread bound to one CPU starts them? Does the spare
// helper take what waits while all others are busy? Are their priorities right, and is work given
// back once too much waits? Method: all helpers are blocked, then the queue is filled.
#[test]
fn helpers_are_nice_and_have_a_bound() {
    let (of_process, mut one) = (cpus(), CpuSet::new());
    one.set(allowed()[0]).expect("a CPU");
    sched_setaffinity(Pid::from_raw(0), &one).expect("it may use that CPU");
    let helpers = *HELPERS.get_or_init(start);
    assert_eq!(helpers, of_process);
    let ((begun, begins), (release, held)) = (channel(), channel::<()>());
    let held = Arc::new(Mutex::new(held));
    for _ in 0..=helpers {
        let (begun, held) = (begun.clone(), held.clone());
        let work = move || {
            begun.send(getpriority_process(None).expect("it has one")).expect("the test waits");
            let _ = lock(&held).recv();
        };
        assert!(help(work, |_| {}).is_ok());
    }
    let mut nices: Vec<i32> = begins.iter().take(helpers + 1).collect();
    nices.sort_unstable();
    assert_eq!((nices[0], &nices[1..]), (priority::NICE_OF_SPARE, &vec![priority::NICE; helpers][..]));
    let (done, ended) = channel();
    let fit = (0..=helpers * waiting::WAITING_PER_HELPER)
        .take_while(|number| {
            let (number, done) = (*number, done.clone());
            help(move || done.send(number), |_| {}).is_ok()
        })
        .count();
    assert!(fit > 0 && fit <= helpers * waiting::WAITING_PER_HELPER, "{fit}");
    (0..=helpers).for_each(|_| release.send(()).expect("a helper waits"));
    assert_eq!(ended.iter().take(fit).count(), fit);
}

// Does the spare helper leave young work to the others, and take what has waited long? Does it
// stop to look once nothing waits?
#[test]
fn the_spare_helper_takes_what_is_late() {
    let (mut queue, came_at) = (Queue { waiting: Waiting::new(), is_watched: true }, Nanos::from_secs(1));
    queue.waiting.put(Box::new(|| {}), came_at);
    let (work, sleeps) = queue.take_late(came_at.plus(Nanos::from_millis(5)));
    assert!(work.is_none() && queue.is_watched);
    assert_eq!(sleeps, SPARED.minus(Nanos::from_millis(5)));
    assert!(queue.take_late(came_at.plus(SPARED)).0.is_some() && queue.is_watched);
    assert!(queue.take_late(came_at.plus(SPARED)).0.is_none() && !queue.is_watched);
}
