//! Requests under load: who is served, how soon, at what cost.

mod burn;
mod fork;
mod gate;
mod overload;
mod pauses;
mod steal;
