//! A client that runs scenarios one after the other, on one connection.

use std::collections::HashMap;
use std::time::Duration;

use serde_json::{json, Value};
use ttrpc::asynchronous::Client;
use ttrpc::context::{self, Context};
use ttrpc::{Error, Result};

use crate::generated::streaming::{EchoPayload, Empty, Part, Sum};
use crate::generated::streaming_ttrpc::StreamingClient;

type Answers = Vec<Value>;

fn payload(seq: u32, msg: &str) -> EchoPayload {
    EchoPayload { seq, msg: msg.to_string(), ..Default::default() }
}

/// The fields of an answer that are not zero, as the peer in Go prints them.
fn told(answer: &EchoPayload) -> Value {
    let mut fields = json!({});
    if answer.seq != 0 {
        fields["seq"] = json!(answer.seq);
    }
    if answer.msg.len() > 1000 {
        fields["length"] = json!(answer.msg.len());
    } else if !answer.msg.is_empty() {
        fields["msg"] = json!(answer.msg);
    }
    fields
}

fn told_sum(sum: &Sum) -> Value {
    match (sum.sum, sum.num) {
        (0, 0) => json!({}),
        (sum, num) => json!({"sum": sum, "num": num}),
    }
}

pub async fn call(uri: &str, names: &[String]) {
    let client = Client::connect(uri).await.unwrap_or_else(|error| crate::fail(&error.to_string()));
    let service = StreamingClient::new(client.clone());
    for name in names {
        let mut answers = Answers::new();
        let (code, text) = match run(name, &client, &service, &mut answers).await {
            Ok(()) => (0, String::new()),
            Err(Error::RpcStatus(status)) => (status.code.value(), status.message.clone()),
            Err(error) => (-1, error.to_string()),
        };
        println!("{}", json!({"scenario": name, "answers": answers, "code": code, "error": text}));
    }
}

async fn run(name: &str, client: &Client, service: &StreamingClient, answers: &mut Answers) -> Result<()> {
    let plain = || Context::default();
    match name {
        "echo" => echo(service, plain(), "hi", answers).await,
        "empty" => echo(service, plain(), "", answers).await,
        "error" => echo(service, plain(), "err", answers).await,
        "no_deadline" => echo(service, plain(), "deadline", answers).await,
        "big_answer" => echo(service, plain(), "big", answers).await,
        "large" => echo(service, plain(), &"y".repeat((4 << 20) - 100), answers).await,
        "oversize" => echo(service, plain(), &"y".repeat(4 << 20), answers).await,
        "sleep" | "until_closed" => {
            // The tests act while the call runs.
            println!("{}", json!({"calling": "sleep"}));
            echo(service, plain(), "sleep", answers).await
        }
        "deadline" => echo(service, timeout(20_000), "deadline", answers).await,
        "own_deadline" => echo(service, timeout(100), "sleep", answers).await,
        "metadata" => {
            let values = vec!["one".to_string(), "two".to_string()];
            let metadata = HashMap::from([("some-key".to_string(), values)]);
            echo(service, context::with_metadata(metadata), "md", answers).await
        }
        "concurrent" => concurrent(service, answers).await,
        "server_deadline" => server_deadline(client, answers).await,
        "no_service" => missing(client, "no.such.Service", "Echo").await,
        "no_method" => missing(client, "ttrpc.integration.streaming.Streaming", "Nothing").await,
        _ => crate::client::stream(name, service, answers).await,
    }
}

fn timeout(milliseconds: i64) -> Context {
    context::with_timeout(milliseconds * 1_000_000)
}

async fn echo(service: &StreamingClient, context: Context, msg: &str, answers: &mut Answers) -> Result<()> {
    answers.push(told(&service.echo(context, &payload(1, msg)).await?));
    Ok(())
}

/// 50 calls in flight; it counts those with the right answers.
async fn concurrent(service: &StreamingClient, answers: &mut Answers) -> Result<()> {
    let mut tasks = Vec::new();
    for number in 0..50 {
        let service = service.clone();
        tasks.push(tokio::spawn(async move {
            let request = payload(number, &format!("call {number}"));
            let answer = service.echo(Context::default(), &request).await?;
            Ok::<bool, Error>(answer.seq == number + 1 && answer.msg == request.msg)
        }));
    }
    let mut right = 0;
    for task in tasks {
        right += i32::from(task.await.expect("a task that ends")?);
    }
    answers.push(json!({"num": right}));
    Ok(())
}

/// The client of this crate waits no longer than the timeout that it sends, so this one is sent beside it:
/// the request of a stream is not waited for.
async fn server_deadline(client: &Client, answers: &mut Answers) -> Result<()> {
    let mut request = request("ttrpc.integration.streaming.Streaming", "Echo");
    request.payload = protobuf::Message::write_to_bytes(&payload(1, "sleep")).expect("bytes");
    request.timeout_nano = 50_000_000;
    let mut stream = client.new_stream(request, false, true).await?;
    stream.recv().await?;
    answers.push(json!({}));
    Ok(())
}

fn request(service: &str, method: &str) -> ttrpc::Request {
    ttrpc::Request { service: service.to_string(), method: method.to_string(), ..Default::default() }
}

async fn missing(client: &Client, service: &str, method: &str) -> Result<()> {
    client.request(request(service, method)).await.map(|_| ())
}

async fn stream(name: &str, service: &StreamingClient, answers: &mut Answers) -> Result<()> {
    let context = Context::default();
    match name {
        "echo_stream" => echo_stream(service, answers).await,
        "stream_error" => {
            let mut stream = service.echo_stream(context).await?;
            for msg in ["item", "err"] {
                stream.send(&payload(1, msg)).await?;
                answers.push(told(&stream.recv().await?));
            }
            Ok(())
        }
        "sum_stream" | "sum_nothing" => {
            let mut stream = service.sum_stream(context).await?;
            // The first part is 0: an empty message.
            for add in 0..if name == "sum_stream" { 100 } else { 0 } {
                stream.send(&Part { add, ..Default::default() }).await?;
            }
            answers.push(told_sum(&stream.close_and_recv().await?));
            Ok(())
        }
        "divide_stream" => divide(service, 12, 4, answers).await,
        "divide_by_none" => divide(service, 12, 0, answers).await,
        "echo_null" => {
            let mut stream = service.echo_null(context).await?;
            for seq in 0..10 {
                stream.send(&payload(seq, "item")).await?;
            }
            stream.close_and_recv().await?;
            answers.push(json!({}));
            Ok(())
        }
        "echo_null_stream" => {
            let mut stream = service.echo_null_stream(context).await?;
            for seq in 0..10 {
                stream.send(&payload(seq, "")).await?;
                stream.recv().await?;
                answers.push(json!({}));
            }
            stream.close_send().await?;
            end_of(stream.recv().await)
        }
        "empty_payload_stream" => {
            let mut stream = service.empty_payload_stream(context, &Empty::new()).await?;
            while let Some(answer) = stream.recv().await? {
                answers.push(told(&answer));
            }
            Ok(())
        }
        "abandoned" => {
            // It is dropped here: ttrpc has no frame for that, so the server does not learn it.
            let mut stream = service.echo_stream(context).await?;
            stream.send(&payload(1, "item")).await?;
            answers.push(told(&stream.recv().await?));
            Ok(())
        }
        "interleaved" => interleaved(service, answers).await,
        _ => crate::fail(&format!("no scenario {name:?}")),
    }
}

fn end_of<T>(result: Result<T>) -> Result<()> {
    match result {
        Err(Error::Eof) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(Error::Others("a message after the last one".to_string())),
    }
}

async fn echo_stream(service: &StreamingClient, answers: &mut Answers) -> Result<()> {
    let mut stream = service.echo_stream(Context::default()).await?;
    for number in 0..5 {
        stream.send(&payload(2 * number, "item")).await?;
        answers.push(told(&stream.recv().await?));
    }
    // An empty message is a message.
    stream.send(&EchoPayload::new()).await?;
    answers.push(told(&stream.recv().await?));
    stream.close_send().await?;
    end_of(stream.recv().await)
}

async fn divide(service: &StreamingClient, sum: i32, num: i32, answers: &mut Answers) -> Result<()> {
    let request = Sum { sum, num, ..Default::default() };
    let mut stream = service.divide_stream(Context::default(), &request).await?;
    while let Some(part) = stream.recv().await? {
        answers.push(json!({"add": part.add}));
    }
    Ok(())
}

async fn echo_numbered(service: &StreamingClient, seq: u32, answers: &mut Answers) -> Result<()> {
    answers.push(told(&service.echo(Context::default(), &payload(seq, "unary")).await?));
    Ok(())
}

/// Unary calls and two streams on one connection.
async fn interleaved(service: &StreamingClient, answers: &mut Answers) -> Result<()> {
    let mut sums = service.sum_stream(Context::default()).await?;
    let mut echoes = service.echo_stream(Context::default()).await?;
    for number in 0..20 {
        sums.send(&Part { add: number as i32, ..Default::default() }).await?;
        echoes.send(&payload(number, "stream")).await?;
        echo_numbered(service, number, answers).await?;
        answers.push(told(&echoes.recv().await?));
    }
    echoes.close_send().await?;
    let sum = tokio::time::timeout(Duration::from_secs(10), sums.close_and_recv());
    answers.push(told_sum(&sum.await.expect("an answer in time")?));
    Ok(())
}
