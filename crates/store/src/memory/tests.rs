//! Runs the contract suite against the store in memory.

use std::sync::{Arc, Mutex};

use model::time::Time;

use super::Memory;
use crate::Store;
use crate::contract::Site;

struct Shared(Memory);

impl Site for Shared {
    fn join(&self) -> Arc<dyn Store> {
        Arc::new(self.0.another())
    }

    fn join_publishing(&self) -> Arc<dyn Store> {
        Arc::new(self.0.another().publishing())
    }
}

fn site() -> Shared {
    let time = Mutex::new(Time(1_800_000_000_000_000));
    let clock = move || {
        let mut time = time.lock().unwrap();
        time.0 += 7;
        *time
    };
    Shared(Memory::new(Arc::new(clock)))
}

crate::contract_suite!(site());

#[test]
fn a_process_that_dies_owns_nothing() {
    let one = site().0;
    let two = one.another();
    let owner = one.owner().unwrap();
    assert!(two.state().living.contains(&owner));
    one.die();
    assert!(!two.state().living.contains(&owner));
}
