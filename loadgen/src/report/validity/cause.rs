//! What can be wrong with a run, and what each cause does to its figures. This is the one place
//! that decides between AT MOST and INVALID.

/// How a disturbance changes the figures of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// Latency, slowdown and the share that is not answered in time can only be too high: they
    /// bound from above what the server does.
    Raises,
    /// They can be too high or too low, or are not known.
    Any,
}

/// What can be wrong with a run. `loadgen/README.md` has the same table for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// A part of the schedule was not sent.
    Interrupted,
    /// What was found after the run: it was cut short, the server failed, or a simulation does not
    /// fit.
    FoundLater,
    /// The counters and the latency are those of two servers.
    Restarted,
    /// What the server could have told is not known.
    EndpointSilent,
    /// The host stood still for a large part of a round. What came meanwhile came all at once,
    /// which is another load than that of the other rounds.
    StoodStill,
    /// Sends were late. Latency counts from the intended send, so the lateness is a part of it. A
    /// server that takes requests in turn ends none earlier because others come later.
    LateSends,
    /// Requests without an answer in time were sent late, or in the burst that follows late sends.
    /// They count as not answered, and the server might have answered them.
    Unjudged,
    /// Retries were late: clients that come back later load the server less.
    LateRetries,
    /// Emulated cores slept longer than they should: each request takes longer.
    Overslept,
    /// The server's workers waited for a CPU that others used: each request takes longer.
    WorkersWaited,
    /// Our sockets dropped replies. These requests were answered and count as lost, so the fates
    /// are wrong.
    OwnSocketDrops,
    /// Our kernel did not take requests: the server had a smaller load.
    RefusedSends,
    /// Our kernel took requests and did not send them: the server had a smaller load.
    DroppedSends,
    /// What came is not from this server, or not of this run.
    Foreign,
    /// Replies may have been taken for those of other requests, also of later ones.
    Doubtful,
    /// The server and we count different requests.
    Unaccounted,
    /// There is no latency.
    NothingAnswered,
    /// The run is too short for the percentile.
    NotKnown,
}

impl Cause {
    /// What it does to the figures.
    pub(crate) const fn effect(self) -> Effect {
        match self {
            Cause::LateSends | Cause::Unjudged | Cause::Overslept | Cause::WorkersWaited => Effect::Raises,
            Cause::Interrupted
            | Cause::FoundLater
            | Cause::Restarted
            | Cause::EndpointSilent
            | Cause::StoodStill
            | Cause::LateRetries
            | Cause::OwnSocketDrops
            | Cause::RefusedSends
            | Cause::DroppedSends
            | Cause::Foreign
            | Cause::Doubtful
            | Cause::Unaccounted
            | Cause::NothingAnswered
            | Cause::NotKnown => Effect::Any,
        }
    }
}
