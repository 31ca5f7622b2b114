//! What the handles of a connection share: the protocol, and who waits for it.
//!
//! Only events of the connection's shard change the protocol, and the tasks that they poll. So the
//! lock is free, unless a handle was given to another thread.

use super::begun::Asked;
use super::wake::Link;
use forebay::time::{Nanos, clock};
use quinn_proto::{Connection, ConnectionError, Dir, Event, StreamEvent, StreamId, VarInt};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;

/// What a task is.
pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A connection, as its handles see it.
pub(crate) struct Shared {
    pub(crate) link: Link,
    /// The server's address that the client knows.
    pub(crate) local: SocketAddr,
    state: Mutex<State>,
    /// Of each direction: the client has opened streams, and the server may open more.
    pub(crate) opened: [Notify; 2],
    pub(crate) available: [Notify; 2],
    /// Datagrams have come, or more may be sent.
    pub(crate) datagrams: Notify,
    /// The server stops.
    pub(crate) stopping: Notify,
    pub(crate) closed: Notify,
}

/// The state of a connection.
pub(crate) struct State {
    pub(crate) connection: Connection,
    /// Why it has ended.
    pub(crate) lost: Option<ConnectionError>,
    /// Whether the handshake is complete.
    pub(crate) is_connected: bool,
    /// Whether the server stops.
    pub(crate) is_stopping: bool,
    /// The tasks that wait until a stream can be read, can be written to, or has ended.
    pub(crate) readers: HashMap<StreamId, Waker>,
    pub(crate) writers: HashMap<StreamId, Waker>,
    pub(crate) stopped: HashMap<StreamId, Waker>,
    /// Tasks that were spawned, and not polled yet.
    pub(crate) spawned: Vec<Task>,
    /// How many tasks have not ended.
    pub(crate) tasks: usize,
    /// The requests that tasks have begun.
    pub(crate) begun: HashMap<u64, Asked>,
    /// The tasks that wait for room to begin one, by its key: the first one goes first.
    pub(crate) crowd: BTreeMap<u64, Waker>,
    /// Until when tasks may compute in this event.
    pub(crate) here_until: Nanos,
}

impl Shared {
    pub(crate) fn new(connection: Connection, link: Link, local: SocketAddr) -> Shared {
        let state = State {
            connection,
            lost: None,
            is_connected: false,
            is_stopping: false,
            readers: HashMap::new(),
            writers: HashMap::new(),
            stopped: HashMap::new(),
            spawned: Vec::new(),
            tasks: 0,
            begun: HashMap::new(),
            crowd: BTreeMap::new(),
            here_until: Nanos::ZERO,
        };
        let notify = || [(); 2].map(|()| Notify::new());
        let (opened, available) = (notify(), notify());
        let [datagrams, stopping, closed] = [(); 3].map(|()| Notify::new());
        Shared { link, local, state: Mutex::new(state), opened, available, datagrams, stopping, closed }
    }

    /// The state. A task that panics leaves it whole: none of its code runs under the lock.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a handle act on the connection. Its shard then sends what there is to send.
    pub(crate) fn act<T>(&self, act: impl FnOnce(&mut State) -> T) -> T {
        let done = act(&mut self.lock());
        if !self.link.is_driven_here() {
            self.link.wake_connection();
        }
        done
    }

    /// What `ready` finds, as soon as it finds something. It looks again at each change.
    pub(crate) async fn until<T>(&self, change: &Notify, mut ready: impl FnMut(&mut State) -> Option<T>) -> T {
        loop {
            // Before the look, so that no change in between is missed.
            let changed = change.notified();
            if let Some(found) = self.act(&mut ready) {
                return found;
            }
            changed.await;
        }
    }

    /// Takes in what has happened to the connection, and wakes those who wait for it.
    pub(crate) fn note(&self) {
        let mut state = self.lock();
        while let Some(event) = state.connection.poll() {
            match event {
                Event::Connected => state.is_connected = true,
                Event::ConnectionLost { reason } => self.lose(&mut state, reason),
                Event::Stream(StreamEvent::Opened { dir }) => self.opened[dir as usize].notify_waiters(),
                Event::Stream(StreamEvent::Available { dir }) => self.available[dir as usize].notify_waiters(),
                Event::Stream(StreamEvent::Readable { id }) => wake(&mut state.readers, id),
                Event::Stream(StreamEvent::Writable { id }) => wake(&mut state.writers, id),
                Event::Stream(StreamEvent::Finished { id }) => wake(&mut state.stopped, id),
                Event::Stream(StreamEvent::Stopped { id, .. }) => {
                    wake(&mut state.writers, id);
                    wake(&mut state.stopped, id);
                }
                Event::DatagramReceived | Event::DatagramsUnblocked => self.datagrams.notify_waiters(),
                Event::HandshakeDataReady => {}
            }
        }
    }

    /// Lets the tasks know that the server stops. Those that wait for room to begin a request find
    /// none any more.
    pub(crate) fn stop(&self) {
        let mut state = self.lock();
        state.is_stopping = true;
        std::mem::take(&mut state.crowd).into_values().for_each(Waker::wake);
        self.stopping.notify_waiters();
    }

    /// Whether the server stops, and what the tasks have begun has ended. They wait for nothing
    /// else, because nothing comes from clients any more.
    pub(crate) fn is_finished(&self) -> bool {
        let state = self.lock();
        state.is_stopping && state.begun.is_empty()
    }

    /// Closes the connection, unless it has ended.
    pub(crate) fn close(&self, code: VarInt, reason: &[u8]) {
        self.act(|state| {
            if state.lost.is_none() {
                state.connection.close(crate::inbox::now(), code, bytes::Bytes::copy_from_slice(reason));
                self.lose(state, ConnectionError::LocallyClosed);
            }
        });
    }

    /// The connection has ended. Wakes all who wait for it.
    fn lose(&self, state: &mut State, why: ConnectionError) {
        state.lost.get_or_insert(why);
        let State { readers, writers, stopped, begun, crowd, .. } = state;
        let waiting = readers.drain().chain(writers.drain()).chain(stopped.drain()).map(|(_, waker)| waker);
        let asking = begun.values_mut().filter_map(|asked| asked.waker.take());
        waiting.chain(asking).chain(std::mem::take(crowd).into_values()).for_each(Waker::wake);
        let directions = self.opened.iter().chain(&self.available);
        directions.chain([&self.datagrams, &self.stopping, &self.closed]).for_each(Notify::notify_waiters);
    }
}

fn wake(waiting: &mut HashMap<StreamId, Waker>, id: StreamId) {
    if let Some(waker) = waiting.remove(&id) {
        waker.wake();
    }
}

impl State {
    /// Keeps the waker of a task that waits for `id`, in the map that `of` chooses.
    pub(crate) fn wait<T>(
        &mut self,
        of: impl FnOnce(&mut State) -> &mut HashMap<StreamId, Waker>,
        id: StreamId,
        context: &Context<'_>,
    ) -> Poll<T> {
        of(self).insert(id, context.waker().clone());
        Poll::Pending
    }

    /// The first stream of the client's that no task has accepted.
    pub(crate) fn accept(&mut self, dir: Dir) -> Option<Result<StreamId, ConnectionError>> {
        let accepted = self.connection.streams().accept(dir).map(Ok);
        accepted.or_else(|| self.lost.clone().map(Err))
    }

    /// A new stream of the server's.
    pub(crate) fn open(&mut self, dir: Dir) -> Option<Result<StreamId, ConnectionError>> {
        let lost = self.lost.clone().map(Err);
        lost.or_else(|| self.connection.streams().open(dir).map(Ok))
    }

    /// The tasks that were spawned since the last call, beside those that are `running`.
    pub(crate) fn take_spawned(&mut self, running: usize) -> Vec<Task> {
        self.tasks = running + self.spawned.len();
        std::mem::take(&mut self.spawned)
    }

    /// For how long tasks may still compute in this event.
    pub(crate) fn here(&self) -> Nanos {
        self.here_until.minus(clock::now())
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("shard", &self.link.shard).finish_non_exhaustive()
    }
}
