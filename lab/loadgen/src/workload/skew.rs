//! Selects the tenant for a request. The n-th tenant's share is proportional to n to the power of minus the exponent (Zipf).

#[derive(Clone, Debug)]
pub struct Skew(Vec<f64>);

impl Skew {
    /// Creates the shares. With exponent 0, all tenants have equal shares; 1 is the classic Zipf law.
    pub fn new(tenants: usize, exponent: f64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=tenants.max(1)).map(|rank| {
            // Ranks are small enough to be exact.
            sum += f64::from(u32::try_from(rank).unwrap_or(u32::MAX)).powf(-exponent);
            sum
        });
        let added_up: Vec<f64> = weights.collect();
        Self(added_up.iter().map(|share| share / sum).collect())
    }

    pub fn pick(&self, point: f64) -> usize {
        self.0.partition_point(|bound| *bound <= point).min(self.0.len() - 1)
    }
}
