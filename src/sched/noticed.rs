//! What a look, or a notice of the kernel, has found in the watched sockets.

use super::interface::WorkerId;
use arrayvec::ArrayVec;

/// Sockets that are named, at most: more than one worker serves before it looks again.
const NAMED_MAX: usize = 8;

/// The sockets in which a look has seen something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    /// Number of descriptors in which something waits.
    pub waiting: usize,
    /// The owners of the first ones, the first one last.
    named: ArrayVec<WorkerId, NAMED_MAX>,
    /// Whether the kernel gave notice.
    pub by_kernel: bool,
}

impl Noticed {
    /// The descriptors in which something waits, by their owners, in the order in which they are to
    /// be tried.
    pub fn of(owners: impl IntoIterator<Item = WorkerId>) -> Noticed {
        let mut noticed = Noticed::default();
        for owner in owners {
            noticed.waiting += 1;
            // An owner has a descriptor for each address of the server.
            if !noticed.named.contains(&owner) && !noticed.named.is_full() {
                noticed.named.insert(0, owner);
            }
        }
        noticed
    }

    /// The same, of which the kernel gave notice.
    pub fn by_kernel(self) -> Noticed {
        Noticed { by_kernel: true, ..self }
    }

    /// The owner of the first one.
    pub fn first(&self) -> Option<WorkerId> {
        self.named.last().copied()
    }

    /// The next socket to try, which is then named no more.
    pub(super) fn next(&mut self) -> Option<WorkerId> {
        self.named.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is each owner named once, in order and not more than there is room for, and is every
    // descriptor counted?
    #[test]
    fn owners_are_named_once_and_descriptors_counted() {
        let names = |owners: &[WorkerId]| {
            let mut noticed = Noticed::of(owners.iter().copied());
            let (waiting, first) = (noticed.waiting, noticed.first());
            let named: Vec<WorkerId> = std::iter::from_fn(|| noticed.next()).collect();
            assert_eq!(first, named.first().copied());
            (waiting, named)
        };
        assert_eq!(names(&[]), (0, vec![]));
        assert_eq!(names(&[7, 3, 7, 3, 5]), (5, vec![7, 3, 5]));
        let many: Vec<WorkerId> = (20..40).collect();
        assert_eq!(names(&many), (20, many[..NAMED_MAX].to_vec()));
    }
}
