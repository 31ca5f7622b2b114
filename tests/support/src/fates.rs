//! The fates that a test expects.

/// The fates of a server that has counted only these numbers: `fates! { received: 2, answered: 2
/// }`.
#[macro_export]
macro_rules! fates {
    (of $fate:ident) => {
        $fate
    };
    (of $fate:ident $number:expr) => {
        $number
    };
    ($($fate:ident $(: $number:expr)?),+ $(,)?) => {{
        let mut counted = $crate::Fates::default();
        $(counted.$fate = $crate::fates!(of $fate $($number)?);)+
        counted
    }};
}
