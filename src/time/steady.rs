//! A value that follows readings, slowly enough that chance does not change it.

/// A value that changes only when several readings in a row agree on another.
#[derive(Clone, Debug)]
pub(crate) struct Steady<T> {
    value: T,
    /// The last reading, where it differs from the value, and how many in a row agree with it.
    other: Option<(T, u32)>,
}

impl<T> Steady<T> {
    /// Begins with `value`.
    pub(crate) const fn new(value: T) -> Steady<T> {
        Steady { value, other: None }
    }

    /// The value.
    pub(crate) const fn get(&self) -> &T {
        &self.value
    }

    /// The value, to change what readings do not disagree about.
    pub(crate) const fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// A reading confirms the value: earlier ones that differ count no more.
    pub(crate) fn confirm(&mut self) {
        self.other = None;
    }

    /// Takes a reading that differs from the value. It becomes the value if it is the last of
    /// `in_a_row` readings that agree. If it does not agree with the one before it, it counts as
    /// `first` readings. True if the value has changed.
    pub(crate) fn differ(&mut self, reading: T, first: u32, in_a_row: u32, agree: impl Fn(&T, &T) -> bool) -> bool {
        let before = self.other.take().filter(|(other, _)| agree(other, &reading));
        let count = before.map_or(first, |(_, count)| count + 1);
        if count < in_a_row {
            self.other = Some((reading, count));
            return false;
        }
        self.value = reading;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Does the value change with the third reading of three that agree, and begin to count anew
    // with any other reading?
    #[test]
    fn a_value_changes_when_readings_agree() {
        let mut steady = Steady::new(10);
        let mut read = |reading: i32| {
            let agree = |one: &i32, other: &i32| (one - other).abs() < 2;
            let changed = match agree(steady.get(), &reading) {
                true => {
                    steady.confirm();
                    false
                }
                false => steady.differ(reading, 1, 3, agree),
            };
            (changed, *steady.get())
        };
        let readings = [20, 21, 11, 20, 30, 31, 20, 20, 21, 20];
        let changes = readings.map(&mut read);
        let (unchanged, changed) = ((false, 10), (true, 21));
        assert_eq!(changes, [[unchanged; 8].as_slice(), &[changed, (false, 21)]].concat()[..]);
    }
}
