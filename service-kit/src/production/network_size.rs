//! Measures how much of the internet a list of networks covers.

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Number of addresses in an IPv4 /8, more than the largest content delivery networks have.
const TOO_MANY_V4: u64 = 1 << (32 - 8);
const TOO_MANY_V6: u128 = 1 << (128 - 24);

/// Private addresses, which may be listed without limit.
const OWN_V4: [Ipv4Net; 6] = [
    Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 10),
    Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8),
    Ipv4Net::new_assert(Ipv4Addr::new(169, 254, 0, 0), 16),
    Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12),
    Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16),
];
const OWN_V6: [Ipv6Net; 3] = [
    Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128),
    Ipv6Net::new_assert(Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7),
    Ipv6Net::new_assert(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 10),
];

/// Returns whether these networks cover at least as many public addresses as an IPv4 /8 or an IPv6 /24.
pub(super) fn is_too_broad(networks: &[IpNet]) -> bool {
    let v4: Vec<Ipv4Net> =
        networks.iter().filter_map(|network| if let IpNet::V4(v4) = network { Some(*v4) } else { None }).collect();
    let v6: Vec<Ipv6Net> =
        networks.iter().filter_map(|network| if let IpNet::V6(v6) = network { Some(*v6) } else { None }).collect();
    // Count overlapping networks once.
    let v4 = Ipv4Net::aggregate(&v4).iter().map(public_v4).sum::<u64>();
    let v6 = Ipv6Net::aggregate(&v6).iter().map(public_v6).fold(0, u128::saturating_add);
    v4 >= TOO_MANY_V4 || v6 >= TOO_MANY_V6
}

fn public_v4(network: &Ipv4Net) -> u64 {
    let size = |network: &Ipv4Net| 1_u64 << (32 - network.prefix_len());
    if OWN_V4.iter().any(|own| own.contains(network)) {
        return 0;
    }
    size(network) - OWN_V4.iter().filter(|own| network.contains(*own)).map(size).sum::<u64>()
}

fn public_v6(network: &Ipv6Net) -> u128 {
    // The size of all of IPv6 overflows by one, which doesn't change the result.
    let size = |network: &Ipv6Net| 1_u128.checked_shl(128 - u32::from(network.prefix_len())).unwrap_or(u128::MAX);
    if OWN_V6.iter().any(|own| own.contains(network)) {
        return 0;
    }
    size(network) - OWN_V6.iter().filter(|own| network.contains(*own)).map(size).sum::<u128>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(networks: &str) -> bool {
        is_too_broad(&networks.split(',').map(|network| network.parse().unwrap()).collect::<Vec<_>>())
    }

    #[test]
    fn accepts_private_networks_and_large_cdns() {
        for networks in [
            "10.0.0.0/8",
            "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16,100.64.0.0/10,127.0.0.0/8,169.254.0.0/16,fc00::/7,fe80::/10,::1/128",
            "192.0.2.7/32",
            "8.0.0.0/9",
            "2000::/25",
            // Akamai's widest networks, and Cloudflare's IPv6 networks.
            "104.64.0.0/10,23.32.0.0/11,23.192.0.0/11,184.24.0.0/13,2.16.0.0/13",
            "2400:cb00::/32,2606:4700::/32,2803:f800::/32,2405:b500::/32,2405:8100::/32,2a06:98c0::/29,2c0f:f248::/32",
            "198.51.100.0/24,198.51.100.0/24",
        ] {
            assert!(!is(networks), "{networks}");
        }
    }

    #[test]
    fn a15_detects_internet_wide_ranges_in_any_notation() {
        let quarters = |from: u32, to: u32| (from..to).map(|at| format!("{}.0.0.0/2", at * 64)).collect::<Vec<_>>().join(",");
        let but_one =
            (1..=32).map(|length| format!("{}/{length}", Ipv4Addr::from(1_u32 << (32 - length)))).collect::<Vec<_>>().join(",");
        let every_other =
            (0..1_024_u32).step_by(2).map(|at| format!("{}/10", Ipv4Addr::from(at << 22))).collect::<Vec<_>>().join(",");
        for networks in [
            "0.0.0.0/0",
            "::/0",
            "0.0.0.0/1",
            "128.0.0.0/1,0.0.0.0/1",
            "8.0.0.0/8",
            "8.0.0.0/9,8.128.0.0/9",
            "8.0.0.0/9,10.0.0.0/8,9.0.0.0/9",
            "10.0.0.0/7",
            "2000::/3",
            "2000::/24",
            "2000::/25,2000:80::/25",
            &quarters(0, 4),
            &quarters(1, 3),
            &but_one,
            &every_other,
        ] {
            assert!(is(networks), "{networks}");
        }
    }
}
