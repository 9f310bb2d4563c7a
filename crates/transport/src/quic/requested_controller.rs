//! The controller of a connection on a real network, if its client can request one.

use std::sync::Arc;

use cc::CongestionControl;

use crate::perf_load::RequestedController;

/// Builds the requested controller for packets of this size, bytes, or returns the reason against it.
pub type RequestedControllerBuilder = Arc<
    dyn Fn(&RequestedController, u64) -> Result<Box<dyn CongestionControl>, String> + Send + Sync,
>;

/// The controller of a connection.
#[derive(Clone)]
pub(super) struct NegotiatedController {
    /// Name of the controller.
    pub(super) name: String,
    pub(super) builder: RequestedControllerBuilder,
    /// The request that was granted.
    granted: Option<RequestedController>,
}

impl NegotiatedController {
    pub(super) fn new(name: &str, chooser: &RequestedControllerBuilder) -> NegotiatedController {
        NegotiatedController { name: name.to_owned(), builder: chooser.clone(), granted: None }
    }

    /// Builds the requested controller, if it differs from the current one.
    pub(super) fn build_requested(
        &mut self,
        requested: &RequestedController,
        mtu: u64,
    ) -> Result<Option<Box<dyn CongestionControl>>, String> {
        match &self.granted {
            Some(done) if done == requested => return Ok(None),
            Some(done) => {
                let (done, wish) = (&done.name, &requested.name);
                return Err(format!(
                    "this connection already has {done} and cannot change to {wish}"
                ));
            }
            None => {}
        }
        let controller = (self.builder)(requested, mtu)?;
        self.name.clone_from(&requested.name);
        self.granted = Some(requested.clone());
        Ok(Some(controller))
    }
}
