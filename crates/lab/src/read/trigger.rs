//! `[[triggers]]`.

use retrial_core::dialect::Diagnostic;
use retrial_core::dialect::tree::{Data, Entry, Fields, Node};
use retrial_core::time::Nanos;

use super::Names;
use super::value::{Files, length, number, share, time};
use crate::model::{Arrivals, Class, MOST_PARTS, Trigger, TriggerKind};

const KEYS: [&str; 7] = ["kind", "on", "at", "length", "factor", "share", "parts"];
const KINDS: [&str; 8] =
    ["spike", "pause", "capacity", "errors", "slow", "crash", "deploy", "loss"];

/// Reads the triggers of a run of this length: a list, or the name of a CSV file.
pub(super) fn read(
    node: &Node,
    names: &Names,
    classes: &[Class],
    run: Nanos,
    files: &Files,
) -> Result<Vec<Trigger>, Diagnostic> {
    let many = |n: usize| match n {
        n if n > MOST_PARTS => Err(node
            .place
            .error("there are too many triggers")
            .help_with(format!("use at most {MOST_PARTS}"))),
        _ => Ok(()),
    };
    if let Data::Text(_) = node.data {
        let text = files.text(node)?;
        let lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
        let lines: Vec<_> =
            lines.filter(|(n, line)| *n > 1 || !line.starts_with("kind,")).collect();
        many(lines.len())?;
        let one = |(n, line): (usize, &str)| {
            let read = row(node, line).and_then(|row| trigger(&row, names, classes, run));
            read.map_err(|e| {
                let error = node.place.error(format!("line {n} of the file: {}", e.message()));
                error.help_with(e.help().unwrap_or(ROW))
            })
        };
        return lines.into_iter().map(one).collect();
    }
    let items = node.items()?;
    many(items.len())?;
    items.iter().map(|item| trigger(item, names, classes, run)).collect()
}

const ROW: &str = "write kind,on,at,length,amount in each line, such as capacity,api,60,30s,0.5";

/// A line of a CSV file as the table that it stands for.
fn row(node: &Node, line: &str) -> Result<Node, Diagnostic> {
    let cells: Vec<&str> = line.split(',').map(str::trim).collect();
    if !(4..=5).contains(&cells.len()) {
        return Err(node.place.error("it has no four or five cells").help_with(ROW));
    }
    let amount = match cells.first().copied() {
        Some("spike" | "slow") => "factor",
        Some("deploy") => "parts",
        _ => "share",
    };
    let named = ["kind", "on", "at", "length", amount].into_iter().zip(cells);
    let named = named.filter(|(_, cell)| !cell.is_empty()).map(|(key, cell)| {
        let number = !["kind", "on"].contains(&key) && cell.parse::<f64>().is_ok();
        let data = if number { Data::Number(cell.into()) } else { Data::Text(cell.into()) };
        let place = node.place.child(key);
        Entry { key: key.to_owned(), place: place.clone(), node: Node { place, data } }
    });
    Ok(Node { place: node.place.clone(), data: Data::Table(named.collect()) })
}

fn trigger(
    node: &Node,
    names: &Names,
    classes: &[Class],
    run: Nanos,
) -> Result<Trigger, Diagnostic> {
    let fields = node.fields(&KEYS)?;
    let kinds = KINDS.map(|kind| (kind, kind));
    let word = fields.require("kind", &format!("use {}", KINDS.join(", ")))?;
    let kind = word.choice(&kinds)?;
    let at = time(fields.require("at", "write at = \"60s\"")?)?;
    let length_node = fields.require("length", "write length = \"30s\"")?;
    let lasts = length(length_node, run)?;
    if at.saturating_add(lasts) >= run {
        let error = length_node.place.error("the trigger does not end before the run does");
        return Err(
            error.help_with(format!("the run lasts {run}: begin sooner, or run for longer"))
        );
    }
    Ok(Trigger { kind: kind_of(kind, &fields, names, classes)?, at, length: lasts })
}

fn kind_of(
    kind: &str,
    fields: &Fields<'_>,
    names: &Names,
    classes: &[Class],
) -> Result<TriggerKind, Diagnostic> {
    let on = fields.require("on", "name what it happens to: on = \"api\"")?;
    for key in ["factor", "share", "parts"] {
        let wanted = match kind {
            "spike" | "slow" => "factor",
            "capacity" | "errors" | "loss" => "share",
            "deploy" => "parts",
            _ => "",
        };
        if let Some(node) = fields.get(key).filter(|_| key != wanted) {
            let error = node.place.error(format!("`{key}` has no effect on `{kind}`"));
            return Err(error.help_with("leave it out"));
        }
    }
    let factor = || number(fields.require("factor", "write factor = 3")?, 1_000.0);
    let part = || share(fields.require("share", "write share = 0.5")?);
    let service = || Names::find(&names.services, on);
    Ok(match kind {
        "spike" => {
            let class = Names::find(&names.classes, on)?;
            if !matches!(classes[class].arrivals, Arrivals::Open { .. }) {
                let error = on.place.error("a spike needs an open stream");
                return Err(error.help_with("use arrivals = { poisson = 70 } or constant"));
            }
            TriggerKind::Spike(class, factor()?)
        }
        "pause" => TriggerKind::Pause(service()?),
        "capacity" => TriggerKind::Capacity(service()?, part()?),
        "errors" => TriggerKind::Errors(service()?, part()?),
        "slow" => TriggerKind::Slow(service()?, factor()?),
        "crash" => TriggerKind::Crash(service()?),
        "deploy" => {
            let parts = fields.require("parts", "write parts = 4")?;
            TriggerKind::Deploy(service()?, parts.count(1, 1_000)?)
        }
        _ => TriggerKind::Loss(Names::find(&names.edges, on)?, part()?),
    })
}
