//! Captures: the payloads of UDP datagrams as they were captured. Replies repeat nothing that is
//! known, so any datagram answers.

use super::capture::{Capture, Datagram};
use super::{Chosen, Common, Profile, RecordedRequests, Told};
use crate::lab::workload::{Arrival, Workload};
use forebay::time::Nanos;
use std::collections::HashMap;
use std::sync::Arc;

/// The payloads, in the order of their times.
#[derive(Debug)]
struct CapturePayloads(Vec<Box<[u8]>>);

/// The datagrams of the capture `text`, `PATH[:port=N]`, over and over. Their times can be
/// replayed, with a flow for each address and port that they came from.
pub(super) fn chosen(text: &str) -> Result<Chosen, String> {
    let Capture { datagrams, told, is_timed } =
        Capture::read(text).map_err(|problem| format!("file {text}: {problem}"))?;
    let mut flows = HashMap::new();
    let request = |one: &Datagram| {
        let next = flows.len();
        // Beyond the numbers that there are, sources share flows.
        let flow = *flows.entry(one.source).or_insert(next) as u16;
        Arrival { at: one.at, cost: Nanos::ZERO, flow, class: 0 }
    };
    let requests = datagrams.iter().map(request).collect();
    let recorded = is_timed.then(|| Arc::new(RecordedRequests { requests, sources: flows.len() }));
    let payloads = datagrams.into_iter().map(|datagram| datagram.payload).collect();
    let requests = Workload::without_costs(told, &[1.0]);
    Ok(Chosen { recorded, ..Chosen::new(CapturePayloads(payloads), requests) })
}

impl Profile for CapturePayloads {
    fn protocol(&self) -> &'static str {
        "capture's"
    }

    fn write(&self, _: Common, id: u64, _: u8, _: &Arrival, into: &mut Vec<u8>) {
        into.extend(&self.0[(id % self.0.len() as u64) as usize]);
    }

    fn id_bits(&self) -> u32 {
        0
    }

    fn read(&self, _: Common, _: &[u8]) -> Option<Told> {
        Some(Told::answer(0, 0))
    }
}
