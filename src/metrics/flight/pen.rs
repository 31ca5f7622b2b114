//! How a worker writes what it runs.

use super::{About, Delayed, Ended, Kind, Slice, Track};
use crate::time::Nanos;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::Ordering;

/// Shorter stretches are not told apart: none of them alone delays a request.
const SHORT: Nanos = Nanos::from_micros(20);
/// The longest slice of short stretches: a part of a delay that matters.
const TRAIN_MAX: Nanos = Nanos::from_micros(200);
/// A worker that did nothing for so long was free.
const GAP: Nanos = Nanos::from_micros(20);

/// The writer's side of a [`Track`]: what it has not written yet.
#[derive(Debug)]
pub(crate) struct Pen<'t> {
    track: &'t Track,
    /// The slice under way; it has begun at 0 if there is none.
    current: Slice,
    /// Short requests, or the lack of packets, which may last: not written yet. It has begun at 0
    /// if there is none.
    held: Slice,
}

impl<'t> Pen<'t> {
    pub(crate) fn new(track: &'t Track) -> Pen<'t> {
        Pen { track, current: Slice::default(), held: Slice::default() }
    }

    /// The worker runs this from `now` on: a request, or something without a number.
    #[inline(always)]
    pub(crate) fn begin(&mut self, about: About, now: Nanos) {
        if self.current.about.id == about.id && about.id > 0 && now.minus(self.current.end()) <= GAP {
            // It was interrupted by nothing but a look whether to go on.
            if self.current.kind == Kind::Unchecked {
                self.current.kind = Kind::Checked;
                self.track.run(&self.current);
            }
            return;
        }
        self.flush();
        let kind = if about.id == 0 { Kind::Child } else { Kind::Unchecked };
        self.current = Slice { began: now, took: Nanos::ZERO, kind, about };
        self.track.run(&self.current);
    }

    /// What runs has paused or ended at `now`, and passed a checkpoint on the way or not.
    #[inline]
    pub(crate) fn end(&mut self, checked: bool, now: Nanos) {
        self.current.took = now.minus(self.current.began);
        if checked && self.current.kind == Kind::Unchecked {
            self.current.kind = Kind::Checked;
        }
    }

    /// The slice under way is over. The caller says what the worker does instead.
    #[inline]
    fn flush(&mut self) {
        let slice = &self.current;
        if slice.began == Nanos::ZERO {
            // There is none.
        } else if slice.took >= SHORT {
            self.write();
            self.track.slices.push(self.current.words());
        } else if self.held.kind == Kind::Short && self.held.took < TRAIN_MAX && self.follows(slice.began, GAP) {
            self.held.took = slice.end().minus(self.held.began);
            self.held.about.id += 1;
        } else {
            self.write();
            self.held = Slice { kind: Kind::Short, about: About { id: 1, ..About::default() }, ..self.current };
        }
    }

    /// Whether less than `gap` has passed since the slice that is held.
    fn follows(&self, now: Nanos, gap: Nanos) -> bool {
        now.minus(self.held.end()) <= gap
    }

    /// Writes the slice that is held.
    fn write(&mut self) {
        if self.held.began > Nanos::ZERO {
            self.track.slices.push(std::mem::take(&mut self.held).words());
        }
    }

    /// The worker does nothing.
    pub(crate) fn rest(&mut self) {
        self.flush();
        self.write();
        self.current = Slice::default();
        self.track.run(&self.current);
    }

    /// The worker found no packet to receive into.
    pub(crate) fn no_packet(&mut self, now: Nanos) {
        self.flush();
        self.current = Slice::default();
        if self.held.kind == Kind::NoPacket && self.follows(now, TRAIN_MAX) {
            self.held.took = now.minus(self.held.began);
        } else {
            self.write();
            self.held = Slice { began: now, kind: Kind::NoPacket, ..Slice::default() };
        }
    }

    /// Whether requests that end are to be captured.
    #[inline]
    pub(crate) fn captures(&self) -> bool {
        self.track.captures.load(Ordering::Relaxed)
    }

    /// Captures a request that came from `peer`.
    #[cold]
    pub(crate) fn capture(&mut self, ended: &Ended, peer: impl Hash) {
        let flow = self.track.hasher.hash_one(peer) as u16;
        if self.track.ended.get().is_some_and(|all| all.push(Ended { flow, ..*ended }).is_err()) {
            self.track.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records a request that waited long.
    pub(crate) fn delayed(&mut self, delayed: &Delayed) {
        self.track.delayed.force_push(*delayed);
    }
}
