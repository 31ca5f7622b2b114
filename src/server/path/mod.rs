//! A datagram's way through a worker. README.md lists the files that it passes, and the types to know.

pub(crate) mod admit;
mod between;
mod charge;
pub(crate) mod common;
mod end;
pub(crate) mod execute;
pub(crate) mod flows;
pub(crate) mod packet;
pub(crate) mod receive;
pub(crate) mod reply;
mod run;
pub(crate) mod slot;
pub(crate) mod transport;
pub(crate) mod wait_slots;
