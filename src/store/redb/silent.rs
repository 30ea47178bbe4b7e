//! Panics of redb on damaged pages, which become errors and print nothing.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether panics of this thread are caught by [`catch`].
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Calls redb. A panic becomes an error with the panic's message. The process's panic hook does not
/// see it, so it prints no backtrace.
pub(super) fn catch<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    install();
    let before = IS_CAUGHT.replace(true);
    let done = catch_unwind(AssertUnwindSafe(call));
    IS_CAUGHT.set(before);
    done.map_err(|panic| text_of(panic.as_ref()))
}

/// Puts a hook before the one that the process has: it passes on every panic that is not caught here.
fn install() {
    static ONCE: Once = Once::new();
    // A thread that panics can't change the hook; the next call does.
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |panic| {
            // A thread that ends has no flag any more.
            if !IS_CAUGHT.try_with(Cell::get).unwrap_or(false) {
                others(panic);
            }
        }));
    });
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into())
}
