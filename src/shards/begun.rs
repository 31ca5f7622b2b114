//! Requests that shards begin. An event gives away work ([`Events::begin`]). A worker makes a
//! request of it, which has a packet, runs under the policy and ends with a fate. Its end is an
//! event of the shard.
//!
//! No request is lost. A thread first puts it into the queue and then reads `rings`, as for a
//! message (`events/mod.rs`). Once [`Events::close`] has been called, no worker takes from the
//! queue. So the thread that closes it empties it, and a thread that finds it closed after its push
//! does the same.

use super::Events;
use super::ends::{Finished, Rejection, Served};
use crate::fate::Fate;
use crate::runtime::continuation::{self, Polled, discard, lock};
use crate::time::{Nanos, clock};
use crossbeam_queue::ArrayQueue;
use crossbeam_utils::CachePadded;
use pin_project_lite::pin_project;
use std::any::Any;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

/// What any begun request does.
type AnyWork = Pin<Box<dyn Work>>;

/// What a shard is told of a request that it began.
pub(crate) type Begun = Box<dyn Any + Send>;

/// What a shard says of a request that it begins.
pub(crate) struct Terms {
    /// The client that it is for, if there is one.
    pub(crate) source: Option<SocketAddr>,
    /// Whether that is certain.
    pub(crate) validated: bool,
    pub(crate) class: u8,
    pub(crate) identity: Option<u64>,
    /// How long it may take, and the service time that it is expected to take.
    pub(crate) deadline: Option<Nanos>,
    pub(crate) cost: Option<Nanos>,
    /// Why it is not to be served, if it is not.
    pub(crate) rejection: Option<Rejection>,
}

/// A request that a shard has begun.
pub(crate) struct BegunRequest {
    pub(crate) at: Nanos,
    pub(crate) terms: Terms,
    pub(crate) work: AnyWork,
}

/// What a begun request does. It keeps its result until one of these is called.
pub(crate) trait Work: Future<Output = Finished> + Send {
    /// Notes that `worker` begins it.
    fn begins(self: Pin<&mut Self>, worker: u16);

    /// Gives the shard the result. Returns how the request ended.
    fn release(self: Pin<&mut Self>, served: &Served) -> Fate;

    /// Tells the shard that the request ended as `fate`, without a result.
    fn fails(self: Pin<&mut Self>, fate: Fate);
}

/// What becomes of the `Made` of a begun request. It may call code of the service, but does not
/// panic.
pub(crate) trait Ends<Made>: Send {
    /// Notes that `worker` begins the request.
    fn begins(&mut self, worker: u16) {
        let _ = worker;
    }

    /// What the server is told at the end of the work.
    fn finished(&self, made: &Made) -> Finished {
        let _ = made;
        Finished::default()
    }

    /// How the request ended, and what its shard is told; the fate alone, if its result is lost.
    fn result(&mut self, made: Made, served: &Served) -> Result<(Fate, Begun), Fate>;

    /// What the shard is told of a request that ended as `fate`; `None` if that is all.
    fn without(&mut self, fate: Fate) -> Option<Begun> {
        let _ = fate;
        None
    }
}

/// The shard is told what the request has made.
pub(crate) struct AsMessage;

impl<M: Send + 'static> Ends<M> for AsMessage {
    fn result(&mut self, made: M, _: &Served) -> Result<(Fate, Begun), Fate> {
        Ok((Fate::Handled, Box::new(made)))
    }
}

/// What the shard is told if there is no result.
pub(crate) struct NoResult {
    pub(crate) key: u64,
    pub(crate) fate: Fate,
}

/// The work of begun requests that have a packet, each in the place of its number. It is not in the
/// packet, which has then less to drop: each request would take 40 instructions more.
pub(crate) struct Works {
    // Only the worker that has the packet locks its place.
    places: Box<[Mutex<Option<AnyWork>>]>,
}

impl Works {
    /// Places for packets with numbers below `packets`.
    pub(super) fn new(packets: usize) -> Works {
        Works { places: (0..packets).map(|_| Mutex::default()).collect() }
    }

    /// Puts the work of the request in the packet of this number.
    pub(crate) fn put(&self, number: usize, work: AnyWork) {
        *lock(&self.places[number]) = Some(work);
    }

    /// Polls the work of the request in this packet.
    pub(crate) fn poll(&self, number: usize, terms: continuation::Terms<'_>) -> (Polled<Finished>, Nanos) {
        let mut place = lock(&self.places[number]);
        let work = place.as_mut().expect("a request that has not ended has its work");
        continuation::poll(work.as_mut(), terms)
    }

    /// Notes that `worker` begins the request in this packet.
    pub(crate) fn begins(&self, number: usize, worker: u16) {
        if let Some(work) = &mut *lock(&self.places[number]) {
            work.as_mut().begins(worker);
        }
    }

    /// Gives the shard the result of the request in this packet. Returns how it ended.
    pub(crate) fn release(&self, number: usize, served: &Served) -> Fate {
        let mut work = lock(&self.places[number]).take().expect("a request has its work until its shard hears of it");
        let fate = work.as_mut().release(served);
        discard(work);
        fate
    }

    /// Tells the shard that the request in this packet ended as `fate`, if its work is not done.
    pub(crate) fn fails(&self, number: usize, fate: Fate) {
        if let Some(mut work) = lock(&self.places[number]).take() {
            work.as_mut().fails(fate);
            discard(work);
        }
    }
}

/// The requests that the shards of a server have begun.
pub(super) struct BegunRequests {
    /// Those that no worker has taken.
    waiting: ArrayQueue<BegunRequest>,
    /// Those that have not ended, at most as many as `waiting` has places.
    // Ordering: sequentially consistent. A drain reads it after the counts of the workers.
    under_way: CachePadded<AtomicUsize>,
    most: usize,
}

impl BegunRequests {
    /// No requests yet, of `most` at a time.
    pub(super) fn new(most: usize) -> BegunRequests {
        BegunRequests { waiting: ArrayQueue::new(most.max(1)), under_way: CachePadded::default(), most }
    }

    /// Drops all that no worker has taken, each apart from the others.
    pub(super) fn clear(&self) {
        while let Some(begun) = self.waiting.pop() {
            discard(begun);
        }
    }
}

impl Events {
    /// Begins a request of `shard`, modulo the number of shards, which calls it `key`. Gives the
    /// work back if too many are under way, or if the server stops.
    pub(crate) fn begin<W, E>(self: &Arc<Self>, shard: usize, key: u64, terms: Terms, work: W, ends: E) -> Result<(), W>
    where
        W: Future<Output: Send> + Send + 'static,
        E: Ends<W::Output> + 'static,
    {
        let shard = self.number(shard);
        let BegunRequests { waiting, under_way, most } = &self.begun;
        let one_more = |count| (count < *most).then_some(count + 1);
        if self.stops() || under_way.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_err() {
            return Err(work);
        }
        let work = Box::pin(Owed { work, made: None, ends, key, shard, events: Some(Arc::clone(self)) });
        let pushed = waiting.push(BegunRequest { at: clock::now(), terms, work });
        debug_assert!(pushed.is_ok(), "there is a place for each that is under way");
        if self.is_closed() {
            self.begun.clear();
        }
        self.wake();
        Ok(())
    }

    /// Whether a begun request waits for a worker.
    #[inline]
    pub(crate) fn has_begun(&self) -> bool {
        !self.begun.waiting.is_empty()
    }

    /// Takes the begun request that has waited longest.
    pub(crate) fn next_begun(&self) -> Option<BegunRequest> {
        self.begun.waiting.pop()
    }

    /// Number of begun requests that have not ended.
    pub(crate) fn begun(&self) -> usize {
        self.begun.under_way.load(Ordering::SeqCst)
    }
}

pin_project! {
    /// Work of which a shard has not been told the end.
    struct Owed<W, E>
    where
        W: Future,
    {
        #[pin]
        work: W,
        // Present from the end of the work until the shard is told.
        made: Option<W::Output>,
        ends: E,
        key: u64,
        shard: u32,
        // `None` once the shard has been told.
        events: Option<Arc<Events>>,
    }

    impl<W: Future, E> PinnedDrop for Owed<W, E> {
        fn drop(this: Pin<&mut Self>) {
            // Only a server that has ended drops it untold.
            let this = this.project();
            tell(this.events, *this.shard, Box::new(NoResult { key: *this.key, fate: Fate::ShedDraining }));
        }
    }
}

/// Tells `shard` of the end of its work, unless that has been done.
fn tell(events: &mut Option<Arc<Events>>, shard: u32, end: Begun) {
    if let Some(events) = events.take() {
        // Before the event, which may begin another one.
        events.begun.under_way.fetch_sub(1, Ordering::SeqCst);
        events.report(shard, end);
    }
}

impl<W: Future, E: Ends<W::Output>> Future for Owed<W, E> {
    type Output = Finished;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Finished> {
        let this = self.project();
        this.work.poll(context).map(|made| {
            let finished = this.ends.finished(&made);
            *this.made = Some(made);
            finished
        })
    }
}

impl<W: Future<Output: Send> + Send, E: Ends<W::Output>> Work for Owed<W, E> {
    fn begins(self: Pin<&mut Self>, worker: u16) {
        self.project().ends.begins(worker);
    }

    fn release(self: Pin<&mut Self>, served: &Served) -> Fate {
        let this = self.project();
        let made = this.made.take().expect("the work has ended");
        let key = *this.key;
        let lost = |fate| (fate, Box::new(NoResult { key, fate }) as Begun);
        let (fate, result) = this.ends.result(made, served).unwrap_or_else(lost);
        tell(this.events, *this.shard, result);
        fate
    }

    fn fails(self: Pin<&mut Self>, fate: Fate) {
        let this = self.project();
        let end = this.ends.without(fate).unwrap_or_else(|| Box::new(NoResult { key: *this.key, fate }));
        tell(this.events, *this.shard, end);
    }
}
