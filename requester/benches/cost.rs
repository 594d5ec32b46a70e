//! What a call through the requester costs over the same call with bare reqwest: on loopback, in one run.
//!
//! Criterion shows each by itself. Then both take turns in small batches, so that a busy machine slows both down alike,
//! and the difference of their medians is printed.

use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use frigg_requester::{Auth, Requester};
use tokio::runtime::Runtime;
use tokio::time::Instant;

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nx-ratelimit-remaining: 99\r\n\
    x-ratelimit-reset: 10\r\ncontent-length: 11\r\n\r\n{\"ok\":true}";

/// Answers every request with the same.
fn server() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                let _ = stream.set_nodelay(true);
                while matches!(stream.read(&mut buffer), Ok(1..)) {
                    if stream.write_all(ANSWER).is_err() {
                        return;
                    }
                }
            });
        }
    });
    url
}

struct Calls {
    runtime: Runtime,
    url: String,
    bare: reqwest::Client,
    requester: Requester,
    paced: Requester,
}

impl Calls {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let url = server();
        let builder = || Requester::builder(&*url).auth(Auth::bearer("token"));
        Calls {
            runtime: runtime.expect("a runtime"),
            bare: reqwest::Client::builder()
                .user_agent("bare")
                .build()
                .expect("a client"),
            requester: builder().build().expect("a requester"),
            paced: builder().pacing(true).build().expect("a requester"),
            url,
        }
    }

    fn bare(&self) {
        self.runtime.block_on(async {
            let request = self.bare.get(format!("{}/v1/contacts/7", self.url));
            let request = request
                .bearer_auth("token")
                .query(&[("archived", "false")])
                .timeout(Duration::from_secs(60));
            let answer = request.send().await.and_then(reqwest::Response::error_for_status);
            black_box(answer.expect("200").bytes().await.expect("a body"));
        });
    }

    fn requester(&self, requester: &Requester) {
        self.runtime.block_on(async {
            let request = requester.get("/v1/contacts/7").query(&[("archived", "false")]);
            black_box(request.send().await.expect("200").bytes().await.expect("a body"));
        });
    }
}

fn cost(criterion: &mut Criterion) {
    let calls = Calls::new();
    let mut group = criterion.benchmark_group("call");
    group.bench_function("bare reqwest", |bench| bench.iter(|| calls.bare()));
    group.bench_function("requester", |bench| {
        bench.iter(|| calls.requester(&calls.requester))
    });
    group.bench_function("requester, paced", |bench| {
        bench.iter(|| calls.requester(&calls.paced))
    });
    group.finish();

    let turns = 400;
    let time = |call: &dyn Fn()| {
        let start = Instant::now();
        (0..20).for_each(|_| call());
        start.elapsed() / 20
    };
    let mut times: [Vec<Duration>; 3] = Default::default();
    for _ in 0..turns {
        times[0].push(time(&|| calls.bare()));
        times[1].push(time(&|| calls.requester(&calls.requester)));
        times[2].push(time(&|| calls.requester(&calls.paced)));
    }
    let [bare, plain, paced] = times.map(|mut times| {
        times.sort_unstable();
        times[turns / 2].as_secs_f64() * 1e6
    });
    #[expect(clippy::print_stdout, reason = "the result")]
    for (name, time) in [("requester", plain), ("requester, paced", paced)] {
        println!(
            "{name}: {time:.1} µs, {:+.1} % over bare reqwest's {bare:.1} µs",
            (time / bare - 1.0) * 100.0
        );
    }
}

criterion_group!(benches, cost);
criterion_main!(benches);
