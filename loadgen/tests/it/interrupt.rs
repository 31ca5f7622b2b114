//! Does Ctrl-C end a run, with what there is, marked and divided by the time that passed?
//! Method: a server that answers everything; it interrupts the generator after some requests.

use crate::faulty::*;

#[test]
fn an_interrupted_run_is_invalid_and_divides_by_the_time_that_passed() {
    [1, 2].into_iter().for_each(interrupted);
}

fn interrupted(threads: u16) {
    let (server, address) = bound();
    server.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let generator = Generator::start(
        address,
        &format!("--rate 500 --duration 10min --warmup 0s --timeout 1min --threads {threads}"),
    );
    let answer_one = || {
        let mut buffer = [0; 2_048];
        let received = server.recv_from(&mut buffer);
        received.map(|(bytes, client)| reply(&server, &buffer[..bytes], client))
    };
    for _ in 0..1_000 {
        answer_one().expect("a request");
    }
    kill(generator.id(), Signal::SIGINT).expect("a running process");
    server.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    while answer_one().is_ok() {}
    let run = generator.finish();
    run.is_invalid("the run was interrupted");
    let [achieved, counted] = ["achieved_rps", "duration_s"].map(|key| run.report[key].as_f64().expect("a number"));
    // 1,000 Poisson arrivals have a standard deviation of 32, and a generator that is late now
    // catches up.
    assert!((400.0..600.0).contains(&achieved), "{achieved}/s over {counted} s: {}", run.report["fates"]);
    assert!((1.5..10.0).contains(&counted), "{counted} s");
    let said = String::from_utf8_lossy(&run.output.stdout).replace("\n  ", " ");
    assert!(said.contains(" instead of 600 s"), "{said}");
}
