//! Peers of the interoperability tests and of the benchmark that use the crate ttrpc (tokio), in one binary:
//!
//!     ttrpc-peer serve URI               a server with the known answers; says "listening on URI"
//!     ttrpc-peer call URI SCENARIO...    a client; one JSON line for each scenario, with what it saw
//!     ttrpc-peer bench URI MODE SECONDS  a client that measures; one JSON line
//!
//! A URI is unix:///path, unix://@name (abstract) or tcp://host:port, with or without "ttrpc+" before it.
//! The scenarios are those of the peer in Go. The programs end when their stdin does.
//!
//! The runtime has one thread: with more, the client of this crate starts a task for each frame and so mixes
//! up the order of a stream's messages.

mod bench;
mod client;
mod generated;
mod server;

pub const USAGE: &str = "usage: ttrpc-peer serve URI | call URI SCENARIO... | bench URI MODE SECONDS";

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (Some(role), Some(uri)) = (arguments.first(), arguments.get(1)) else {
        fail(USAGE);
    };
    let uri = uri.strip_prefix("ttrpc+").unwrap_or(uri);
    match role.as_str() {
        "serve" => server::serve(uri).await,
        "call" => {
            end_with_stdin();
            client::call(uri, &arguments[2..]).await;
        }
        "bench" => {
            end_with_stdin();
            bench::bench(uri, &arguments[2..]).await;
        }
        _ => fail(USAGE),
    }
}

pub fn fail(text: &str) -> ! {
    eprintln!("ttrpc-peer: {text}");
    std::process::exit(1);
}

fn end_with_stdin() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
}
