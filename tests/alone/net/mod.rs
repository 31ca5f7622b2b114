//! Floods: what becomes of each datagram.

mod exact;
mod returned;
mod slow_way;
mod stops;
