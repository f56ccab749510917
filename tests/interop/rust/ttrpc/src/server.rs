//! The known answers, served.

use std::collections::BTreeMap;
use std::io::BufRead;
use std::os::fd::IntoRawFd;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use ttrpc::asynchronous::{Server, ServerStream, ServerStreamReceiver, ServerStreamSender, TtrpcContext};
use ttrpc::{get_status, Code, Error, Result};

use crate::generated::streaming::{EchoPayload, Empty, Part, Sum};
use crate::generated::streaming_ttrpc::{create_streaming, Streaming};

/// Listens until its stdin ends. Its commands are lines: "shutdown" lets calls end, as far as the library
/// does; it is answered with {"ended": "shutdown"}. Handlers of streams say when they end and why.
pub async fn serve(uri: &str) {
    let services = create_streaming(Arc::new(KnownAnswers));
    let (mut server, uri) = if let Some(address) = uri.strip_prefix("tcp://") {
        let listener = std::net::TcpListener::bind(address).expect("an address to listen on");
        listener.set_nonblocking(true).expect("a listener that does not block");
        let uri = format!("tcp://{}", listener.local_addr().expect("its address"));
        // SAFETY: the descriptor is that of a listening TCP socket, and nothing else has it.
        let server = unsafe { Server::new().add_tcp_listener(listener.into_raw_fd()) };
        (server.expect("a server"), uri)
    } else {
        (Server::new().bind(uri).expect("an address to listen on"), uri.to_string())
    };
    server = server.register_service(services);
    server.start().await.expect("a server that runs");
    println!("listening on ttrpc+{uri}");

    let (tell, mut commands) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let _ = tell.send(line.expect("a line"));
        }
        std::process::exit(0);
    });
    while let Some(command) = commands.recv().await {
        match command.as_str() {
            "shutdown" => server.shutdown().await.expect("a shutdown"),
            other => crate::fail(&format!("no command {other:?}")),
        }
        println!("{}", json!({"ended": command}));
    }
}

struct KnownAnswers;

fn unknown(text: &str) -> Error {
    Error::RpcStatus(get_status(Code::UNKNOWN, text))
}

/// Tells the tests that a handler of a stream is over.
fn ended<T>(method: &str, result: Result<T>) -> Result<T> {
    let text = match &result {
        Ok(_) => String::new(),
        Err(Error::RpcStatus(status)) => status.message.clone(),
        Err(error) => error.to_string(),
    };
    println!("{}", json!({"handler": method, "error": text}));
    result
}

#[async_trait]
impl Streaming for KnownAnswers {
    async fn echo(&self, context: &TtrpcContext, request: EchoPayload) -> Result<EchoPayload> {
        let mut answer = request.clone();
        answer.seq += 1;
        match request.msg.as_str() {
            "deadline" if context.timeout_nano > 0 => {
                answer.msg = format!("dl={}", context.timeout_nano / 1_000_000);
            }
            "deadline" => answer.msg = "nodl".to_string(),
            "md" => {
                let sorted: BTreeMap<_, _> = context.metadata.iter().collect();
                let pairs: Vec<String> =
                    sorted.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
                answer.msg = format!("map[{}]", pairs.join(" "));
            }
            "sleep" => tokio::time::sleep(Duration::from_secs(3)).await,
            "err" => return Err(unknown("plain error")),
            "big" => answer.msg = "x".repeat(5 << 20),
            _ => {}
        }
        Ok(answer)
    }

    async fn echo_stream(
        &self,
        _: &TtrpcContext,
        mut stream: ServerStream<EchoPayload, EchoPayload>,
    ) -> Result<()> {
        let result = async {
            while let Some(mut item) = stream.recv().await? {
                if item.msg == "err" {
                    return Err(unknown("stream err"));
                }
                item.seq += 1;
                stream.send(&item).await?;
            }
            Ok(())
        };
        ended("EchoStream", result.await)
    }

    async fn sum_stream(&self, _: &TtrpcContext, mut stream: ServerStreamReceiver<Part>) -> Result<Sum> {
        let mut sum = Sum::new();
        while let Some(part) = stream.recv().await? {
            sum.sum += part.add;
            sum.num += 1;
        }
        Ok(sum)
    }

    async fn divide_stream(
        &self,
        _: &TtrpcContext,
        sum: Sum,
        stream: ServerStreamSender<Part>,
    ) -> Result<()> {
        for _ in 0..sum.num {
            stream.send(&Part { add: sum.sum / sum.num, ..Default::default() }).await?;
        }
        Ok(())
    }

    async fn echo_null(
        &self,
        _: &TtrpcContext,
        mut stream: ServerStreamReceiver<EchoPayload>,
    ) -> Result<Empty> {
        while stream.recv().await?.is_some() {}
        Ok(Empty::new())
    }

    async fn echo_null_stream(
        &self,
        _: &TtrpcContext,
        mut stream: ServerStream<Empty, EchoPayload>,
    ) -> Result<()> {
        while stream.recv().await?.is_some() {
            stream.send(&Empty::new()).await?;
        }
        Ok(())
    }

    async fn empty_payload_stream(
        &self,
        _: &TtrpcContext,
        _: Empty,
        stream: ServerStreamSender<EchoPayload>,
    ) -> Result<()> {
        for seq in [1, 2] {
            stream.send(&EchoPayload { seq, ..Default::default() }).await?;
        }
        Ok(())
    }
}
