//! Workflow definitions by name, and what nodes report.

use bytes::Bytes;

use super::kit::{Bench, SOON, Wrong, matched, same};
use crate::store::{Defined, Definition, Report, Store, StoredDefinition};

type Held = Result<(), Wrong>;

fn definition(name: &str, format: &str, text: &'static [u8]) -> Definition {
    let text = Bytes::from_static(text);
    Definition { name: name.to_owned(), format: format.to_owned(), text }
}

impl Bench<'_> {
    async fn define(&self, definition: &Definition) -> Result<Defined, Wrong> {
        Ok(self.store().define(definition.clone()).await?)
    }

    async fn defined(&self, name: &str) -> Result<StoredDefinition, Wrong> {
        let stored = self.store().definition(name.to_owned()).await?;
        Ok(matched!(stored, Some(stored) => stored))
    }

    async fn names(&self, after: Option<&str>, limit: usize) -> Result<Vec<String>, Wrong> {
        let page = self.store().definitions(after.map(str::to_owned), limit).await?;
        Ok(page.into_iter().map(|stored| stored.definition.name).collect())
    }
}

pub(super) async fn definitions_keep_revisions(b: Bench<'_>) -> Held {
    same!(b.store().definition("pay".into()).await?, None);
    let first = definition("pay", "toml", b"workflow = \"pay\" # \xff\x00");
    let one = b.define(&first).await?;
    same!(one.revision, 1);
    b.sleep(SOON).await;
    b.harness.reopen().await;
    // The same again is the same revision, and came when it came first.
    same!(b.define(&first).await?, one);
    let kept = StoredDefinition { definition: first.clone(), revision: 1, at: one.at };
    same!(b.defined("pay").await?, kept);
    let second = definition("pay", "ir", b"workflow = \"pay\" # \xff\x00");
    let two = b.define(&second).await?;
    same!(two.revision, 2);
    if two.at <= one.at {
        return Err(Wrong(format!("revision 2 came at {}, revision 1 at {}", two.at, one.at)));
    }
    same!(b.define(&second).await?, two);
    // What was kept before and was replaced is another revision.
    same!(b.define(&first).await?.revision, 3);
    same!(b.define(&definition("ship", "ir", b"")).await?.revision, 1);
    b.harness.reopen().await;
    same!((b.defined("pay").await?.definition, b.defined("pay").await?.revision), (first, 3));
    same!(b.defined("ship").await?.definition.text, Bytes::new());
    same!(b.store().definition("pa".into()).await?, None);
    Ok(())
}

pub(super) async fn definitions_come_in_pages_by_name(b: Bench<'_>) -> Held {
    same!(b.names(None, 9).await?, Vec::<String>::new());
    for name in ["ship", "Pay", "pay_back", "pay", "äpfel"] {
        b.define(&definition(name, "ir", b"x = @a()")).await?;
    }
    b.harness.reopen().await;
    // By their bytes.
    same!(b.names(None, 9).await?, ["Pay", "pay", "pay_back", "ship", "äpfel"]);
    same!(b.names(None, 2).await?, ["Pay", "pay"]);
    same!(b.names(Some("pay"), 2).await?, ["pay_back", "ship"]);
    // From where a name would be.
    same!(b.names(Some("q"), 9).await?, ["ship", "äpfel"]);
    same!(b.names(Some("äpfel"), 9).await?, Vec::<String>::new());
    same!(b.names(None, 0).await?, Vec::<String>::new());
    Ok(())
}

/// A node's report takes the place of its last one.
pub(super) async fn reports_are_kept_by_node(b: Bench<'_>) -> Held {
    let report = |node: &str, body: &'static [u8]| Report {
        node: node.to_owned(),
        body: Bytes::from_static(body),
    };
    same!(b.store().reports().await?, vec![]);
    let all = [report("b", b"first"), report("a\0", b"\xff\x00"), report("b", b"second")];
    for report in &all {
        b.store().report(report.clone()).await?;
        b.sleep(SOON).await;
    }
    b.harness.reopen().await;
    let kept = b.store().reports().await?;
    same!(kept.iter().map(|kept| &kept.report).collect::<Vec<_>>(), vec![&all[1], &all[2]]);
    same!(kept[0].at < kept[1].at, true);
    Ok(())
}
