//! What reading any text costs at most, in memory and in steps. A program of its own: it counts every
//! byte that the process allocates.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failing test panics")]

mod constructs;
mod memory;
mod steps;

use std::fmt::{Display, Write};

use constructs::Kind;
use retrial_core::dialect::{
    Declarations, Diagnostic, Diagnostics, Document, Environment, Policies, masked_program,
    masked_workflow, parse_ir_program, parse_policy, parse_workflow, write,
};
use retrial_core::explain::{explain, explain_all};
use retrial_core::failure::sanitise;
use retrial_core::policy::Functions;

/// Does all with `text` that the service or the command line does with a definition. Gives how much
/// it says of it, so that nothing is left out.
fn read(kind: Kind, text: &str) -> usize {
    let environment = Environment::default();
    match kind {
        Kind::Workflow(format) => {
            let masked = masked_workflow("w", text, format).map_or(0, |text| text.len());
            masked + said(parse_workflow("w", text, format, &environment))
        }
        Kind::Program => {
            let masked = masked_program("w", text).map_or(0, |text| text.len());
            let declared = Declarations::default();
            masked + said(parse_ir_program("w.ir", text, &declared, &environment))
        }
        Kind::Policy => match parse_policy("p", text, None, &environment) {
            Ok(Policies::One(policy)) => {
                let explained = explain(&policy, None, &Functions::default());
                length(&explained) + write::own(&policy).map_or(0, |text| text.len())
            }
            Ok(_) => 0,
            Err(found) => all_said(&found),
        },
        Kind::Masked => sanitise::message(text, text.len()).len(),
    }
}

/// Writes a definition as it is stored. That is bounded and not linear: each step has its own copy of
/// a policy.
fn write_down(kind: Kind, text: &str) -> usize {
    let environment = Environment::default();
    let document = match kind {
        Kind::Workflow(format) => parse_workflow("w", text, format, &environment).ok(),
        Kind::Program => {
            parse_ir_program("w.ir", text, &Declarations::default(), &environment).ok()
        }
        Kind::Policy | Kind::Masked => None,
    };
    let stored = document.map(|d| serde_json::to_vec(&d.workflow).expect("it can be written"));
    stored.map_or(0, |bytes| bytes.len())
}

fn said(document: Result<Document, Diagnostics>) -> usize {
    match document {
        Ok(document) => {
            let count = document.workflow.steps().len();
            let explained = explain_all(&Policies::of(document), Some(1), &Functions::default());
            count + length(&explained)
        }
        Err(found) => all_said(&found),
    }
}

fn all_said(found: &[Diagnostic]) -> usize {
    found.iter().map(length).sum()
}

/// The length of `said` as text, of which nothing is kept.
fn length(said: &impl Display) -> usize {
    struct Length(usize);
    impl Write for Length {
        fn write_str(&mut self, text: &str) -> std::fmt::Result {
            self.0 += text.len();
            Ok(())
        }
    }
    let mut length = Length(0);
    let _ = write!(length, "{said}");
    length.0
}
