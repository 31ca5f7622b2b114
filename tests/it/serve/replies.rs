//! Does a finished reply never wait for a long request behind it, or for a request that never
//! comes? Method: light requests, and a long one behind them, reach the only worker together; then
//! backlogs of short requests.

use forebay::inside::net::{BATCH, SEND_BATCH_MAX};
use std::sync::Barrier;
use support::prelude::*;

/// So many that a server begins to expect only light requests.
const LIGHT: usize = 1_500;

#[test]
fn a_finished_reply_waits_for_nobody() {
    let (server, script) = run_scripted(&[("policy", "isolated"), ("workers", "1")]);
    let client = Client::new(server.udp);
    // Several trials, because the burst may reach the worker in parts.
    for trial in 0..3 {
        for _ in 0..LIGHT {
            client.ask(&Header::request(0, 0, Nanos::ZERO), b"-");
        }
        (1..=20).for_each(|id| client.request(id, Nanos::ZERO, b"-"));
        client.request(21, Nanos::ZERO, &[Act::Long as u8]);
        (1..=20).for_each(|id| assert_eq!(client.receive().header.id, id));
        let long = client.receive_within(Nanos::ZERO);
        assert_eq!(long, None, "trial {trial}: light replies came with that of the long request");
        await_until(|| script.blockers().len() == trial + 1, "the long request did not begin");
        script.release();
        assert_eq!(client.receive().header.id, 21);
    }
}

/// Echoes. A request of [`GATE`] waits at a barrier for the test, twice: at its beginning and at
/// its end. A request of [`SILENT`] is not answered.
struct Gated(Arc<Barrier>);

const GATE: &[u8] = b"gate";
const SILENT: &[u8] = b"silent";

impl Handler for Gated {
    type Ticket = ();

    async fn handle(&self, request: Request<'_>, reply: &mut Reply<'_>) {
        if request.bytes() == GATE {
            self.0.wait();
            self.0.wait();
        }
        if request.bytes() != SILENT {
            reply.put(request.bytes()).expect("as long as the request");
        }
    }
}

#[test]
fn a_backlog_of_brief_requests_is_answered_to_the_last_one() {
    let gate = Arc::new(Barrier::new(2));
    let server = Running::start(&[("policy", "steal"), ("workers", "1")], Gated(Arc::clone(&gate)));
    let clients: Vec<UdpSocket> = (0..5).map(|_| client(&server)).collect();
    let near = |batch: usize| [batch - 1, batch, batch + 1, 2 * batch];
    for backlog in [1].into_iter().chain(near(BATCH)).chain(near(SEND_BATCH_MAX)) {
        clients[0].send(GATE).expect("sent");
        gate.wait();
        for number in 0..backlog {
            clients[number % clients.len()].send(&number.to_le_bytes()).expect("sent");
        }
        gate.wait();
        let mut buffer = [0; 16];
        assert_eq!(clients[0].recv(&mut buffer).expect("an answer"), GATE.len());
        for number in 0..backlog {
            let length = clients[number % clients.len()].recv(&mut buffer).expect("an answer");
            assert_eq!(buffer[..length], number.to_le_bytes(), "of {backlog}, in the order of each client");
        }
    }
}

#[test]
fn a_reply_waits_for_few_batches_that_need_none() {
    let gate = Arc::new(Barrier::new(2));
    let server = Running::start(&[("policy", "steal"), ("workers", "1")], Gated(Arc::clone(&gate)));
    let client = client(&server);
    client.send(GATE).expect("sent");
    gate.wait();
    client.send(b"me").expect("sent");
    (0..SEND_BATCH_MAX + BATCH).for_each(|_| assert_eq!(client.send(SILENT).expect("sent"), SILENT.len()));
    client.send(GATE).expect("sent");
    gate.wait();
    // The worker reaches the second barrier, and waits there until the replies have arrived.
    gate.wait();
    let mut buffer = [0; 16];
    let mut reply = || client.recv(&mut buffer).map(|length| buffer[..length].to_vec());
    let replies = [reply(), reply()];
    // Before a check can fail, because otherwise the server could not stop.
    gate.wait();
    assert_eq!(replies.map(|reply| reply.expect("an answer")), [GATE, b"me"]);
    assert_eq!(reply().expect("an answer"), GATE);
}
