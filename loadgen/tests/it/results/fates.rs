//! Does every request end in exactly one fate, whatever the server does? Method: a server that
//! treats requests in turn in each possible way, and an admin endpoint that claims kernel drops.

use crate::faulty::*;

fn reply(status: Status, after_ms: u64) -> Answers {
    vec![(status, Nanos::from_millis(after_ms))]
}

/// By the request's number, so that the expected count of each fate follows from the schedule.
fn misbehave(id: u64) -> Answers {
    match id % 10 {
        0 => Vec::new(),
        1 => reply(Status::Refused, 0),
        2 => reply(Status::ShedQueueFull, 0),
        3 => reply(Status::ShedDraining, 0),
        4 => reply(Status::Failed, 0),
        5 => reply(Status::Stalled, 0),
        6 => reply(Status::Ok, 600),
        7 => [answer(), answer()].concat(),
        _ => answer(),
    }
}

#[test]
fn fates_sum_to_sent_and_each_reply_has_its_own() {
    let server = Server::start(|request| misbehave(request.id));
    let (report, heard, _) =
        run(server, "--rate 1000 --duration 1s --warmup 0s --timeout 500ms --percentile 99 --deadline 5ms");
    let sent = number(&report, "/sent") as u64;
    assert_eq!(heard.len() as u64, sent);
    assert!(heard.iter().all(|request| request.id < sent && request.deadline_us == 5_000), "numbers have no gap");
    let expected = |residues: &[u64]| (0..sent).filter(|id| residues.contains(&(id % 10))).count() as f64;
    let fate = |name: &str| number(&report, &format!("/fates/{name}"));
    for (name, residues) in [("answered", &[7, 8, 9][..]), ("refused", &[1]), ("shed", &[2, 3]), ("failed", &[4, 5])] {
        assert_eq!(fate(name), expected(residues), "{name}");
    }
    assert_eq!(number(&report, "/duplicates"), expected(&[7]));
    // The last late replies come after the wait at the end, and count as lost.
    assert_eq!(fate("late") + fate("lost"), expected(&[0, 6]));
    assert!(fate("late") > 0.0 && fate("lost") >= expected(&[0]), "{}", report["fates"]);
    let fates = report["fates"].as_object().expect("an object");
    let names: Vec<&str> = fates.keys().map(String::as_str).collect();
    assert_eq!(names, ["answered", "failed", "kernel_dropped", "late", "lost", "refused", "shed", "unjudged"]);
    assert_eq!(fates.values().map(|count| count.as_u64().expect("a count")).sum::<u64>(), sent);
    assert_eq!(fate("kernel_dropped"), 0.0, "nobody told of kernel drops");
}

// Never more than what was not answered, and unknown, never 0, wherever it stops telling.
#[test]
fn kernel_drops_are_the_growth_of_the_servers_counter() {
    for (told, dropped, lost) in [
        ([Some(100), Some(105)], Some(5), 3),
        ([Some(0), Some(1_000)], Some(8), 0),
        ([None, None], None, 8),
        ([Some(100), None], None, 8),
        ([None, Some(105)], None, 8),
    ] {
        let admin = admin_endpoint(told);
        let server = Server::start(|request| if request.id < 8 { Vec::new() } else { answer() });
        let flags = format!("--rate 500 --duration 1s --warmup 0s --timeout 300ms --percentile 99 --admin {admin}");
        let (report, _, output) = run(server, &flags);
        let (fates, said) = (&report["fates"], String::from_utf8_lossy(&output.stdout));
        assert_eq!((fates["kernel_dropped"].as_u64(), fates["lost"].as_u64()), (dropped, Some(lost)), "{told:?}");
        assert_eq!(said.contains("kernel dropped is unknown"), dropped.is_none(), "{told:?}: {said}");
        assert_eq!((report["policy"].as_str(), number(&report, "/workers")), (Some("steal"), 2.0));
    }
}

/// Tells the first count to the first two requests, before the run, and the second after it.
fn admin_endpoint(kernel_dropped: [Option<u64>; 2]) -> String {
    let [before, after] = kernel_dropped;
    admin::endpoint(move |nth| {
        // More than are sent, so that the generator does not wait for the rest.
        let (received, dropped) = if nth < 2 { (1, before) } else { (100_000, after) };
        admin::body("steal", received, dropped).to_string()
    })
}
