//! The view of the clock for who asks: the newest one, or one that is made for the question.
//!
//! At rest the thread that keeps the time publishes rarely. A client that asks wakes it.

use std::sync::Arc;
use std::time::Duration;

use daemon::latest::{Latest, Reader};

use crate::system::clock;
use crate::system::timer::Waker;
use time_model::time::{SECOND, Span};
use time_model::view::View;

/// A view of this age is new enough.
const FRESH: Span = Span(SECOND);
/// The longest wait for a new one. After it the last one is shown: the thread is busy, or has ended.
const PATIENCE: Duration = Duration::from_millis(100);

/// Views of the clock; clones show the same.
#[derive(Clone, Debug)]
pub struct Views {
    latest: Arc<Latest<View>>,
    waker: Option<Arc<Waker>>,
}

impl Views {
    /// Those that a thread publishes when this wakes it.
    #[must_use]
    pub fn new(latest: Arc<Latest<View>>, waker: Arc<Waker>) -> Self {
        Self {
            latest,
            waker: Some(waker),
        }
    }

    /// Those that are published without being asked for.
    #[must_use]
    pub fn published(latest: Arc<Latest<View>>) -> Self {
        Self {
            latest,
            waker: None,
        }
    }

    /// The view as it is now, or at least the newest. Blocks while the thread makes it.
    #[must_use]
    pub fn now(&self) -> Arc<View> {
        let mut reader = Reader::new(Arc::clone(&self.latest));
        if let Some(waker) = &self.waker
            && clock::read().raw - reader.get().now.raw > FRESH
        {
            waker.wake();
            reader.wait(PATIENCE);
        }
        reader.shared()
    }

    /// A reader of what is published without anybody asking.
    #[must_use]
    pub fn reader(&self) -> Reader<View> {
        Reader::new(Arc::clone(&self.latest))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::system;
    use crate::system::Events;

    fn view(age: Span, n_updates: u64) -> View {
        let mut view = View {
            now: clock::read(),
            ..View::default()
        };
        view.now.raw = view.now.raw - age;
        view.tracking.n_updates = n_updates;
        view
    }

    #[test]
    fn a_view_that_is_old_is_made_again_for_who_asks() {
        let latest = Latest::new(view(Span(60 * SECOND), 1));
        let waker = Arc::new(Waker::new().unwrap());
        let views = Views::new(Arc::clone(&latest), Arc::clone(&waker));
        thread::scope(|scope| {
            scope.spawn(|| {
                system::wait(&mut [(waker.descriptor(), Events::default())]).unwrap();
                latest.publish(view(Span(0), 2));
            });
            // A slow machine may make it late.
            while views.now().tracking.n_updates == 1 {}
        });
    }

    #[test]
    fn without_a_thread_the_last_one_is_shown() {
        let latest = Latest::new(view(Span(60 * SECOND), 7));
        let views = Views::new(latest, Arc::new(Waker::new().unwrap()));
        assert_eq!(views.now().tracking.n_updates, 7);
        let published = Views::published(Latest::new(view(Span(0), 8)));
        assert_eq!(published.now().tracking.n_updates, 8);
    }
}
