//! How many seeds run and are judged in a second, by topology?
#![allow(missing_docs)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use retrial_sim::unstable::scenario::Topology;
use retrial_sim::unstable::source::Source;
use retrial_sim::unstable::workload;
use retrial_sim::unstable::world::run_seed;

/// Seeds of a sample.
const SEEDS: usize = 32;

fn seeds(c: &mut Criterion) {
    let mut group = c.benchmark_group("seeds");
    group.throughput(Throughput::Elements(SEEDS as u64)).sample_size(10);
    group.warm_up_time(Duration::from_millis(300));
    group.measurement_time(Duration::from_secs(3));
    for (name, shared) in [("embedded", false), ("shared", true)] {
        let fits = |seed: &u64| (workload::draw(*seed).topology != Topology::Embedded) == shared;
        let chosen: Vec<u64> = (0..).filter(fits).take(SEEDS).collect();
        group.bench_function(name, |b| {
            b.iter(|| {
                for seed in &chosen {
                    black_box(run_seed(&Source::Drawn, *seed, false));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, seeds);
criterion_main!(benches);
