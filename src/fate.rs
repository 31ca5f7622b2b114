//! Fates: how a datagram ended. Every received datagram has exactly one fate, or is in flight.
//!
//! ```
//! use forebay::fate::{Fate, Fates, Status};
//!
//! assert_eq!(Fate::ShedWaited.name(), "shed_waited"); // on `/latency` and `/metrics`
//! assert_eq!(Fate::ShedWaited.status(), Some(Status::ShedWaited)); // its client may be told
//! assert_eq!(Fate::Malformed.status(), None); // never answered
//!
//! let fates = Fates::default();
//! let ended: u64 = Fate::ALL.iter().map(|fate| fates.of(*fate)).sum();
//! assert_eq!(fates.received, ended + fates.in_flight);
//! ```

#[doc(inline)]
pub use forebay_base::fate::*;
