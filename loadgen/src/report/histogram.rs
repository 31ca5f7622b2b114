//! Latencies as histograms of HdrHistogram. Their counts add up, so histograms of several runs
//! merge exactly.

use crate::lab::stats::Block;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Significant digits: a time is at most 0.1 % too high.
const DIGITS: u8 = 3;

/// The latencies of the requests of a class.
#[derive(Clone, Debug, JsonSchema, Serialize, Deserialize)]
pub struct Packed {
    /// The number of requests. Those that are not in the histogram were not answered in time.
    pub(crate) sent: u64,
    /// Nanoseconds in the encoding V2 of HdrHistogram, compressed, as base64.
    hdr: String,
}

impl Packed {
    pub(crate) fn of(latencies_us: &[f64]) -> Packed {
        Packed::whole(latencies_us.len() as u64, &histogram(latencies_us))
    }

    /// `sent` requests, of which those in `answered` were answered in time.
    pub(crate) fn whole(sent: u64, answered: &Histogram<u64>) -> Packed {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(answered, &mut bytes).expect("a vector takes everything");
        Packed { sent, hdr: BASE64_STANDARD.encode(bytes) }
    }

    /// Both together; `None` if one of them is none, or they are too many.
    pub(crate) fn plus(self, other: &Packed) -> Option<Packed> {
        let mut answered = self.answered()?;
        answered.auto(true);
        answered.add(other.answered()?).expect("it grows with its values");
        Some(Packed::whole(self.sent.checked_add(other.sent)?, &answered))
    }

    /// The percentiles over everything sent, in microseconds.
    pub(crate) fn block(&self) -> Option<Block> {
        let answered = self.answered()?;
        let at = |rank: u64| match rank as f64 / answered.len() as f64 {
            share if share <= 1.0 => answered.value_at_quantile(share) as f64 / 1e3,
            _ => f64::INFINITY,
        };
        Some(Block::from_ranks(answered.len(), self.sent, at))
    }

    /// The latencies; `None` if the text is no histogram, or one of more than was sent.
    pub(crate) fn answered(&self) -> Option<Histogram<u64>> {
        let bytes = BASE64_STANDARD.decode(&self.hdr).ok()?;
        let histogram = Deserializer::new().deserialize(&mut &*bytes).ok()?;
        Some(histogram).filter(|histogram: &Histogram<u64>| histogram.len() <= self.sent)
    }
}

/// The finite ones of `latencies_us` in nanoseconds.
pub(crate) fn histogram(latencies_us: &[f64]) -> Histogram<u64> {
    let mut histogram = Histogram::new(DIGITS).expect("a precision that there is");
    for us in latencies_us.iter().filter(|us| us.is_finite()) {
        histogram.record((us * 1e3).round() as u64).expect("it grows with its values");
    }
    histogram
}
