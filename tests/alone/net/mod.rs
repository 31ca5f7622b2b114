//! Floods: what becomes of each datagram.

mod exact;
mod fates;
mod slow_way;
