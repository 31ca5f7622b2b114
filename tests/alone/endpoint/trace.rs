//! Does a trace show what ran and who waited, on /trace and in files? Method: a light request waits for a planted one, or for a
//! heavy one; the trace is decoded.

use super::slow::{Planted, before_others, plant};
use crate::support::prelude::*;
use nix::sys::signal::Signal;
use prost::Message as _;
use std::fs::{self, File};

/// What a trace has: see `perfetto_trace.proto`.
#[derive(Clone, PartialEq, prost::Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<Packet>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Packet {
    #[prost(uint64, tag = "8")]
    timestamp: u64,
    #[prost(message, optional, tag = "11")]
    event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    annotations: Vec<DebugAnnotation>,
    #[prost(int32, tag = "9")]
    kind: i32,
    #[prost(uint64, tag = "11")]
    track: u64,
    #[prost(string, tag = "23")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DebugAnnotation {
    #[prost(string, tag = "6")]
    value: String,
    #[prost(string, tag = "10")]
    name: String,
}

// Does a trace show what the workers ran, and the delayed request with its culprit? Does each span end?
#[test]
fn a_trace_has_what_ran_and_who_waited() {
    let _alone = alone();
    before_others();
    let server = Running::start(&[("policy", "isolated"), ("workers", "1")], Planted);
    let client = client(&server);
    plant(server.admin, &client, &[[1, b'-', 0, 90]], [0, b'-', 0, 0], 15);
    let trace =
        Trace::decode(&*exchange(server.admin, "GET /trace?seconds=60", "").expect("an answer").1).expect("a trace");
    let uuid = |name: &str| {
        let track =
            trace.packets.iter().filter_map(|packet| packet.track.as_ref()).find(|track| track.name.contains(name));
        track.unwrap_or_else(|| panic!("no track {name} in {trace:?}")).uuid
    };
    let spans = |track: u64| {
        let events = trace.packets.iter().filter_map(|packet| Some((packet.timestamp, packet.event.as_ref()?)));
        let events: Vec<_> = events.filter(|(_, event)| event.track == track).collect();
        assert!(events.iter().map(|(_, event)| event.kind).eq([1, 2].into_iter().cycle().take(events.len())));
        let span = |pair: &[(u64, &TrackEvent)]| (pair[1].0 - pair[0].0, pair[0].1.clone());
        events.chunks(2).map(span).collect::<Vec<_>>()
    };
    let heavy = spans(uuid("worker 0")).into_iter().find(|(_, event)| event.name.contains("(class 1)"));
    assert!(heavy.is_some_and(|(lasted, _)| lasted >= 90_000_000), "{trace:?}");
    let (waited, event) = spans(uuid("delayed: ")).remove(0);
    let culprit = event.annotations.iter().find(|annotation| annotation.name == "waited for").expect("a culprit");
    assert!(waited >= 20_000_000 && event.name.contains("(class 0)"), "{event:?} for {waited} ns");
    assert!(culprit.value.contains("(class 1)") && culprit.value.contains("without a checkpoint"), "{culprit:?}");
}

// Is there a file with the culprit once a request is delayed, and one for each SIGUSR1, of which eight stay? Does the log name
// each?
#[test]
fn a_delay_or_a_signal_leaves_a_file() {
    let _alone = alone();
    let place = tempfile::tempdir().expect("a folder");
    let (traces, log) = (place.path().join("traces"), place.path().join("log"));
    let mut command = serve(&["--policy", "isolated", "--workers", "1", "--log-delays", "10ms", "--trace-dir"]);
    command.arg(&traces);
    let server = Forebay::spawn_to(&mut command, File::create(&log).expect("a file").into());
    let client = Client::new(server.udp);
    let written = || fs::read_to_string(&log).expect("a log").matches("a trace was written").count();
    (0..2).for_each(|id| client.request(id, Nanos::from_millis(40), b""));
    await_until(|| written() == 1, "no trace is written");
    let first = Trace::decode(&*fs::read(traces.join("forebay-0.pftrace")).expect("a file")).expect("a trace");
    let events = first.packets.iter().filter_map(|packet| packet.event.as_ref());
    let mut reasons = events.flat_map(|event| &event.annotations).filter(|annotation| annotation.name == "waited for");
    assert!(reasons.any(|reason| reason.value.contains("worker 0 ran request")), "{first:?}");
    for count in 2..=10 {
        server.signal(Signal::SIGUSR1);
        await_until(|| written() >= count, "no trace is written");
        assert_eq!(written(), count, "one for each signal");
    }
    assert_eq!(fs::read_dir(&traces).expect("a folder").count(), 8);
    assert!(fs::read_to_string(&log).expect("a log").contains("traces/forebay-7.pftrace"));
}
