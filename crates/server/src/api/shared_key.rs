//! A random key that all servers on a store share.

use store::Store;
use tokio::sync::OnceCell;

/// A key in a setting of the store.
pub(crate) struct SharedKey {
    setting: &'static str,
    key: OnceCell<String>,
}

impl SharedKey {
    /// The key in this setting; it is read on first use.
    pub(crate) fn in_setting(setting: &'static str) -> Self {
        Self {
            setting,
            key: OnceCell::new(),
        }
    }

    /// The key in the store; a new key is stored first if there is none.
    pub(crate) async fn get(&self, store: &dyn Store) -> Result<&str, store::Error> {
        let key = self.key.get_or_try_init(async || {
            let mut bytes = [0_u8; 32];
            rand::fill(&mut bytes);
            store.set_setting_once(self.setting, &hex::encode(bytes)).await
        });
        Ok(key.await?)
    }
}
