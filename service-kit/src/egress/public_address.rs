//! Public unicast addresses (docs/api/webhooks.md#webhook-url; V2).
//!
//! For IPv6, only global unicast is allowed, which rejects every IPv6 form of an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo)
//! without listing them. The standard library's check (`IpAddr::is_global`) is unstable.

use ipnet::{Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const fn v4(a: u8, b: u8, c: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), prefix)
}

const fn v6(a: u16, b: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, 0, 0, 0, 0, 0, 0), prefix)
}

/// Networks that are not unicast, not global, or not reachable.
const FORBIDDEN_V4: [Ipv4Net; 15] = [
    v4(0, 0, 0, 8),       // this network
    v4(10, 0, 0, 8),      // private
    v4(100, 64, 0, 10),   // shared by carriers
    v4(127, 0, 0, 8),     // this machine
    v4(169, 254, 0, 16),  // this link; metadata of clouds
    v4(172, 16, 0, 12),   // private
    v4(192, 0, 0, 24),    // protocol assignments
    v4(192, 0, 2, 24),    // documentation
    v4(192, 88, 99, 24),  // relays of 6to4
    v4(192, 168, 0, 16),  // private
    v4(198, 18, 0, 15),   // benchmarks
    v4(198, 51, 100, 24), // documentation
    v4(203, 0, 113, 24),  // documentation
    v4(224, 0, 0, 4),     // multicast
    v4(240, 0, 0, 4),     // reserved, broadcast
];
/// Public addresses of cloud-internal services, such as instance credentials.
const INSIDE_CLOUDS: [Ipv4Net; 4] = [
    Ipv4Net::new_assert(Ipv4Addr::new(168, 63, 129, 16), 32), // Azure: metadata, DNS, health
    Ipv4Net::new_assert(Ipv4Addr::new(192, 80, 8, 124), 32),  // Equinix Metal: metadata
    v4(161, 26, 0, 16),                                       // IBM Cloud: internal services
    v4(166, 8, 0, 14),                                        // IBM Cloud: internal services
];
/// Global unicast.
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 3);
/// Exceptions to global unicast.
const FORBIDDEN_V6: [Ipv6Net; 4] = [
    v6(0x2001, 0, 23),     // protocol assignments, Teredo
    v6(0x2001, 0xdb8, 32), // documentation
    v6(0x2002, 0, 16),     // 6to4
    v6(0x3fff, 0, 20),     // documentation
];

pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => !FORBIDDEN_V4.iter().chain(&INSIDE_CLOUDS).any(|net| net.contains(&address)),
        IpAddr::V6(address) => GLOBAL_V6.contains(&address) && !FORBIDDEN_V6.iter().any(|net| net.contains(&address)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::random_seed;
    use rand::rngs::StdRng;
    use rand::{RngExt, SeedableRng};

    /// Number of random addresses. With all their embeddings, more than ten million.
    const CASES: usize = 1_000_000;

    /// The same tables, implemented with number ranges instead of prefixes.
    fn v4_is_public(address: Ipv4Addr) -> bool {
        let number = u32::from(address);
        let ranges: [(u32, u32); 19] = [
            (0x0000_0000, 0x00ff_ffff),
            (0x0a00_0000, 0x0aff_ffff),
            (0x6440_0000, 0x647f_ffff),
            (0x7f00_0000, 0x7fff_ffff),
            (0xa9fe_0000, 0xa9fe_ffff),
            (0xac10_0000, 0xac1f_ffff),
            (0xc000_0000, 0xc000_00ff),
            (0xc000_0200, 0xc000_02ff),
            (0xc058_6300, 0xc058_63ff),
            (0xc0a8_0000, 0xc0a8_ffff),
            (0xc612_0000, 0xc613_ffff),
            (0xc633_6400, 0xc633_64ff),
            (0xcb00_7100, 0xcb00_71ff),
            (0xe000_0000, 0xefff_ffff),
            (0xf000_0000, 0xffff_ffff),
            (0xa83f_8110, 0xa83f_8110),
            (0xc050_087c, 0xc050_087c),
            (0xa11a_0000, 0xa11a_ffff),
            (0xa608_0000, 0xa60b_ffff),
        ];
        !ranges.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }

    fn v6_is_public(address: Ipv6Addr) -> bool {
        let [a, b, ..] = address.segments();
        let is_special = (a == 0x2001 && (b < 0x200 || b == 0xdb8)) || a == 0x2002 || (a == 0x3fff && b < 0x1000);
        (0x2000..=0x3fff).contains(&a) && !is_special
    }

    /// Returns every IPv6 address that embeds an IPv4 address.
    fn carriers(v4: Ipv4Addr, rest: u64) -> [Ipv6Addr; 9] {
        let number = u128::from(u32::from(v4));
        let (high, rest) = (|prefix: u128| prefix << 96, u128::from(rest));
        [
            v4.to_ipv6_mapped(),
            v4.to_ipv6_compatible(),
            (high(0) | (0xffff_0000 << 32) | number).into(),
            (high(0x0064_ff9b) | number).into(),
            ((0x0064_ff9b_0001 << 80) | ((number >> 16) << 64) | ((number & 0xffff) << 40)).into(),
            ((0x2002 << 112) | (number << 80) | rest).into(),
            (high(0x2001_0000) | (rest << 32) | (!number & 0xffff_ffff)).into(),
            (high(0x2001_0000) | (number << 64) | (rest & 0xffff)).into(),
            (high(0xfe80_0000) | (0x5efe << 32) | number).into(),
        ]
    }

    /// Returns the first and last address of every network, and their neighbors.
    fn edges() -> Vec<Ipv4Addr> {
        let ends =
            FORBIDDEN_V4.iter().chain(&INSIDE_CLOUDS).flat_map(|net| [u32::from(net.network()), u32::from(net.broadcast())]);
        ends.flat_map(|end| [end.wrapping_sub(1), end, end.wrapping_add(1)]).map(Ipv4Addr::from).collect()
    }

    #[test]
    fn s5_v2_classifies_ipv4_and_embedded_ipv4_addresses() {
        let mut random = StdRng::seed_from_u64(random_seed());
        let random_ones = std::iter::repeat_with(|| Ipv4Addr::from(random.random::<u32>())).take(CASES);
        let mut public = 0;
        for (case, address) in edges().into_iter().chain(random_ones).enumerate() {
            let verdict = is_public(address.into());
            assert_eq!(verdict, v4_is_public(address), "{address}");
            public += usize::from(verdict);
            for carrier in carriers(address, case as u64 ^ 0x9e37_79b9_7f4a_7c15) {
                assert!(!is_public(carrier.into()) || verdict, "{carrier} embeds {address}");
                assert!(!is_public(carrier.into()), "{carrier} must not be public");
            }
        }
        assert!((CASES / 2..CASES).contains(&public), "most of IPv4 is public: {public}");
    }

    #[test]
    fn s5_v2_only_global_unicast_ipv6_is_public() {
        let mut random = StdRng::seed_from_u64(random_seed());
        let mut public = 0;
        for case in 0..CASES {
            // Choose half of the cases near the boundaries.
            let mut address: u128 = random.random();
            if case % 2 == 0 {
                let heads: [u128; 8] =
                    [0x2001_0000, 0x2001_0200, 0x2001_0db8, 0x2002_0000, 0x3fff_0000, 0x3fff_1000, 0x4000_0000, 0x2000_0000];
                let head = heads[random.random_range(0..heads.len())] + random.random_range(0..3) - 1;
                address = (head << 96) | (address >> 32);
            }
            let address = Ipv6Addr::from(address);
            assert_eq!(is_public(address.into()), v6_is_public(address), "{address}");
            public += usize::from(is_public(address.into()));
        }
        assert!(public > CASES / 10, "{public}");
    }

    #[test]
    fn a15_cloud_internal_addresses_are_not_public() {
        for inside in
            ["168.63.129.16", "192.80.8.124", "161.26.0.7", "166.9.1.1", "169.254.169.254", "100.100.100.200", "192.0.0.192"]
        {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
        }
        for beside in ["168.63.129.15", "168.63.129.17", "161.27.0.1", "166.12.0.1"] {
            assert!(is_public(beside.parse().unwrap()), "{beside}");
        }
    }

    #[test]
    fn classifies_well_known_addresses() {
        for public in ["1.1.1.1", "8.8.8.8", "100.63.255.255", "172.32.0.1", "2606:4700::1111", "2a00:1450::1", "2001:200::1"] {
            assert!(is_public(public.parse().unwrap()), "{public}");
        }
        for inside in [
            "0.0.0.0",
            "10.0.0.1",
            "100.64.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.31.255.255",
            "192.0.0.170",
            "192.168.1.1",
            "198.19.255.255",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:db8::1",
            "2002:808:808::1",
            "3fff::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public(inside.parse().unwrap()), "{inside}");
        }
    }
}
