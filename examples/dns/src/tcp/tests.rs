use super::*;
use crate::service::tests::{at_once, question, service};
use forebay::Server;
use std::future::pending;

// If the workers have no room for a message, does the answer say so? If they stop, is there no
// answer? Method: a server that does not run, with as much work as one worker accepts.
#[test]
fn what_the_workers_do_not_take_is_not_answered_late() {
    let server = Server::builder().listen(([127, 0, 0, 1], 0).into()).admin(None).workers(1).bind().expect("a server");
    let answers = Answers { service: Arc::new(service(None)), spawner: server.spawner() };
    while answers.spawner.spawn(pending::<()>()).is_ok() {}
    let answer = || at_once(answers.of(question(1_232, false, 0), [127, 0, 0, 1].into()));
    assert_eq!(answer().expect("an answer")[3] & 15, Rcode::ServFail as u8);
    drop(server);
    assert_eq!(answer(), None);
}
