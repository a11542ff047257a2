//! Content that takes long, and what does not wait for it.

use super::*;
use crate::settings::Rates;

/// 64 MiB take more than four minutes at this rate, in bytes a second.
const SLOW: u64 = 256 << 10;

#[test]
fn a_large_push_holds_up_no_acknowledgement_of_another_repository() {
    let mut site = Site::new(2);
    site.change = |settings| {
        settings.acknowledge_wait = PATIENCE;
        settings.rates = Rates {
            by_hour: Vec::new(),
            otherwise: Some(SLOW),
        };
    };
    run(async {
        let (first, second) = (site.start(0).await, site.start(1).await);
        connected(&[&first, &second]).await;
        let big: RepositoryName = "big".parse().unwrap();
        push_to(&first.store, &big, "v1", &[octets(1, 64 << 20)]).await;
        let mut first_position = None;
        for turn in 2..5 {
            let (_, position) = push(&first.store, "small", &[octets(turn, 100_000)]).await;
            let acknowledgement = first.cluster.acknowledge(&position).await;
            assert_eq!(acknowledgement.outcome, Outcome::Enough);
            first_position.get_or_insert(position);
        }
        // The other node has the small images whole, and waits for the large one.
        assert!(shown(&second.store, "small").await.is_some());
        let reference = Reference::Tag("v1".parse().unwrap());
        assert!(
            second
                .store
                .manifest(&big, &reference)
                .await
                .unwrap()
                .is_none()
        );
        let position = first_position.unwrap();
        assert!(second.cluster.status().waiting > 0);
        assert!(!second.store.vector().covers(&position));
    });
}

#[test]
fn what_went_ahead_takes_its_place_when_the_large_push_is_there() {
    let mut site = Site::new(2);
    site.change = |settings| {
        settings.acknowledge_wait = PATIENCE;
        settings.rates.otherwise = Some(4 << 20);
    };
    run(async {
        let (first, second) = (site.start(0).await, site.start(1).await);
        connected(&[&first, &second]).await;
        let big: RepositoryName = "big".parse().unwrap();
        let (large, _) = push_to(&first.store, &big, "v1", &[octets(1, 8 << 20)]).await;
        let (small, position) = push(&first.store, "small", &[octets(2, 1000)]).await;
        let acknowledgement = first.cluster.acknowledge(&position).await;
        assert_eq!(acknowledgement.outcome, Outcome::Enough);
        until("all has its place", async || {
            second.store.vector().covers(&position) && second.cluster.status().waiting == 0
        })
        .await;
        let reference = Reference::Tag("v1".parse().unwrap());
        let stored = second.store.manifest(&big, &reference).await.unwrap();
        assert_eq!(stored.map(|stored| stored.digest), Some(large));
        assert_eq!(shown(&second.store, "small").await, Some(small));
        same(&[&first, &second]).await;
    });
}
