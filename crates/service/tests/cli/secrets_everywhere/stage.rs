//! One run into which secrets are planted wherever text comes in, watched by every observer.

use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use retrial::action::{ActionSet, Context, HttpActions, Registry};
use retrial::dialect::{Environment, Format, parse_workflow};
use retrial::engine::{Config, Engine, Submission};
use retrial::failure::{ErrorContext, Failure};
use retrial::net::TcpConnect;
use retrial::observe::metrics::Metrics;
use retrial::observe::{JsonLines, Notice, Observer, Output, Printer, Statistics, feed, json};
use retrial::run::{self, Event, Outcome, RunState};
use retrial::runtime::TokioRuntime;
use retrial::store::{MemoryStore, Store};
use serde_json::{Value, json};

use crate::endpoint::{Answer, Endpoint};
use crate::secrets_everywhere::shapes::{Shape, all, secret};
use crate::secrets_everywhere::spans;
use crate::workspace::{Done, Workspace, done};

pub(crate) const IN_INPUT: &str = "payl0ad5ecretOfInput";
pub(crate) const IN_RESULT: &str = "payl0ad5ecretOfResult";
const IN_PATH: &str = "p4th5ecretOfUrl0aBcD";
const IN_QUERY: &str = "qu3ry5ecretOfUrl";
const IN_HEADER: &str = "h3ader5ecretLiteral";
const IN_VARIABLE: &str = "v4riable5ecretOfEnv";

/// The workflow, its endpoint and a folder.
pub(crate) struct Stage {
    pub(crate) workflow: String,
    endpoint: Endpoint,
    workspace: Workspace,
    shapes: Arc<Vec<Shape>>,
}

/// Paper of every kind.
#[derive(Default)]
pub(crate) struct Papers {
    pub(crate) piped: Paper,
    pub(crate) terminal: Paper,
    pub(crate) detailed: Paper,
    pub(crate) lines: Paper,
}

/// What one run left behind.
pub(crate) struct Played {
    pub(crate) printed: Papers,
    pub(crate) streamed: String,
    pub(crate) statistics: String,
    pub(crate) metrics: String,
    pub(crate) traced: String,
    pub(crate) stored_errors: String,
    pub(crate) state_errors: String,
    pub(crate) outcome: Outcome,
    /// The store's own bytes: no output.
    pub(crate) stored: String,
}

#[derive(Clone, Default)]
pub(crate) struct Paper(Arc<Mutex<Vec<u8>>>);

impl Paper {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

type Real = (TokioRuntime, Arc<MemoryStore<TokioRuntime>>, ActionSet<TcpConnect>);

/// Counts through a recorder of its own.
struct Counted(Metrics, DebuggingRecorder);

impl Observer for Counted {
    fn tell(&self, notice: &Notice<'_>) {
        metrics::with_local_recorder(&self.1, || self.0.tell(notice));
    }
}

/// What an endpoint says of a shape: as text, as an error object, nested, or as an exception.
fn body(shape: &Shape, nth: usize) -> &'static str {
    let text = shape.text.as_str();
    let said = match nth % 4 {
        0 => text.to_owned(),
        1 => json!({ "error": text }).to_string(),
        2 => json!({ "error": { "code": text, "message": text } }).to_string(),
        _ => json!({ "detail": { "inner": [text, { "text": text }] } }).to_string(),
    };
    // A test's own few bytes.
    Box::leak(said.into_boxed_str())
}

impl Stage {
    pub(crate) fn new() -> Self {
        let shapes = Arc::new(all());
        let said = Arc::clone(&shapes);
        let endpoint = Endpoint::new(move |seen| {
            let args: Value = serde_json::from_str(&seen.body).unwrap_or_default();
            let Some(n) = args["n"].as_u64() else {
                let echo = json!({ "echo": args, "note": IN_RESULT }).to_string();
                return Answer::Status(200, Box::leak(echo.into_boxed_str()));
            };
            let status = if seen.nth == 1 { 503 } else { 401 };
            Answer::Status(status, body(&said[n as usize], n as usize + seen.nth))
        });
        let url = endpoint.url(&format!("/{IN_PATH}/x?sig={IN_QUERY}&q={IN_QUERY}"));
        let numbers: Vec<usize> = (0..shapes.len()).collect();
        let workflow = format!(
            r#"workflow = "secrets"

[input]
note = "{IN_INPUT}"
password = "{}"
numbers = {numbers:?}

[actions.say]
http = "POST {url}"
headers = {{ x-api-key = "{IN_HEADER}", authorization = "env:SECRET" }}

[actions.echo]
http = "POST {url}"

[[steps]]
id = "echo"
action = "echo"
args = {{ note = "${{input.note}}", password = "${{input.password}}" }}

[[steps]]
id = "say"
action = "say"
after = ["echo"]
for_each = "${{input.numbers}}"
args = {{ n = "${{item}}", echoed = "${{steps.echo.result.note}}" }}
work_config = {{ max_retries = 1, backoff = 1 }}
"#,
            secret(900)
        );
        let workspace = Workspace::new();
        workspace.write("w.toml", &workflow);
        Self { workflow, endpoint, workspace, shapes }
    }

    /// Everything that was planted.
    pub(crate) fn needles(&self) -> Vec<String> {
        let planted = [IN_INPUT, IN_RESULT, IN_PATH, IN_QUERY, IN_HEADER, IN_VARIABLE];
        let mut needles: Vec<String> = planted.map(str::to_owned).to_vec();
        needles.push(secret(900));
        needles.push(secret(901));
        needles.extend(self.shapes.iter().map(|shape| shape.needle.clone()));
        needles
    }

    /// The endpoint was sent what it had to be sent.
    pub(crate) fn came_in(&self) {
        let seen = self.endpoint.seen();
        assert!(seen.len() > self.shapes.len());
        assert!(seen.iter().all(|s| s.path.contains(IN_PATH) && s.path.contains(IN_QUERY)));
        assert!(seen.iter().any(|s| s.header("x-api-key") == IN_HEADER));
        assert!(seen.iter().any(|s| s.header("authorization").contains(IN_VARIABLE)));
        assert!(seen.iter().any(|s| s.body.contains(IN_INPUT)));
    }

    /// The binary, at the finest level of logging.
    pub(crate) fn command(&self, args: &[&str]) -> Done {
        let mut command = self.workspace.command(args);
        command.env("SECRET", format!("Bearer {IN_VARIABLE}")).env("RETRIAL_LOG", "trace");
        done(command)
    }

    /// The run in this process, and beside it one whose function fails with a stack trace.
    pub(crate) async fn play(&self) -> Played {
        let printed = Papers::default();
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let counted = metrics::with_local_recorder(&recorder, Metrics::new);
        let (feed, mut notices) = feed(NonZeroUsize::new(10_000).unwrap());
        let printer = |paper: &Paper, output| -> Arc<dyn Observer> {
            Arc::new(Printer::new(paper.clone(), output))
        };
        let observers: Vec<Arc<dyn Observer>> = vec![
            printer(&printed.piped, Output::Auto { terminal: false }),
            printer(&printed.terminal, Output::Auto { terminal: true }),
            printer(&printed.detailed, Output::Detailed),
            Arc::new(JsonLines::new(printed.lines.clone())),
            Arc::new(Counted(counted, recorder)),
            Arc::new(feed),
        ];
        let log = Paper::default();
        let traced = spans::capture(log.clone());
        let runtime = TokioRuntime::current();
        let store = Arc::new(MemoryStore::new(runtime.clone()));
        let http = HttpActions::new(TcpConnect::new(), |name| {
            (name == "SECRET").then(|| format!("Bearer {IN_VARIABLE}"))
        });
        let mut registry = Registry::new();
        registry.register("crash", crash);
        let actions = ActionSet::new(registry, http);
        let engine = Engine::<Real>::start(
            runtime,
            Arc::clone(&store),
            actions,
            Config::default(),
            observers,
        )
        .await;
        let ended = run(&engine, &self.workflow).await;
        let crashed = run(&engine, CRASH).await;
        let mut stored = String::new();
        let mut stored_errors = String::new();
        for state in [&ended, &crashed] {
            let loaded = store.load(state.id(), None).await.unwrap().unwrap();
            for bytes in loaded.tail.events.iter().chain(loaded.snapshot.iter().map(|s| &s.state)) {
                stored += &String::from_utf8_lossy(bytes);
            }
            for row in &loaded.tail.results {
                stored += &String::from_utf8_lossy(&row.result);
            }
            for bytes in &loaded.tail.events {
                stored_errors += &errors(&run::decode(bytes).unwrap().event);
            }
        }
        engine.shutdown().await;
        drop(traced);
        let mut statistics = Statistics::default();
        let mut streamed = String::new();
        while let Some(Ok(notice)) = notices.next().await {
            statistics.take(&notice.notice());
            streamed += &Value::Object(json::object(&notice.notice())).to_string();
        }
        Played {
            printed,
            streamed,
            statistics: format!("{statistics}{}", statistics.times()),
            metrics: shown(&snapshotter),
            traced: log.text(),
            stored_errors,
            state_errors: state_errors(&ended) + &state_errors(&crashed),
            outcome: ended.outcome().unwrap().clone(),
            stored,
        }
    }
}

const CRASH: &str = "workflow = \"crash\"\n[[steps]]\nid = \"crash\"\naction = \"crash\"\n";

async fn crash(_: Context) -> Result<Value, Failure> {
    let secret = secret(901);
    let failure = Failure::exception("CrashError", &format!("token={secret}"), &[]);
    Err(failure.with_stack_trace(&format!("at login(password=\"{secret}\")\nat main()")))
}

async fn run(engine: &Engine<Real>, text: &str) -> RunState {
    let document = parse_workflow("w.toml", text, Format::Toml, &Environment::default()).unwrap();
    let submission = Submission::new(Arc::new(document.workflow));
    let submitted = engine.submit(submission).await.unwrap();
    engine.outcome(submitted.run).await.unwrap().state
}

/// The errors that an event stores.
fn errors(event: &Event) -> String {
    match event {
        Event::AttemptFailed { failure, .. } => format!("{failure:?}\n"),
        Event::AttemptStarted { retry: Some(retry), .. } => format!("{retry:?}\n"),
        Event::TaskFailed { error, .. } | Event::StepFailed { error, .. } => format!("{error:?}\n"),
        Event::RunEnded { outcome, .. } => format!("{outcome:?}\n"),
        _ => String::new(),
    }
}

fn state_errors(state: &RunState) -> String {
    let of = |error: &Option<ErrorContext>| format!("{error:?}\n");
    let steps = state.steps().iter().map(|step| of(&step.error) + &of(&step.last_error));
    let tasks = state.tasks().map(|(_, task)| format!("{:?} {:?}\n", task.failure, task.phase));
    steps.chain(tasks).collect()
}

fn shown(snapshotter: &metrics_util::debugging::Snapshotter) -> String {
    let series = snapshotter.snapshot().into_vec();
    let line =
        |(key, _, help, value): &(_, _, _, DebugValue)| format!("{key:?} {help:?} {value:?}\n");
    series.iter().map(line).collect()
}
