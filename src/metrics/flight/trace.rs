//! `GET /trace`: what the recorder holds, in the form that Perfetto opens (`perfetto_trace.proto`; docs, "Track events").
//! A track for each worker shows what it ran. The slices of one request are joined by a flow. Each of the slowest requests has
//! a track of its own, from its arrival to its end, with its culprit.

use super::blame::Culprit;
use super::{Delayed, Kind, Slice};
use crate::time::Nanos;
use prost::Message;

const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;
/// All packets are of one sequence, which holds from the first one on (`SEQ_INCREMENTAL_STATE_CLEARED`).
const SEQUENCE: u32 = 1;
const CLEARED: u32 = 1;
/// Tracks of workers are numbered from 1, those of requests follow.
const REQUESTS: u64 = 1 << 32;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint64, tag = "8")]
    timestamp: u64,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<Event>,
    #[prost(uint32, tag = "13")]
    sequence_flags: u32,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<Track>,
}

#[derive(Clone, PartialEq, Message)]
struct Track {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(string, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct Event {
    #[prost(message, repeated, tag = "4")]
    debug_annotations: Vec<Annotation>,
    #[prost(int32, tag = "9")]
    r#type: i32,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(string, tag = "23")]
    name: String,
    #[prost(fixed64, repeated, packed = "false", tag = "47")]
    flow_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
struct Annotation {
    #[prost(string, tag = "10")]
    name: String,
    #[prost(string, tag = "6")]
    string_value: String,
}

impl Trace {
    /// The track of this number.
    fn track(&mut self, uuid: u64, name: String) {
        let track = Some(Track { uuid, name });
        self.packet.push(Packet { track_descriptor: track, ..packet(Nanos::ZERO) });
    }

    /// A span on a track.
    fn span(&mut self, track_uuid: u64, [from, until]: [Nanos; 2], event: Event) {
        let event = Event { r#type: SLICE_BEGIN, track_uuid, ..event };
        self.packet.push(Packet { track_event: Some(event), ..packet(from) });
        let end = Event { r#type: SLICE_END, track_uuid, ..Event::default() };
        self.packet.push(Packet { track_event: Some(end), ..packet(until) });
    }

    /// What `worker` ran, oldest first.
    pub(super) fn worker<'s>(&mut self, worker: usize, slices: impl Iterator<Item = &'s Slice>) {
        let track = worker as u64 + 1;
        self.track(track, format!("worker {worker}"));
        for slice in slices {
            let id = slice.about.id;
            let (name, flow_ids) = match slice.kind {
                Kind::Short => (format!("{id} short"), Vec::new()),
                Kind::Child => ("part or task".to_owned(), Vec::new()),
                Kind::NoPacket => ("no packet".to_owned(), Vec::new()),
                Kind::Unchecked | Kind::Checked | Kind::Running => {
                    (format!("request {id} (class {})", slice.about.class), vec![id])
                }
            };
            self.span(track, [slice.began, slice.end()], Event { name, flow_ids, ..Event::default() });
        }
    }

    /// A delayed request, and what it waited for.
    pub(super) fn delayed(&mut self, late: &Delayed, culprit: Option<&Culprit>) {
        let (track, name) = (REQUESTS + late.about.id, format!("request {}", late.about.id));
        self.track(track, format!("delayed: {name}"));
        let texts = [
            ("waited for", culprit.map_or("unknown".to_owned(), Culprit::text)),
            ("delay", late.delay().to_string()),
            ("service", late.service.to_string()),
        ];
        let annotation = |(name, string_value): (&str, String)| Annotation { name: name.to_owned(), string_value };
        let debug_annotations = texts.map(annotation).into();
        let name = format!("{name} (class {})", late.about.class);
        self.span(track, [late.about.came_at, late.ended_at], Event { debug_annotations, name, ..Event::default() });
    }
}

fn packet(at: Nanos) -> Packet {
    Packet { timestamp: at.get(), trusted_packet_sequence_id: SEQUENCE, sequence_flags: CLEARED, ..Packet::default() }
}
