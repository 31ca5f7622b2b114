//! The result of a look or of a kernel's notice: which watched sockets hold datagrams.

use super::interface::WorkerId;
use arrayvec::ArrayVec;

/// The most sockets that are remembered. A worker serves fewer than this before it looks again.
const NAMED_MAX: usize = 8;

/// The sockets in which a look or notice found something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noticed {
    /// Number of socket descriptors that hold datagrams.
    pub waiting: usize,
    /// The workers whose sockets to try first, in reverse order.
    named: ArrayVec<WorkerId, NAMED_MAX>,
    /// Whether a notice of the kernel found them, rather than a look.
    pub by_kernel: bool,
}

impl Noticed {
    /// Collects the owners of descriptors that hold datagrams. They are tried in the order of
    /// `owners`.
    pub fn of(owners: impl IntoIterator<Item = WorkerId>) -> Noticed {
        let mut noticed = Noticed::default();
        for owner in owners {
            noticed.waiting += 1;
            // An owner has one descriptor per address of the server.
            if !noticed.named.contains(&owner) && !noticed.named.is_full() {
                noticed.named.insert(0, owner);
            }
        }
        noticed
    }

    /// Marks the result as found by a notice of the kernel.
    pub fn by_kernel(self) -> Noticed {
        Noticed { by_kernel: true, ..self }
    }

    /// The owner of the socket to try first.
    pub fn first(&self) -> Option<WorkerId> {
        self.named.last().copied()
    }

    /// Takes the owner of the next socket to try.
    pub(super) fn next(&mut self) -> Option<WorkerId> {
        self.named.pop()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is each owner listed once, in order, up to the capacity? Is every descriptor counted?
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
