//! Crash points, at which chaos runs abort a process to test recovery: `FAIL_POINT=NAME:1/N` aborts it when it reaches NAME for the N-th
//! time.
//!
//! Without the feature `crash-points`, a point is an empty function.

/// Logs at startup that a crash point is armed.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn announce() {}

/// Marks the point `name`.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn reached(_name: &str) {}

/// Marks the point `name`. If it aborts, it runs `do_half` first.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn reached_halfway(_name: &str, _do_half: impl FnOnce()) {}

#[cfg(feature = "crash-points")]
pub use armed::{announce, reached, reached_halfway};

#[cfg(feature = "crash-points")]
mod armed {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    struct Armed {
        name: String,
        /// Number of the pass that aborts.
        last: u64,
        passed: AtomicU64,
    }

    static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
        let given = std::env::var_os("FAIL_POINT")?.to_string_lossy().into_owned();
        let armed = Armed::parse(&given);
        assert!(armed.is_some(), "FAIL_POINT={given}: use NAME:1/N, such as after_insert_before_commit:1/50");
        armed
    });

    impl Armed {
        fn parse(text: &str) -> Option<Self> {
            let (name, last) = text.split_once(":1/")?;
            let last = last.parse().ok().filter(|last| *last > 0)?;
            Some(Self { name: name.to_owned(), last, passed: AtomicU64::new(0) })
        }

        fn is_last_pass(&self, name: &str) -> bool {
            self.name == name && self.passed.fetch_add(1, Ordering::Relaxed) + 1 == self.last
        }
    }

    /// Logs at startup that a crash point is armed.
    pub fn announce() {
        if let Some(armed) = ARMED.as_ref() {
            tracing::warn!(pass = armed.last, "FAIL_POINT is armed: this process will abort at {}", armed.name);
        }
    }

    /// Aborts if the point `name` is armed and due.
    pub fn reached(name: &str) {
        reached_halfway(name, || {});
    }

    /// Like [`reached`], but runs `do_half` before aborting.
    pub fn reached_halfway(name: &str, do_half: impl FnOnce()) {
        if ARMED.as_ref().is_some_and(|armed| armed.is_last_pass(name)) {
            do_half();
            tracing::warn!("aborting at {name}");
            std::process::abort();
        }
    }

    #[cfg(test)]
    mod tests {
        use super::Armed;

        #[test]
        fn aborts_only_at_the_configured_pass() {
            let armed = Armed::parse("here:1/3").unwrap();
            let passes = ["here", "there", "here", "here", "here"].map(|name| armed.is_last_pass(name));
            assert_eq!(passes, [false, false, false, true, false]);
        }

        #[test]
        fn rejects_invalid_fail_points() {
            for wrong in ["", "here", "here:3", "here:1/0", "here:1/x"] {
                assert!(Armed::parse(wrong).is_none(), "{wrong}");
            }
        }
    }
}
