//! The pen: writes what one worker runs into its [`Track`].

use super::{About, Delayed, Ended, Slice, SliceKind, Track};
use crate::time::Nanos;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::Ordering;

/// Slices shorter than this are merged, because none of them alone delays a request noticeably.
const SHORT: Nanos = Nanos::from_micros(20);
/// Length at which merged slices end: a noticeable part of a long delay.
const TRAIN_MAX: Nanos = Nanos::from_micros(200);
/// Two runs that are farther apart than this are not one stretch, because the worker was free
/// between them.
const GAP: Nanos = Nanos::from_micros(20);

/// The writer's side of a [`Track`], with slices that are not written yet.
#[derive(Debug)]
pub struct Pen<'t> {
    track: &'t Track,
    /// The slice in progress; none if it began at 0.
    current: Slice,
    /// A slice that is not written yet, because it may grow: short requests, or a lack of packets.
    /// There is none if it began at 0.
    held: Slice,
}

impl<'t> Pen<'t> {
    pub fn new(track: &'t Track) -> Pen<'t> {
        Pen { track, current: Slice::default(), held: Slice::default() }
    }

    /// Notes that the worker runs a request, a child or a task from `now` on. A child or a task has
    /// the number 0.
    #[inline(always)]
    pub fn begin(&mut self, about: About, now: Nanos) {
        if self.current.about.id == about.id && about.id > 0 && now.minus(self.current.end()) <= GAP {
            // The request was only interrupted to ask the policy whether it continues.
            if self.current.kind == SliceKind::Unchecked {
                self.current.kind = SliceKind::Checked;
                self.track.run(&self.current);
            }
            return;
        }
        self.flush();
        let kind = if about.id == 0 { SliceKind::Child } else { SliceKind::Unchecked };
        self.current = Slice { began: now, took: Nanos::ZERO, kind, about };
        self.track.run(&self.current);
    }

    /// Notes that the run paused or ended at `now`, and whether it passed a checkpoint.
    #[inline]
    pub fn end(&mut self, checked: bool, now: Nanos) {
        self.current.took = now.minus(self.current.began);
        if checked && self.current.kind == SliceKind::Unchecked {
            self.current.kind = SliceKind::Checked;
        }
    }

    /// Ends the slice in progress. The caller must then note the worker's next activity.
    #[inline]
    fn flush(&mut self) {
        let slice = &self.current;
        if slice.began == Nanos::ZERO {
            // No slice is in progress.
        } else if slice.took >= SHORT {
            self.write();
            self.track.slices.push(self.current.words());
        } else if self.held.kind == SliceKind::Short && self.held.took < TRAIN_MAX && self.follows(slice.began, GAP) {
            self.held.took = slice.end().minus(self.held.began);
            self.held.about.id += 1;
        } else {
            self.write();
            self.held = Slice { kind: SliceKind::Short, about: About { id: 1, ..About::default() }, ..self.current };
        }
    }

    /// Whether at most `gap` has passed since the end of the held slice.
    fn follows(&self, now: Nanos, gap: Nanos) -> bool {
        now.minus(self.held.end()) <= gap
    }

    /// Writes the held slice to the ring.
    fn write(&mut self) {
        if self.held.began > Nanos::ZERO {
            self.track.slices.push(std::mem::take(&mut self.held).words());
        }
    }

    /// Notes that the worker does nothing.
    pub fn rest(&mut self) {
        self.flush();
        self.write();
        self.current = Slice::default();
        self.track.run(&self.current);
    }

    /// Notes that the worker found no free packet to receive into.
    pub fn no_packet(&mut self, now: Nanos) {
        self.flush();
        self.current = Slice::default();
        if self.held.kind == SliceKind::NoPacket && self.follows(now, TRAIN_MAX) {
            self.held.took = now.minus(self.held.began);
        } else {
            self.write();
            self.held = Slice { began: now, kind: SliceKind::NoPacket, ..Slice::default() };
        }
    }

    /// Whether a capture is in progress.
    #[inline]
    pub fn captures(&self) -> bool {
        self.track.captures.load(Ordering::Relaxed)
    }

    /// Records a request from `peer`, in the network `prefix`, for a capture.
    #[cold]
    pub fn capture(&mut self, ended: &Ended, peer: impl Hash, prefix: u64) {
        let number = |hash: u64| hash as u16;
        let (flow, source) = (number(self.track.hasher.hash_one(peer)), number(self.track.hasher.hash_one(prefix)));
        if self.track.ended.get().is_some_and(|all| all.push(Ended { flow, source, ..*ended }).is_err()) {
            self.track.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records a request that waited long.
    pub fn delayed(&mut self, delayed: &Delayed) {
        self.track.delayed.force_push(*delayed);
    }
}
