//! A server starts, hands over, follows demands and stops.

mod handover;
mod put;
mod shutdown;
mod spawner;
mod supervised;
mod switch;
