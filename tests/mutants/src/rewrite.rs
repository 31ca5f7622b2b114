//! A file with the switches of some places.

use crate::places::Place;

/// Order of the insertions at one byte.
type Rank = (u8, isize, isize);

/// `text` with the switch of each of `drawn`: the number of the mutant, and its place. No line is added.
pub fn rewrite(text: &str, drawn: &[(usize, &Place)]) -> String {
    // What opens at a byte goes from the outside in, what closes from the inside out. Of two around the same bytes the one
    // found first is the outer one.
    let mut edits: Vec<(usize, Rank, usize, String)> = Vec::new();
    for &(number, place) in drawn {
        let (size, order) = (place.around.len() as isize, place.order as isize);
        let open = place.open.replace('#', &number.to_string());
        edits.push((place.around.start, (2, -size, order), 0, open));
        edits.push((place.around.end, (0, size, -order), 0, place.close.clone()));
        if let Some((bytes, by)) = &place.between {
            edits.push((bytes.start, (1, 0, 0), bytes.len(), (*by).to_owned()));
        }
    }
    edits.sort_unstable();
    let (mut rewritten, mut copied) = (String::new(), 0);
    for (at, _, removed, added) in edits {
        rewritten += &text[copied..at];
        rewritten += &added;
        copied = at + removed;
    }
    rewritten + &text[copied..]
}
