//! The same application on quinn and tokio.

use bytes::Buf as _;
use forebay::output::print;
use quinn::{Endpoint, RecvStream, SendStream};
use std::path::Path;
use std::time::Duration;

/// The argument with which this program is the rival.
pub(crate) const WORD: &str = "serve-quinn";

/// Serves on a free port until it is killed.
pub(crate) fn serve() -> std::io::Result<()> {
    let config = forebay_quic::tls::config(Path::new("cert.pem"), Path::new("key.pem"), Duration::from_secs(30), 1_200);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let endpoint = Endpoint::server(config.expect("a certificate"), ([127, 0, 0, 1], 0).into())?;
        print(&format!("listening on udp {}, admin http://none\n", endpoint.local_addr()?))?;
        while let Some(incoming) = endpoint.accept().await {
            tokio::spawn(async move {
                let Ok(connection) = incoming.await else { return };
                while let Ok((send, receive)) = connection.accept_bi().await {
                    tokio::spawn(answer(send, receive));
                }
            });
        }
        Ok(())
    })
}

async fn answer(mut send: SendStream, mut receive: RecvStream) -> Option<()> {
    let mut kind = [0];
    receive.read_exact(&mut kind).await.ok()?;
    if kind == *b"u" {
        let mut counted = 0_u64;
        while let Some(chunk) = receive.read_chunk(usize::MAX, true).await.ok()? {
            counted += chunk.bytes.len() as u64;
        }
        send.write_all(&counted.to_be_bytes()).await.ok()?;
    } else {
        let mut head = &receive.read_to_end(8).await.ok()?[..];
        let mut zeros = head.try_get_u32().ok()? as usize;
        while zeros > 0 {
            let piece = zeros.min(16_384);
            send.write_all(&[0; 16_384][..piece]).await.ok()?;
            zeros -= piece;
        }
    }
    send.finish().ok()
}
