//! Runs the contract suite against the store in memory.

use std::sync::{Arc, Mutex};

use model::time::Time;

use super::MemoryStore;
use crate::Store;
use crate::contract::StoreFixture;

struct MemoryFixture(MemoryStore);

impl StoreFixture for MemoryFixture {
    fn join(&self) -> Arc<dyn Store> {
        Arc::new(self.0.join_process())
    }

    fn join_publishing(&self) -> Arc<dyn Store> {
        Arc::new(self.0.join_process().with_outbox())
    }
}

fn fixture() -> MemoryFixture {
    let time = Mutex::new(Time(1_800_000_000_000_000));
    let clock = move || {
        let mut time = time.lock().unwrap();
        time.0 += 7;
        *time
    };
    MemoryFixture(MemoryStore::new(Arc::new(clock)))
}

crate::contract_suite!(fixture());

#[test]
fn a_process_that_crashed_owns_no_execution() {
    let store = fixture().0;
    let second_store = store.join_process();
    let owner = store.owner().unwrap();
    assert!(second_store.state().live_owners.contains(&owner));
    store.kill();
    assert!(!second_store.state().live_owners.contains(&owner));
}
