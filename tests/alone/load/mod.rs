//! Requests under load: who is served, how soon, at what cost.

mod aside;
mod burn;
mod calls;
mod cgroup;
mod cpus;
mod fork;
mod gate;
mod idle;
mod overload;
mod pauses;
mod steal;
