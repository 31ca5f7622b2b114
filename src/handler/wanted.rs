//! Work that ends early once its result is no longer wanted.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Weak;
use std::task::Poll;

/// Runs `work` for as long as what `wanted` refers to lives. Once that is dropped, `work` is
/// dropped where it next pauses or waits, and the result is `None`.
pub async fn while_wanted<W: Future>(wanted: Weak<()>, work: W) -> Option<W::Output> {
    let mut work = pin!(work);
    let is_wanted = || wanted.strong_count() > 0;
    poll_fn(|context| if is_wanted() { work.as_mut().poll(context).map(Some) } else { Poll::Ready(None) }).await
}
