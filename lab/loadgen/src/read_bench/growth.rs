//! P7, growth of reads: the same reads on a store, on one with a tenth of the others' reports, and on one with a tenth of the owner's.
//! Prints the ratios of the medians.

use super::Measured;
use crate::options::ReadBenchOptions;

/// A smaller store for comparison.
pub(super) struct Smaller {
    what: &'static str,
    wanted: f64,
    pub(super) options: ReadBenchOptions,
}

pub(super) fn smaller(whole: &ReadBenchOptions) -> [Smaller; 2] {
    let (reports, share) = (whole.reports, u64::from(whole.share));
    let owners = reports / share;
    let few_others = owners + (reports - owners) / 10;
    let share_of_few = u32::try_from(few_others.div_ceil(owners.max(1))).unwrap_or(u32::MAX);
    let options = |reports, share| ReadBenchOptions { reports, share, growth: false, windows: false, ..whole.clone() };
    [
        Smaller {
            what: "ten times the others' data",
            wanted: 1.1,
            options: options(owners * u64::from(share_of_few), share_of_few),
        },
        Smaller { what: "ten times the owner's data", wanted: 8.0, options: options(reports, whole.share.saturating_mul(10)) },
    ]
}

impl Smaller {
    /// Prints how many times slower each read is on the whole store.
    pub(super) fn print(&self, here: &[Measured], whole: &[Measured]) {
        for Measured { what, p50_ms } in here {
            let Some(grown) = whole.iter().find(|of_whole| of_whole.what == *what) else { continue };
            println!("P7 {}: {what:34} {:.2} times, target {}", self.what, grown.p50_ms / p50_ms, self.wanted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cli, Command};
    use clap::Parser as _;

    fn sizes(arguments: &[&str]) -> [(u64, u32); 2] {
        let cli = Cli::parse_from(["loadgen", "reads", "--growth"].iter().chain(arguments));
        let Command::Reads(options) = cli.command else { panic!("the command is not reads") };
        smaller(&options).map(|smaller| (smaller.options.reports, smaller.options.share))
    }

    #[test]
    fn smaller_stores_contain_a_tenth_of_the_data() {
        assert_eq!(sizes(&[]), [(2_400_000, 2), (12_000_000, 100)]);
        assert_eq!(sizes(&["--reports", "6000", "--share", "10"]), [(1_200, 2), (6_000, 100)]);
    }
}
