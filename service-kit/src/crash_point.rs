//! Places where a process may be told to die, to see that nothing depends on it going on: `FAIL_POINT=NAME:1/N` aborts it
//! the N-th time it passes the point NAME.
//!
//! Without the feature `crash-points` a point is an empty function.

/// Says at start-up that a point is armed.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn announce() {}

/// Passes the point `name`.
#[cfg(not(feature = "crash-points"))]
#[inline(always)]
pub fn reached(_name: &str) {}

/// Passes the point `name`, which leaves something half done behind.
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
        /// The pass that is the last.
        last: u64,
        passed: AtomicU64,
    }

    static ARMED: LazyLock<Option<Armed>> = LazyLock::new(|| {
        let given = std::env::var_os("FAIL_POINT")?.to_string_lossy().into_owned();
        let armed = Armed::parse(&given);
        assert!(armed.is_some(), "FAIL_POINT={given}: write NAME:1/N, as in after_insert_before_commit:1/50");
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

    /// Says at start-up that a point is armed.
    pub fn announce() {
        if let Some(armed) = ARMED.as_ref() {
            tracing::warn!(pass = armed.last, "FAIL_POINT is armed: this process is going to die at {}", armed.name);
        }
    }

    /// Passes the point `name`; dies there if it was told to.
    pub fn reached(name: &str) {
        reached_halfway(name, || {});
    }

    /// Passes the point `name`; if it was told to die there, does half of what comes next first.
    pub fn reached_halfway(name: &str, do_half: impl FnOnce()) {
        if ARMED.as_ref().is_some_and(|armed| armed.is_last_pass(name)) {
            do_half();
            tracing::warn!("dying at {name}");
            std::process::abort();
        }
    }

    #[cfg(test)]
    mod tests {
        use super::Armed;

        #[test]
        fn a_point_fires_at_the_pass_it_was_told_and_no_other_point_does() {
            let armed = Armed::parse("here:1/3").unwrap();
            let passes = ["here", "there", "here", "here", "here"].map(|name| armed.is_last_pass(name));
            assert_eq!(passes, [false, false, false, true, false]);
        }

        #[test]
        fn what_names_no_pass_is_refused() {
            for wrong in ["", "here", "here:3", "here:1/0", "here:1/x"] {
                assert!(Armed::parse(wrong).is_none(), "{wrong}");
            }
        }
    }
}
