//! Do streams, datagrams and connections carry what they should, and end as they should?

use super::{both, heard, say, start};
use crate::support::{patient, run};
use bytes::Bytes;
use forebay::Admitted;
use forebay_quic::connection::{DatagramError, ReadError, ReadExactError, ReadToEndError, WriteError};
use forebay_quic::quinn_proto::{ConnectionError, Dir, VarInt};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

// Do streams of all kinds carry bytes both ways, with and without a copy, and their ends?
#[test]
fn streams_are_read_and_written() {
    let served = start(&[], |connection| async move {
        let (mut send, mut receive) = connection.accept_bi().await.expect("a stream");
        let mut two = [0; 2];
        receive.read_exact(&mut two).await.expect("two bytes");
        let (one, chunk) = (receive.read(&mut [0]).await, receive.read_chunk(2).await.expect("more"));
        assert_eq!((two, one, chunk), (*b"ab", Ok(Some(1)), Some(Bytes::from_static(b"de"))));
        assert_eq!(receive.read_to_end(1).await, Ok(b"f".to_vec()));
        assert_eq!((receive.read_chunk(9).await, receive.read(&mut two).await), (Ok(None), Ok(None)));
        assert_eq!(receive.read_exact(&mut two).await, Err(ReadExactError::FinishedEarly(0)));
        assert_eq!((send.id().dir(), send.priority(), send.set_priority(3)), (Dir::Bi, Ok(0), Ok(())));
        assert_eq!((send.priority(), send.id() == receive.id()), (Ok(3), true));
        send.write_chunk(Bytes::from(vec![b'0'; 300_000])).await.expect("it is open");
        AsyncWriteExt::write_all(&mut send, b"123").await.expect("it is open");
        send.flush().await.expect("nothing to do");
        send.shutdown().await.expect("it is open");
        assert!(send.finish().is_err());
        let mut uni = connection.accept_uni().await.expect("a stream");
        let mut copied = Vec::new();
        tokio::io::copy(&mut uni, &mut copied).await.expect("it ends");
        say(&connection, copied).await;
        assert_eq!(uni.read_to_end(1).await, Ok(Vec::new()));
        connection.closed().await;
    });
    let Some(served) = served else { return };
    run(async {
        let (_client, connection) = served.connect().await;
        let (mut send, mut receive) = both(&connection, b"abcdef").await;
        send.finish().expect("it is open");
        let mut head = vec![0; 1_000];
        patient(receive.read_exact(&mut head)).await.expect("it comes");
        assert!(head.iter().all(|byte| *byte == b'0'));
        let mut uni = connection.open_uni().await.expect("a stream");
        uni.write_all(&[7; 200_000]).await.expect("it is open");
        uni.finish().expect("it is open");
        assert_eq!(heard(&connection).await, [7; 200_000]);
    });
    assert_eq!(served.stop().failed, 0);
}

// What does a task learn if the client resets, stops or ends? What does the client learn of what a
// task drops?
#[test]
fn each_side_learns_of_the_end() {
    let served = start(&[], |connection| async move {
        let (mut send, mut receive) = connection.accept_bi().await.expect("a stream");
        receive.read_exact(&mut [0]).await.expect("a byte");
        assert_eq!(receive.read_chunk(9).await, Err(ReadError::Reset(5_u32.into())));
        assert_eq!(send.stopped().await, Ok(Some(6_u32.into())));
        assert_eq!(send.write(b"x").await, Err(WriteError::Stopped(6_u32.into())));
        let (mut send, mut receive) = connection.accept_bi().await.expect("a stream");
        assert_eq!(receive.read_to_end(2).await, Err(ReadToEndError::TooLong));
        assert!(receive.stop(7_u32).is_ok() && receive.stop(7_u32).is_err());
        assert_eq!(receive.read_chunk(9).await, Err(ReadError::ClosedStream));
        send.write_all(b"finished").await.expect("it is open");
        send.finish().expect("it is open");
        assert_eq!(send.stopped().await, Ok(None), "all has arrived");
        // Dropped, one side is finished and the other stopped.
        let (mut send, receive) = connection.accept_bi().await.expect("a stream");
        send.write_all(b"dropped").await.expect("it is open");
        drop((send, receive));
        let (mut send, mut receive) = connection.accept_bi().await.expect("a stream");
        receive.read_exact(&mut [0]).await.expect("a byte");
        let why = connection.closed().await;
        assert!(matches!(&why, ConnectionError::ApplicationClosed(close) if close.error_code == 9_u32.into()));
        assert_eq!(connection.close_reason(), Some(why.clone()));
        assert_eq!(receive.read_chunk(9).await, Err(why.clone().into()));
        assert_eq!(send.write(b"x").await, Err(why.clone().into()));
        assert_eq!(send.stopped().await, Err(why.clone()));
        assert_eq!(connection.accept_uni().await.map(drop), Err(why.clone()));
        assert_eq!(connection.open_bi().await.map(drop), Err(why.clone()));
        assert_eq!(connection.read_datagram().await, Err(why.clone()));
        assert_eq!(connection.send_datagram(Bytes::new()), Err(DatagramError::ConnectionLost(why.clone())));
        assert!(connection.spawn(async {}).is_err());
        assert_eq!(connection.begin(Admitted::new(()), async {}).await, Err(why.into()));
    });
    let Some(served) = served else { return };
    run(async {
        let (_client, connection) = served.connect().await;
        let (mut send, mut receive) = both(&connection, b"1").await;
        // The server may have read the byte only once it has been acknowledged.
        tokio::time::sleep(Duration::from_millis(100)).await;
        send.reset(5_u32.into()).expect("it is open");
        receive.stop(6_u32.into()).expect("it is open");
        let (send, mut receive) = both(&connection, b"123").await;
        assert_eq!(patient(send.stopped()).await, Ok(Some(7_u32.into())));
        assert_eq!(patient(receive.read_to_end(99)).await, Ok(b"finished".to_vec()));
        let (send, mut receive) = both(&connection, b"1").await;
        assert_eq!(patient(receive.read_to_end(99)).await, Ok(b"dropped".to_vec()));
        assert_eq!(patient(send.stopped()).await, Ok(Some(0_u32.into())));
        let (_send, _receive) = both(&connection, b"1").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        connection.close(9_u32.into(), b"enough");
        tokio::time::sleep(Duration::from_millis(100)).await;
    });
    assert_eq!(served.stop().failed, 0);
}

// Do datagrams go both ways, and does a connection know its ends, and close with a code?
#[test]
fn a_connection_knows_itself() {
    let served = start(&[], |connection| async move {
        assert!(connection.max_datagram_size().is_some_and(|bytes| bytes > 1_000));
        let datagram = connection.read_datagram().await.expect("a datagram");
        connection.send_datagram(datagram).expect("there is room");
        assert!(matches!(connection.send_datagram(vec![0; 9_000].into()), Err(DatagramError::NotTaken(_))));
        let text = format!("{} {}", connection.remote_address(), connection.local_address());
        assert!(connection.rtt() > Duration::ZERO && connection.stats().udp_rx.datagrams > 0);
        assert!(connection.peer_identity().is_none() && connection.handshake_data().is_some());
        say(&connection, text).await;
        connection.accept_uni().await.expect("a stream");
        connection.close(VarInt::from_u32(4), b"so it is");
        assert_eq!(connection.closed().await, ConnectionError::LocallyClosed);
    });
    let Some(served) = served else { return };
    run(async {
        let (client, connection) = served.connect().await;
        connection.send_datagram(Bytes::from_static(b"one")).expect("it is taken");
        assert_eq!(patient(connection.read_datagram()).await, Ok(Bytes::from_static(b"one")));
        let ends = format!("{} {}", client.local_addr().expect("an address"), served.running.address);
        assert_eq!(String::from_utf8(heard(&connection).await), Ok(ends));
        connection.open_uni().await.expect("a stream").finish().expect("it is open");
        let why = patient(connection.closed()).await;
        assert!(
            matches!(&why, quinn::ConnectionError::ApplicationClosed(close)
            if close.error_code == 4_u32.into() && close.reason == b"so it is"[..]),
            "{why}"
        );
    });
    assert_eq!(served.stop().failed, 0);
}
