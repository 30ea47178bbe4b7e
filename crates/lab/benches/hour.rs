//! How long do 1,000 clients take for a simulated hour?
#![allow(missing_docs)]
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

use std::hint::black_box;
use std::path::Path;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use retrial_lab::read::{self, Files};
use retrial_lab::world;

/// Each client calls again a second after its last call has ended: about three million calls. The
/// service pauses, so retries, timeouts, a budget and a full queue are part of it.
const HOUR: &str = "length = \"1h\"\n\
    [clients.web]\ncount = 1000\narrivals = { closed = { exponential = \"1s\" } }\nto = \"api\"\nlatency = \"1ms\"\n\
    retry = \"[retry: 3, backoff: 100ms] [timeout: 1s]\"\nretry_budget = 0.1\n\
    [services.api]\nworkers = 120\ntime = { exponential = \"100ms\" }\nqueue = { capacity = 1000 }\n\
    [[triggers]]\nkind = \"pause\"\non = \"api\"\nat = \"10m\"\nlength = \"30s\"\n";

fn hour(c: &mut Criterion) {
    let scenario = read::scenario("hour.toml", HOUR, &Files::in_folder(Path::new("."))).unwrap();
    let calls = world::run(&scenario, 1).total.edges[0].attempts;
    let mut group = c.benchmark_group("hour");
    group.throughput(Throughput::Elements(calls)).sample_size(10);
    group.bench_function("1,000 clients", |b| b.iter(|| black_box(world::run(&scenario, 1))));
    group.finish();
}

criterion_group!(benches, hour);
criterion_main!(benches);
