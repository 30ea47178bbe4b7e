//! Lengths, shares, distributions and series.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use retrial_core::dialect::tree::{Data, Node};
use retrial_core::dialect::{Diagnostic, parse_duration};
use retrial_core::time::Nanos;

use crate::model::{Distribution, LONGEST, MOST_BYTES, MOST_POINTS, Series};

/// Nanoseconds in a second: the unit of a number where a length is meant.
pub const SECOND: u64 = 1_000_000_000;

/// Opens the files that a lab file names.
#[derive(Clone, Debug)]
pub struct Files(PathBuf);

impl Files {
    /// Names are relative to this folder.
    #[must_use]
    pub fn in_folder(folder: &Path) -> Self {
        Self(folder.to_path_buf())
    }

    /// The text of the file that `node` names.
    pub(super) fn text(&self, node: &Node) -> Result<String, Diagnostic> {
        let name = node.name()?;
        read_text(&self.0.join(name)).map_err(|why| {
            let error = node.place.error(format!("`{name}` can't be read: {why}"));
            error.help_with("name a text file, relative to this one")
        })
    }
}

/// Reads a text file of at most [`MOST_BYTES`].
///
/// # Errors
/// Why it can't be read.
pub fn read_text(path: &Path) -> Result<String, String> {
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(|e| e.to_string())?;
    file.take(MOST_BYTES + 1).read_to_string(&mut text).map_err(|e| e.to_string())?;
    if text.len() as u64 > MOST_BYTES {
        return Err(format!("it is larger than {} MiB", MOST_BYTES >> 20));
    }
    Ok(text)
}

/// A length above zero, at most `most`.
pub(super) fn length(node: &Node, most: Nanos) -> Result<Nanos, Diagnostic> {
    let found = node.duration(SECOND)?;
    if found.is_zero() || found > most {
        let error = node.place.error(format!("`{found}` is out of range"));
        return Err(error.help_with(format!("use more than 0 and at most {most}")));
    }
    Ok(found)
}

/// A length that may be zero.
pub(super) fn time(node: &Node) -> Result<Nanos, Diagnostic> {
    let found = node.duration(SECOND)?;
    if found > LONGEST {
        let error = node.place.error(format!("`{found}` is out of range"));
        return Err(error.help_with(format!("use at most {LONGEST}")));
    }
    Ok(found)
}

pub(super) fn share(node: &Node) -> Result<f64, Diagnostic> {
    Ok(f64::from(node.share()?.millionths()) / 1e6)
}

/// A number from 0 to `most`.
pub(super) fn number(node: &Node, most: f64) -> Result<f64, Diagnostic> {
    let found = node.millionths()? as f64 / 1e6;
    if found > most {
        let error = node.place.error(format!("`{found}` is out of range"));
        return Err(error.help_with(format!("use 0 to {most}")));
    }
    Ok(found)
}

const KINDS: [&str; 6] = ["constant", "uniform", "exponential", "normal", "lognormal", "empirical"];
const HELP: &str = "write a length such as \"10ms\", or one of { exponential = \"10ms\" }, { uniform = [\"5ms\", \
     \"15ms\"] }, { normal = [\"100ms\", \"10ms\"] }, { lognormal = { median = \"10ms\", sigma = 0.5 } \
     }, { empirical = [\"1ms\", \"3ms\"] }";

/// A distribution: a length, or a table with the name of its kind.
pub(super) fn distribution(node: &Node, files: &Files) -> Result<Distribution, Diagnostic> {
    let Data::Table(_) = &node.data else {
        return time(node).map(Distribution::Constant).map_err(|e| e.help_with(HELP));
    };
    let fields = node.fields(&KINDS)?;
    let Some((kind, node)) = fields.at_most_one(&KINDS)? else {
        return Err(node.place.error("the distribution has no kind").help_with(HELP));
    };
    Ok(match kind {
        "uniform" => {
            let [low, high] = pair(node)?;
            if high < low {
                let error = node.place.error("the second length is shorter than the first");
                return Err(error.help_with("write [shortest, longest]"));
            }
            Distribution::Uniform(low, high)
        }
        "exponential" => Distribution::Exponential(time(node)?),
        "normal" => {
            let [mean, deviation] = pair(node)?;
            Distribution::Normal(mean, deviation)
        }
        "lognormal" => {
            let help = "write { median = \"10ms\", sigma = 0.5 }";
            let fields = node.fields(&["median", "sigma"])?;
            let median = time(fields.require("median", help)?)?;
            let sigma = number(fields.require("sigma", help)?, 10.0)?;
            Distribution::Lognormal(median, (sigma * 1e6) as u32)
        }
        "empirical" => Distribution::Empirical(lengths(node, files)?.into()),
        _ => Distribution::Constant(time(node)?),
    })
}

fn pair(node: &Node) -> Result<[Nanos; 2], Diagnostic> {
    match node.items()? {
        [first, second] => Ok([time(first)?, time(second)?]),
        _ => Err(node.place.error("expected two lengths").help_with("write [\"5ms\", \"15ms\"]")),
    }
}

/// A list of lengths, or the name of a file with one a line.
fn lengths(node: &Node, files: &Files) -> Result<Vec<Nanos>, Diagnostic> {
    let found = if let Data::Text(_) = node.data {
        let text = files.text(node)?;
        let lines = (1..).zip(text.lines()).map(|(n, line)| (n, line.trim()));
        let lines = lines.filter(|(_, line)| !line.is_empty());
        lines.map(|(n, line)| cell(node, n, line).map(Nanos::new)).collect::<Result<_, _>>()?
    } else {
        node.items()?.iter().map(time).collect::<Result<Vec<_>, _>>()?
    };
    check_points(node, found.len())?;
    Ok(found)
}

fn check_points(node: &Node, points: usize) -> Result<(), Diagnostic> {
    match points {
        0 => Err(node.place.error("the list is empty").help_with("give at least one value")),
        n if n > MOST_POINTS => Err(node
            .place
            .error(format!("{n} values are too many"))
            .help_with(format!("give at most {MOST_POINTS}"))),
        _ => Ok(()),
    }
}

/// A length in a CSV file: with a unit, or in seconds.
fn cell(node: &Node, line: usize, text: &str) -> Result<u64, Diagnostic> {
    let seconds =
        || text.parse::<f64>().ok().filter(|n| (0.0..=LONGEST.get() as f64 / 1e9).contains(n));
    let found = parse_duration(text).ok().map(Nanos::get);
    found.or_else(|| seconds().map(|n| (n * 1e9) as u64)).ok_or_else(|| {
        let error = node.place.error(format!("line {line} of the file: `{text}` is no length"));
        error.help_with("use seconds, or a length with its unit")
    })
}

/// A series: a number, a list of `[time, number]`, or the name of a CSV file with these columns.
pub(super) fn series(node: &Node, most: f64, files: &Files) -> Result<Series, Diagnostic> {
    let points = match &node.data {
        Data::Number(_) => return number(node, most).map(Series::constant),
        Data::List(items) => {
            items.iter().map(|item| point(item, most)).collect::<Result<_, _>>()?
        }
        Data::Text(_) => trace(node, most, files)?,
        _ => {
            let error = node.place.error("expected a number over time");
            return Err(error.help_with(
                "write a number, a list such as [[\"0s\", 1], [\"60s\", 0.5]], or the name of a CSV file",
            ));
        }
    };
    check_points(node, points.len())?;
    Ok(Series::of(points))
}

fn point(node: &Node, most: f64) -> Result<(Nanos, f64), Diagnostic> {
    match node.items()? {
        [at, value] => Ok((time(at)?, number(value, most)?)),
        _ => {
            Err(node.place.error("expected a time and a number").help_with("write [\"60s\", 0.5]"))
        }
    }
}

/// The rows of a CSV file of time and value; a first row that is no number is its heading.
fn trace(node: &Node, most: f64, files: &Files) -> Result<Vec<(Nanos, f64)>, Diagnostic> {
    let text = files.text(node)?;
    let mut points: Vec<(Nanos, f64)> = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let refuse = |what: &str| {
            let error = node.place.error(format!("line {number} of the file: {what}"));
            error.help_with("write time,value in each line, such as 60,12.5, in order of time")
        };
        let (at, value) = line.split_once(',').ok_or_else(|| refuse("there is no comma"))?;
        if number == 1 && at.trim().starts_with(|c: char| c.is_alphabetic()) {
            continue;
        }
        let at = Nanos::new(cell(node, number, at.trim())?);
        let value = value.trim().parse::<f64>().ok().filter(|n| (0.0..=most).contains(n));
        let value =
            value.ok_or_else(|| refuse(&format!("the value is no number from 0 to {most}")))?;
        if points.last().is_some_and(|(before, _)| *before > at) {
            return Err(refuse("its time is before that of the line above"));
        }
        points.push((at, value));
    }
    Ok(points)
}
