//! Where the datagrams of a reply are in its area: one behind the other, without gaps.

use std::ops::Range;

/// The largest number of datagrams in a reply: a bound on what one request costs, and on the headers that a source is
/// sent that may be forged.
pub(super) const DATAGRAMS_MAX: usize = 8;

/// The extents of a reply's datagrams. Two bytes for each position, since every packet has one of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extents {
    /// Bytes of all datagrams together.
    bytes: u16,
    /// Where the datagrams after the first begin, of which `further` count; they rise, and none is 0.
    begins: [u16; DATAGRAMS_MAX - 1],
    /// Number of datagrams that have begun after the first.
    further: u8,
}

impl Extents {
    /// The largest number of bytes.
    pub(super) const BYTES_MAX: usize = u16::MAX as usize;

    /// Bytes of all datagrams together.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        usize::from(self.bytes)
    }

    /// Sets the bytes of all datagrams together, [`Extents::BYTES_MAX`] at most and no fewer than before: the last datagram
    /// grows.
    #[inline]
    pub(crate) fn set_bytes(&mut self, bytes: usize) {
        debug_assert!((self.bytes()..=Self::BYTES_MAX).contains(&bytes), "{bytes} bytes after {}", self.bytes);
        self.bytes = bytes as u16;
    }

    /// Begins a datagram, unless the last one is empty. Returns false if there are [`DATAGRAMS_MAX`].
    pub(super) fn begin(&mut self) -> bool {
        if self.last_is_empty() {
            return true;
        }
        let Some(begin) = self.begins.get_mut(usize::from(self.further)) else { return false };
        *begin = self.bytes;
        self.further += 1;
        true
    }

    /// Keeps the first `bytes`, and no datagram that begins behind them.
    pub(super) fn truncate(&mut self, bytes: usize) {
        self.bytes = self.bytes.min(u16::try_from(bytes).unwrap_or(u16::MAX));
        let begun = self.begun();
        self.further = begun.iter().filter(|begin| **begin <= self.bytes).count() as u8;
    }

    /// Number of datagrams that are not empty.
    #[inline]
    pub(crate) fn datagrams(&self) -> usize {
        1 + usize::from(self.further) - usize::from(self.last_is_empty())
    }

    /// The place of each datagram that is not empty, in order.
    #[inline]
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> {
        (0..self.datagrams()).map(|number| {
            let begin = if number == 0 { 0 } else { self.begins[number - 1] };
            let end = self.begun().get(number).copied().unwrap_or(self.bytes);
            usize::from(begin)..usize::from(end)
        })
    }

    /// Whether the datagram that began last is empty; no other one is.
    #[inline]
    fn last_is_empty(&self) -> bool {
        self.begun().last().copied().unwrap_or(0) == self.bytes
    }

    #[inline]
    fn begun(&self) -> &[u16] {
        &self.begins[..usize::from(self.further)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // Are the datagrams those of a list of lists that is written, begun and cut in the same way?
        #[test]
        fn extents_are_those_of_a_list(steps in prop::collection::vec((0..4_u8, 0..40_usize), 0..40)) {
            let (mut extents, mut model) = (Extents::default(), vec![0_usize]);
            for (kind, bytes) in steps {
                let length: usize = model.iter().sum();
                match kind {
                    0 => {
                        let begun = model.last() == Some(&0) || model.len() < DATAGRAMS_MAX;
                        prop_assert_eq!(extents.begin(), begun);
                        if begun && model.last() != Some(&0) {
                            model.push(0);
                        }
                    }
                    1 => {
                        extents.truncate(bytes);
                        while model.len() > 1 && model[..model.len() - 1].iter().sum::<usize>() > bytes {
                            model.pop();
                        }
                        let before: usize = model[..model.len() - 1].iter().sum();
                        let last = model.last_mut().expect("there is one");
                        *last = (*last).min(bytes - before);
                    }
                    _ => {
                        extents.set_bytes(length + bytes);
                        *model.last_mut().expect("there is one") += bytes;
                    }
                }
                let (mut begin, mut ranges) = (0, Vec::new());
                for length in model.iter().filter(|length| **length > 0) {
                    ranges.push(begin..begin + length);
                    begin += length;
                }
                prop_assert_eq!(extents.ranges().collect::<Vec<_>>(), ranges);
                prop_assert_eq!((extents.datagrams(), extents.bytes()), (extents.ranges().count(), begin));
            }
        }
    }
}
