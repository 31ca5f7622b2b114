//! The list of types in NSEC records (RFC 4034, 4.1.2).

use domain::base::iana::Rtype;

/// The bitmap of `types`.
pub(crate) fn bitmap(types: impl IntoIterator<Item = Rtype>) -> Box<[u8]> {
    let mut types: Vec<u16> = types.into_iter().map(Rtype::to_int).collect();
    types.sort_unstable();
    let mut bitmap = Vec::new();
    for window in types.chunk_by(|a, b| a >> 8 == b >> 8) {
        let mut bits = [0_u8; 32];
        for low in window.iter().map(|rtype| usize::from(rtype & 0xff)) {
            bits[low / 8] |= 0x80 >> (low % 8);
        }
        let length = bits.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bitmap.extend([(window[0] >> 8) as u8, length as u8]);
        bitmap.extend(&bits[..length]);
    }
    bitmap.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    // Is the result that of the example in RFC 4034, 4.3?
    #[test]
    fn the_standards_example() {
        let mut expected = vec![0x00, 0x06, 0x40, 0x01, 0x00, 0x00, 0x00, 0x03, 0x04, 0x1b];
        expected.extend([0; 26]);
        expected.push(0x20);
        assert_eq!(&*bitmap([1234, 47, 1, 46, 15].map(Rtype::from_int)), expected);
        assert_eq!(&*bitmap([]), b"");
    }
}
