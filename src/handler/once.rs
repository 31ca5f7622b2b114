//! [`Once`], a wrapper that serves a datagram and its repeats only once.

use super::{Admitted, Arrival, Event, Out, Rejected, Reply, Request, Served, Service, Teller, Unserved};
use crate::fate::CLASSES;
use crate::runtime::continuation::lock;
use crate::time::{Nanos, clock};
use std::sync::Mutex;

/// Bytes of the longest answer that is kept: a DNS answer without fragments (DNS flag day 2020).
const ANSWER_MAX: usize = 1_232;

/// A wrapper for handlers and services whose clients resend a datagram when no answer comes. Equal
/// bytes from one source are one request: see [`Admitted::identity`].
///
/// ```
/// use forebay::handler::{Once, Reply, Request, handler_fn};
/// use forebay::time::Nanos;
///
/// let echo = handler_fn(|request: Request<'_>, reply: &mut Reply<'_>| {
///     let _ = request.bytes().strip_prefix(b"?").map(|text| reply.put(text));
/// });
/// // A repeat within two seconds of the answer is answered from memory.
/// let once = Once::new(echo).keeping(1_024, Nanos::from_secs(2));
/// # let _ = once;
/// ```
#[derive(Debug)]
pub struct Once<H> {
    inner: H,
    /// Direct-mapped cache: an identity has one place, which it shares with other identities.
    answers: Box<[Mutex<Answer>]>,
    kept_for: Nanos,
}

#[derive(Debug)]
struct Answer {
    identity: u64,
    until: Nanos,
    bytes: Vec<u8>,
}

impl<H> Once<H> {
    /// Wraps `inner`. Repeats of a request that the server still holds are dropped.
    pub fn new(inner: H) -> Once<H> {
        Once { inner, answers: Box::default(), kept_for: Nanos::ZERO }
    }

    /// Also caches up to `most` answers for `kept_for` after they were made, and answers later
    /// repeats from the cache. The cache keeps only answers of at most 1,232 bytes, and reserves
    /// that much memory for each. A newer answer may replace an older one.
    pub fn keeping(self, most: usize, kept_for: impl Into<Nanos>) -> Once<H> {
        let answer = || Answer { identity: 0, until: Nanos::ZERO, bytes: Vec::with_capacity(ANSWER_MAX) };
        Once { answers: (0..most).map(|_| Mutex::new(answer())).collect(), kept_for: kept_for.into(), ..self }
    }

    fn place(&self, identity: u64) -> Option<&Mutex<Answer>> {
        let place = identity.checked_rem(self.answers.len() as u64)?;
        self.answers.get(place as usize)
    }

    /// Writes the cached answer into `reply`. Returns false if there is none.
    fn again(&self, identity: u64, reply: &mut Reply<'_>) -> bool {
        self.place(identity).is_some_and(|place| {
            let answer = lock(place);
            let is_kept = answer.identity == identity && clock::now() < answer.until;
            is_kept && answer.bytes.len() <= reply.room() && reply.put(&answer.bytes).is_ok()
        })
    }

    fn keep(&self, identity: u64, reply: &Reply<'_>) {
        let Some(place) = self.place(identity) else { return };
        if !reply.has_overflowed() && (1..=ANSWER_MAX).contains(&reply.len()) {
            let mut answer = lock(place);
            (answer.identity, answer.until) = (identity, clock::now().plus(self.kept_for));
            answer.bytes.clear();
            answer.bytes.extend_from_slice(reply.bytes());
        }
    }
}

impl<S: Service> Service for Once<S> {
    type Ticket = S::Ticket;
    type Shard = S::Shard;
    type Message = S::Message;

    const SHARDS: usize = S::SHARDS;
    const ROOM: usize = S::ROOM;
    const HEARS_START: bool = S::HEARS_START;
    const HEARS_STOP: bool = S::HEARS_STOP;
    const TRANSPORT: bool = S::TRANSPORT;
    const CLASS_NAMES: [&'static str; CLASSES] = S::CLASS_NAMES;
    const REASON_NAMES: &'static [&'static str] = S::REASON_NAMES;

    fn joins(first: &[u8], next: &[u8]) -> bool {
        S::joins(first, next)
    }

    fn shard(&self, number: usize) -> S::Shard {
        self.inner.shard(number)
    }

    fn started(&self, teller: &Teller<S::Message>) {
        self.inner.started(teller);
    }

    fn admit(&self, arrival: &Arrival<'_>) -> Result<Admitted<S::Ticket>, Rejected<S::Ticket>> {
        let admitted = self.inner.admit(arrival)?;
        Ok(admitted.identity(arrival.identity(arrival.bytes())))
    }

    async fn handle(
        &self,
        shard: &mut S::Shard,
        event: Event<'_, S::Ticket, S::Message>,
        out: &mut Out<'_, S::Message>,
    ) {
        let identity = match &event {
            Event::Datagram(request) if !self.answers.is_empty() => request.identity(request.bytes()),
            _ => return self.inner.handle(shard, event, out).await,
        };
        if !self.again(identity, out.reply()) {
            self.inner.handle(shard, event, out).await;
            self.keep(identity, out.reply());
        }
    }

    fn refuse(&self, request: Request<'_, S::Ticket>, unserved: Unserved, reply: &mut Reply<'_>) {
        self.inner.refuse(request, unserved, reply);
    }

    fn seal(&self, request: Request<'_, S::Ticket>, served: &Served, reply: &mut [u8]) {
        self.inner.seal(request, served, reply);
    }
}
