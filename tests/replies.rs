//! Does a finished reply ever wait for a long request that came after it?
//! Method: after many light requests in a row, a burst of light ones and a long one behind them reach the only worker
//! together. All light replies must be here while the long one is still at work.

mod support;

use forebay::time::Nanos;
use forebay::wire::Header;
use support::Running;
use support::client::Client;
use support::scripted::{Act, scripted};

/// Enough for a server to come to believe that all requests are light.
const LIGHT: usize = 1_500;
/// Long enough for a client on a busy machine to see that it is not over.
const LONG: Nanos = Nanos::from_secs(1);

#[test]
fn a_finished_reply_waits_for_nobody() {
    let (handler, _) = scripted();
    let server = Running::start(&[("policy", "isolated"), ("workers", "1")], handler);
    let client = Client::new(server.udp);
    // More than once, since the burst may reach the worker in pieces.
    for trial in 0..3 {
        for _ in 0..LIGHT {
            client.ask(&Header::request(0, 0, Nanos::ZERO), b"-");
        }
        (1..=20).for_each(|id| client.request(id, Nanos::ZERO, b"-"));
        client.request(21, LONG, &[Act::Block as u8]);
        (1..=20).for_each(|id| assert_eq!(client.receive().header.id, id));
        let long = client.receive_within(Nanos::ZERO);
        assert_eq!(long, None, "trial {trial}: light replies came with that of the long request");
        assert_eq!(client.receive().header.id, 21);
    }
}
