//! A datagram's way through a worker.

pub(crate) mod admit;
pub(crate) mod execute;
pub(crate) mod packet;
pub(crate) mod receive;
pub(crate) mod reply;
pub(crate) mod slot;
pub(crate) mod wait_slots;
