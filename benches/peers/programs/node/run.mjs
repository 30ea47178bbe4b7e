// Graphile Worker on Node: node run.mjs PHASE JOBS AT_ONCE, with its local queue of 500 jobs and
// completions in batches. See ../kit for what is asked and answered.
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const [phase, jobs, atOnce] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])];
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 40 });
// Connections are cut when it ends.
pool.on("error", () => {});
pool.on("connect", (client) => client.on("error", () => {}));
const logger = new Logger(() => () => {});
const took = (since) => console.log((performance.now() - since) / 1000);

const SUBMIT = `SELECT graphile_worker.add_jobs(array(
  SELECT json_populate_record(null::graphile_worker.job_spec,
    json_build_object('identifier', 'nothing', 'payload', json_build_object('job', job)))
  FROM generate_series($1::int, $2::int) job))`;

if (phase === "setup") {
  const utils = await makeWorkerUtils({ pgPool: pool, logger });
  await utils.migrate();
  await utils.release();
} else if (phase === "submit") {
  await pool.query("SELECT 1");
  const begun = performance.now();
  for (let first = 0; first < jobs; first += 500) {
    await pool.query(SUBMIT, [first, Math.min(first + 500, jobs) - 1]);
  }
  took(begun);
} else if (phase === "work") {
  const begun = performance.now();
  let done = 0;
  let allDone;
  const all = new Promise((resolve) => (allDone = resolve));
  const nothing = async () => {
    if (++done === jobs) allDone();
  };
  const runner = await run({
    pgPool: pool,
    concurrency: Math.min(atOnce, 24),
    pollInterval: 500,
    logger,
    noHandleSignals: true,
    taskList: { nothing },
    preset: {
      worker: { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
    },
  });
  await all;
  const left = "SELECT count(*)::int AS left FROM graphile_worker._private_jobs";
  while ((await pool.query(left)).rows[0].left > 0) {
    await new Promise((resolve) => setTimeout(resolve, 3));
  }
  took(begun);
  await runner.stop();
} else {
  throw new Error(`no phase is called ${phase}`);
}
await pool.end();
process.exit(0);
