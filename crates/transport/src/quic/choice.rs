//! Which controller a connection of a real network sends with, when its client has a say in it.

use std::sync::Arc;

use cc::CongestionControl;

use crate::load::Wish;

/// Makes the controller that is wished for, for packets of so many bytes; or says why not.
pub type Chooser =
    Arc<dyn Fn(&Wish, u64) -> Result<Box<dyn CongestionControl>, String> + Send + Sync>;

/// What a connection sends with.
#[derive(Clone)]
pub(super) struct Choice {
    /// Its controller's name.
    pub(super) name: String,
    pub(super) chooser: Chooser,
    /// What was wished for and done.
    done: Option<Wish>,
}

impl Choice {
    pub(super) fn new(name: &str, chooser: &Chooser) -> Choice {
        Choice { name: name.to_owned(), chooser: chooser.clone(), done: None }
    }

    /// The controller for a wish, if it is another than the one that is there.
    pub(super) fn choose(
        &mut self,
        wish: &Wish,
        mtu: u64,
    ) -> Result<Option<Box<dyn CongestionControl>>, String> {
        match &self.done {
            Some(done) if done == wish => return Ok(None),
            Some(done) => {
                let (done, wish) = (&done.name, &wish.name);
                return Err(format!(
                    "this connection has {done} already, and cannot have {wish} too"
                ));
            }
            None => {}
        }
        let made = (self.chooser)(wish, mtu)?;
        self.name.clone_from(&wish.name);
        self.done = Some(wish.clone());
        Ok(Some(made))
    }
}
