//! Where a simulation can change the driver. Without the feature `simulation`, every hook does nothing.

#[cfg(feature = "simulation")]
use std::sync::Arc;

use engine::{DecideError, Decision, ExecutionState, Input, PlaybookNet, Stamp};
use language::template::LoadedValues;

use crate::tamper::DriverBug;

/// The hooks of a driver.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    #[cfg(feature = "simulation")]
    tamper: Option<Arc<dyn crate::DriverTamper>>,
}

#[cfg(not(feature = "simulation"))]
#[expect(
    clippy::unused_self,
    reason = "with the feature `simulation`, the hooks have content"
)]
impl Hooks {
    pub(super) fn has_bug(&self, _bug: DriverBug) -> bool {
        false
    }

    /// Lets the engine decide.
    pub(super) fn decide(
        &self,
        net: &PlaybookNet,
        state: Option<&ExecutionState>,
        input: Input,
        stamp: Stamp,
        loaded: &LoadedValues,
    ) -> Result<Decision, DecideError> {
        engine::decide(net, state, input, stamp, loaded)
    }
}

#[cfg(feature = "simulation")]
impl Hooks {
    pub(crate) fn from_tamper(tamper: Arc<dyn crate::DriverTamper>) -> Self {
        Self { tamper: Some(tamper) }
    }

    pub(super) fn has_bug(&self, bug: DriverBug) -> bool {
        let tamper = self.tamper.as_ref();
        tamper.is_some_and(|tamper| tamper.has_bug(bug))
    }

    /// Lets the engine decide, between the changes of the simulation.
    pub(super) fn decide(
        &self,
        net: &PlaybookNet,
        state: Option<&ExecutionState>,
        mut input: Input,
        mut stamp: Stamp,
        loaded: &LoadedValues,
    ) -> Result<Decision, DecideError> {
        let Some(tamper) = &self.tamper else {
            return engine::decide(net, state, input, stamp, loaded);
        };
        let mut changed = state.cloned();
        tamper.before_decision(changed.as_mut(), &mut input, &mut stamp.now);
        let mut decision = engine::decide(net, changed.as_ref(), input, stamp, loaded)?;
        tamper.after_decision(state, &mut decision);
        Ok(decision)
    }
}
