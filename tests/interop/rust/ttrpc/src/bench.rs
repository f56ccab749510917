//! A client that measures, in the modes of the peer in Go.

use std::time::{Duration, Instant};

use serde_json::json;
use ttrpc::asynchronous::Client;
use ttrpc::context::Context;
use ttrpc::Result;

use crate::generated::streaming::{EchoPayload, Part, Sum};
use crate::generated::streaming_ttrpc::StreamingClient;

const IN_FLIGHT: usize = 50;
const PER_STREAM: i32 = 5000;

/// Measures for so many seconds, after a tenth of that time to warm up.
pub async fn bench(uri: &str, arguments: &[String]) {
    let [mode, seconds] = arguments else {
        crate::fail(crate::USAGE);
    };
    let Ok(seconds) = seconds.parse::<f64>() else {
        crate::fail(crate::USAGE);
    };
    let client = Client::connect(uri).await.unwrap_or_else(|error| crate::fail(&error.to_string()));
    let service = StreamingClient::new(client);
    measure(mode, &service, seconds / 10.0).await;
    let (count, took) = measure(mode, &service, seconds).await;
    let rate = count as f64 / took;
    println!("{}", json!({"mode": mode, "count": count, "seconds": took, "per_second": rate}));
}

async fn measure(mode: &str, service: &StreamingClient, seconds: f64) -> (u64, f64) {
    let start = Instant::now();
    let until = start + Duration::from_secs_f64(seconds);
    let count = match mode {
        "sequential" => sequential(service.clone(), until).await,
        "concurrent" => concurrent(service, until).await,
        "client_stream" => client_stream(service, until).await,
        "server_stream" => server_stream(service, until).await,
        "bidi_stream" => bidi_stream(service, until).await,
        _ => crate::fail(&format!("no mode {mode:?}")),
    };
    let count = count.unwrap_or_else(|error| crate::fail(&error.to_string()));
    (count, start.elapsed().as_secs_f64())
}

fn hello(seq: u64) -> EchoPayload {
    EchoPayload { seq: seq as u32, msg: "hello".to_string(), ..Default::default() }
}

async fn sequential(service: StreamingClient, until: Instant) -> Result<u64> {
    let mut count = 0;
    while Instant::now() < until {
        let answer = service.echo(Context::default(), &hello(count)).await?;
        assert_eq!(u64::from(answer.seq), count + 1);
        count += 1;
    }
    Ok(count)
}

async fn concurrent(service: &StreamingClient, until: Instant) -> Result<u64> {
    let tasks: Vec<_> = (0..IN_FLIGHT).map(|_| tokio::spawn(sequential(service.clone(), until))).collect();
    let mut count = 0;
    for task in tasks {
        count += task.await.expect("a task that ends")?;
    }
    Ok(count)
}

async fn client_stream(service: &StreamingClient, until: Instant) -> Result<u64> {
    let mut count = 0;
    while Instant::now() < until {
        let mut stream = service.sum_stream(Context::default()).await?;
        for _ in 0..PER_STREAM {
            stream.send(&Part { add: 1, ..Default::default() }).await?;
        }
        assert_eq!(stream.close_and_recv().await?.num, PER_STREAM);
        count += PER_STREAM as u64;
    }
    Ok(count)
}

async fn server_stream(service: &StreamingClient, until: Instant) -> Result<u64> {
    let mut count = 0;
    while Instant::now() < until {
        let request = Sum { sum: PER_STREAM, num: PER_STREAM, ..Default::default() };
        let mut stream = service.divide_stream(Context::default(), &request).await?;
        let mut here = 0;
        while stream.recv().await?.is_some() {
            here += 1;
        }
        assert_eq!(here, PER_STREAM);
        count += here as u64;
    }
    Ok(count)
}

async fn bidi_stream(service: &StreamingClient, until: Instant) -> Result<u64> {
    let mut stream = service.echo_stream(Context::default()).await?;
    let mut count = 0;
    while Instant::now() < until {
        stream.send(&hello(count)).await?;
        stream.recv().await?;
        count += 1;
    }
    stream.close_send().await?;
    Ok(count)
}
