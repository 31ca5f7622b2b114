//! Floods: what becomes of each datagram.

mod exact;
mod slow_way;
