//! Requests that a task of a connection begins: each one runs under the policy, on any worker.

use super::begun::{Asked, End};
use super::shared::Shared;
use super::told::Told;
use forebay::fate::Fate;
use forebay::handler::{Carried, Full, while_wanted};
use forebay::{Admitted, Handler};
use quinn_proto::ConnectionError;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// Why a request of a connection has no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unserved {
    /// It ended in another way.
    #[error("the request ended as {}", .0.name())]
    As(Fate),
    /// The connection has ended.
    #[error("the connection has ended: {0}")]
    ConnectionLost(#[from] ConnectionError),
}

impl Shared {
    /// Tells the task that waits for the request of this key how it ended.
    pub(crate) fn end(&self, key: u64, end: End) {
        if let Some(asked) = self.lock().begun.get_mut(&key) {
            asked.end = Some(end);
            asked.waker.take().into_iter().for_each(Waker::wake);
        }
    }
}

/// A request of a task. It ends early once this is dropped.
struct Begun<'a> {
    shared: &'a Shared,
    key: u64,
    wanted: Arc<()>,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.begun.remove(&self.key);
        state.crowd.remove(&self.key);
    }
}

impl Begun<'_> {
    /// Prepares a request. Its end may come as soon as it has begun.
    fn new(shared: &Shared) -> Begun<'_> {
        let key = shared.link.next_key();
        shared.lock().begun.insert(key, Asked::default());
        Begun { shared, key, wanted: Arc::new(()) }
    }

    /// Calls `begin` until there is room. Then waits for the end of the request.
    ///
    /// Without room, the next event of the connection wakes the task that has waited longest. If
    /// this task finds room, it wakes the next one. While the server stops, there is no room.
    async fn ended(&self, mut begin: impl FnMut() -> Result<(), Full>) -> Result<End, Unserved> {
        poll_fn(|context| {
            if let Some(why) = &self.shared.lock().lost {
                return Poll::Ready(Err(Unserved::from(why.clone())));
            }
            let has_begun = begin().is_ok();
            self.shared.act(|state| match has_begun {
                true => {
                    state.crowd.remove(&self.key);
                    state.crowd.pop_first().into_iter().for_each(|(_, next)| next.wake());
                    Poll::Ready(Ok(()))
                }
                false if state.is_stopping => Poll::Ready(Err(Unserved::As(Fate::ShedDraining))),
                false => {
                    state.crowd.insert(self.key, context.waker().clone());
                    Poll::Pending
                }
            })
        })
        .await?;
        poll_fn(|context| {
            let mut state = self.shared.lock();
            let lost = state.lost.clone();
            let asked = state.begun.get_mut(&self.key).expect("it is there until this is dropped");
            if let Some(end) = asked.end.take() {
                return Poll::Ready(Ok(end));
            }
            asked.waker = Some(context.waker().clone());
            lost.map_or(Poll::Pending, |why| Poll::Ready(Err(why.into())))
        })
        .await
    }
}

/// What `begin` returns, if the work that it was given comes back into `work`.
fn kept<W>(work: &mut Option<W>, begin: impl FnOnce(W) -> Result<(), Full<W>>) -> Result<(), Full> {
    begin(work.take().expect("it came back")).map_err(|Full(back)| {
        *work = Some(back);
        Full(())
    })
}

/// Lets `work` run as a request of its own. Returns its result.
pub(crate) async fn begin<W>(shared: &Shared, admitted: Admitted, work: W) -> Result<W::Output, Unserved>
where
    W: Future<Output: Send + 'static> + Send + 'static,
{
    let begun = Begun::new(shared);
    let (key, wanted, made) = (begun.key, Arc::downgrade(&begun.wanted), Arc::new(Mutex::new(None)));
    let making = Arc::clone(&made);
    let mut work = Some(async move {
        let result = while_wanted(wanted, work).await;
        *making.lock().unwrap_or_else(PoisonError::into_inner) = result;
        Told::Made(key)
    });
    let (link, peer) = (&shared.link, shared.lock().connection.remote_address());
    let begin = || kept(&mut work, |work| link.teller.begin(link.shard.into(), key, Some(peer), admitted, work));
    match begun.ended(begin).await? {
        End::Made => {
            let result = made.lock().unwrap_or_else(PoisonError::into_inner).take();
            Ok(result.expect("it is made while it is wanted"))
        }
        End::Unfinished(fate) => Err(Unserved::As(fate)),
        End::Replied(_) => unreachable!("no handler serves it"),
    }
}

/// Lets `handler` serve a request. Returns the reply.
pub(crate) async fn serve<H>(
    shared: &Shared,
    handler: &Arc<H>,
    request: Vec<u8>,
    reply_max: usize,
) -> Result<Vec<u8>, Unserved>
where
    H: Handler + Send + 'static,
{
    let begun = Begun::new(shared);
    let (link, peer) = (&shared.link, shared.lock().connection.remote_address());
    let carried = Carried::new(request, peer, shared.local).reply_max(reply_max);
    let mut carried = Some(carried.wanted(Arc::downgrade(&begun.wanted)));
    let begin = || kept(&mut carried, |carried| link.teller.serve(link.shard.into(), begun.key, handler, carried));
    match begun.ended(begin).await? {
        End::Replied(reply) => Ok(reply),
        End::Unfinished(fate) => Err(Unserved::As(fate)),
        End::Made => unreachable!("a handler serves it"),
    }
}
