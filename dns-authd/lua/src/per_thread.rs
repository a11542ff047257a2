//! One interpreter for each thread.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::LuaError;
use crate::evaluator::Evaluator;
use crate::settings::LuaSettings;

/// Calls a function with the evaluator of the calling thread, which starts at its first use, and again when
/// the settings differ from the last time.
pub fn on_this_thread<R>(
    settings: &Arc<LuaSettings>,
    work: impl FnOnce(&mut Evaluator) -> R,
) -> Result<R, LuaError> {
    thread_local! {
        static EVALUATOR: RefCell<Option<(Arc<LuaSettings>, Evaluator)>> =
            const { RefCell::new(None) };
    }
    EVALUATOR.with_borrow_mut(|slot| match slot {
        Some((current, evaluator)) if Arc::ptr_eq(current, settings) => Ok(work(evaluator)),
        _ => {
            let evaluator = Evaluator::new(Arc::clone(settings))?;
            let (_, evaluator) = slot.insert((Arc::clone(settings), evaluator));
            Ok(work(evaluator))
        }
    })
}
