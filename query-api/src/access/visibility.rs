//! What a caller may see, derived from its organization, `delegated_from`, `seen_by` and `domain`. Telemetry queries accept nothing else.

use super::reader::Reader;
use crate::parameters::ReadParameters;
use crate::parameters::period::ceil_ms;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::problem::Code;
use schemas::site::Site;
use service_kit::http::ApiError;
use service_kit::identity_tables::{IdentityTables, OwnedSite};
use std::collections::{BTreeMap, BTreeSet};

/// The events that a read may return. An event is visible if the longest verified suffix of its host belongs to this owner and
/// the host is within the requested domain.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Visibility {
    organization_id: OrgId,
    domains: Vec<String>,
    requested: Option<Site>,
    own: Vec<OwnHost>,
    foreign: Vec<Site>,
}

/// A host that the owner has verified, or a subdomain that another organization owned before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnHost {
    pub(crate) site: Site,
    /// First millisecond of the owner's events; `None` for all events.
    pub(crate) visible_from_ms: Option<i64>,
}

impl Visibility {
    pub(crate) async fn for_read(directory: &IdentityTables, reader: &Reader, asked: &ReadParameters) -> Result<Self, ApiError> {
        let organization_id = match (reader.org_type, asked.get("delegated_from"), asked.get("seen_by")) {
            (OrgType::ContentOwner, None, None) => reader.org_id,
            (OrgType::ContentOwner, None, Some(partner)) => owner_shared_with(directory, reader, partner).await?,
            (_, _, Some(_)) => return Err(partner_refused()),
            (OrgType::Platform | OrgType::Agent, None, None) => return Err(without_grantor()),
            (_, Some(grantor), None) => grantor_of(directory, reader, grantor).await?,
        };
        let owned = directory.owned_sites(organization_id).await?;
        match asked.get("domain") {
            None => Ok(Self::for_all_domains(organization_id, &owned)),
            Some(domain) => Self::for_domain(organization_id, &owned, domain),
        }
    }

    /// Returns what an analyst account may see now; `None` if its access has ended.
    pub(crate) async fn for_account(
        directory: &IdentityTables,
        organization: OrgId,
        org_type: OrgType,
        delegated_from: Option<OrgId>,
    ) -> Result<Option<Self>, sqlx::Error> {
        let whose = match (org_type, delegated_from) {
            (OrgType::ContentOwner, None) => organization,
            (OrgType::Platform | OrgType::Agent, Some(grantor)) if directory.has_delegation(grantor, organization).await? => {
                grantor
            }
            _ => return Ok(None),
        };
        Ok(Some(Self::for_all_domains(whose, &directory.owned_sites(whose).await?)))
    }

    /// Allows everything on the organization's verified domains.
    pub(crate) fn for_all_domains(organization_id: OrgId, owned: &[OwnedSite]) -> Self {
        let mut domains: Vec<String> = owned.iter().map(|owned| owned.site.domain()).collect();
        domains.sort_unstable();
        let foreign: BTreeSet<Site> = owned.iter().flat_map(|owned| &owned.excluded).cloned().collect();
        Self { organization_id, domains, requested: None, own: own_hosts(owned), foreign: foreign.into_iter().collect() }
    }

    pub(crate) fn for_domain(organization_id: OrgId, owned: &[OwnedSite], domain: &str) -> Result<Self, ApiError> {
        let site = Site::from_domain(domain).map_err(|_| domain_refused())?;
        if !owned.iter().any(|owned| owned.covers(&site)) {
            return Err(domain_refused());
        }
        let mut visibility = Self::for_all_domains(organization_id, owned);
        visibility.domains = vec![site.domain()];
        visibility.requested = Some(site);
        Ok(visibility)
    }

    pub(crate) fn organization_id(&self) -> OrgId {
        self.organization_id
    }

    /// The covered domains, sorted.
    pub(crate) fn domains(&self) -> &[String] {
        &self.domains
    }

    /// The requested host, which includes its subdomains.
    pub(crate) fn requested(&self) -> Option<&Site> {
        self.requested.as_ref()
    }

    /// The owner's verified hosts, and those subdomains that have their own start time.
    pub(crate) fn own(&self) -> &[OwnHost] {
        &self.own
    }

    /// Subdomains that other organizations have verified.
    pub(crate) fn foreign(&self) -> &[Site] {
        &self.foreign
    }
}

/// Returns the hosts that the owner may read, each with a start time. For an event, the longest of these hosts above the event's host
/// applies. A subdomain that had another owner is included only if the owner has no host in between, because its events from that time
/// belong to the former owner.
fn own_hosts(owned: &[OwnedSite]) -> Vec<OwnHost> {
    let mut own: BTreeMap<&Site, Option<i64>> = BTreeMap::new();
    let hosts: BTreeSet<&Site> = owned.iter().map(|owned| &owned.site).collect();
    let decider = |site: &Site| site.candidates().into_iter().find(|above| hosts.contains(above));
    for verified in owned {
        let from = verified.visible_from.map(ceil_ms);
        let is_decided_here = |site: &Site| decider(site).as_ref() == Some(&verified.site);
        let formerly = verified.formerly_owned.iter().filter(|(site, _)| verified.covers(site) && is_decided_here(site));
        let formerly = formerly.map(|(site, until)| (site, from.max(Some(ceil_ms(*until)))));
        for (site, from) in std::iter::once((&verified.site, from)).chain(formerly) {
            let known = own.entry(site).or_default();
            *known = (*known).max(from);
        }
    }
    own.into_iter().map(|(site, visible_from_ms)| OwnHost { site: site.clone(), visible_from_ms }).collect()
}

/// Scope of an organization's own reports. Queries for these reports require it.
#[derive(Debug)]
pub(crate) struct OwnReports {
    organization_id: OrgId,
}

impl OwnReports {
    /// Returns 403 for content owners, which read their domains' events instead.
    pub(crate) fn for_reader(reader: &Reader) -> Result<Self, ApiError> {
        if reader.org_type == OrgType::ContentOwner {
            return Err(ApiError::new(Code::Forbidden, "Content owners can't use /agent/*. Use /content-owners/*."));
        }
        Ok(Self { organization_id: reader.org_id })
    }

    pub(crate) fn organization_id(&self) -> OrgId {
        self.organization_id
    }
}

/// Returns the content owner if it shares data with the caller. All failures get the same response.
async fn grantor_of(directory: &IdentityTables, reader: &Reader, grantor: &str) -> Result<OrgId, ApiError> {
    let grantor: OrgId = grantor.parse().map_err(|_| delegation_refused())?;
    let may_be_granted = reader.org_type != OrgType::ContentOwner && reader.org_id != grantor;
    if may_be_granted && directory.has_delegation(grantor, reader.org_id).await? {
        return Ok(grantor);
    }
    Err(delegation_refused())
}

/// Returns the owner itself while it shares data with the partner, so the owner sees exactly what the partner sees.
async fn owner_shared_with(directory: &IdentityTables, owner: &Reader, partner: &str) -> Result<OrgId, ApiError> {
    let partner: OrgId = partner.parse().map_err(|_| partner_refused())?;
    if partner != owner.org_id && directory.has_delegation(owner.org_id, partner).await? {
        return Ok(owner.org_id);
    }
    Err(partner_refused())
}

fn without_grantor() -> ApiError {
    ApiError::new(Code::Forbidden, "Your organization has no domains. Set delegated_from to a content owner's ID.")
}

fn delegation_refused() -> ApiError {
    ApiError::new(Code::Forbidden, "The organization in delegated_from doesn't share its data with you.")
}

fn partner_refused() -> ApiError {
    ApiError::new(Code::Forbidden, "You don't share data with the organization in seen_by.")
}

fn domain_refused() -> ApiError {
    ApiError::new(Code::Forbidden, "You can't read this domain. Use a verified domain you have access to, or a host below it.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    fn site(domain: &str) -> Site {
        Site::from_domain(domain).unwrap()
    }

    fn owned(domain: &str, except: &[&str]) -> OwnedSite {
        OwnedSite {
            site: site(domain),
            visible_from: None,
            excluded: except.iter().map(|other| site(other)).collect(),
            formerly_owned: Vec::new(),
        }
    }

    fn sites(domains: &[&str]) -> Vec<Site> {
        domains.iter().map(|domain| site(domain)).collect()
    }

    fn example() -> Vec<OwnedSite> {
        vec![
            owned("example.com", &["blog.example.com", "x.deep.blog.example.com"]),
            owned("deep.blog.example.com", &["x.deep.blog.example.com"]),
            owned("shop.example.com", &[]),
            owned("a.test", &["b.a.test"]),
        ]
    }

    fn of_domain(domain: &str) -> Option<Visibility> {
        Visibility::for_domain(OrgId(uuid::Uuid::nil()), &example(), domain).ok()
    }

    #[test]
    fn domain_narrows_to_its_host() {
        let all = Visibility::for_all_domains(OrgId(uuid::Uuid::nil()), &example());
        assert_eq!(all.domains, ["a.test", "deep.blog.example.com", "example.com", "shop.example.com"]);
        assert_eq!(all.requested, None);
        assert_eq!(all.foreign, sites(&["blog.example.com", "x.deep.blog.example.com", "b.a.test"]));
        let narrowed = of_domain("WWW.news.a.test.").unwrap();
        assert_eq!((narrowed.domains, narrowed.requested), (vec!["news.a.test".to_owned()], Some(site("news.a.test"))));
        assert_eq!((narrowed.own, narrowed.foreign), (all.own, all.foreign), "the deciding hosts are the same");
    }

    #[test]
    fn rejects_foreign_and_unverified_domains() {
        for domain in
            ["blog.example.com", "y.blog.example.com", "x.deep.blog.example.com", "com", "notexample.com", "*.example.com", ""]
        {
            assert_eq!(of_domain(domain), None, "{domain}");
        }
        for domain in ["example.com", "y.example.com", "deep.blog.example.com", "y.deep.blog.example.com", "shop.example.com"] {
            assert!(of_domain(domain).is_some(), "{domain}");
        }
    }

    #[test]
    fn former_subdomains_are_visible_from_their_release() {
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        let formerly = vec![(site("blog.a.test"), at(5)), (site("x.b.a.test"), at(6)), (site("shop.a.test"), at(7))];
        let owned = [
            OwnedSite { formerly_owned: formerly, visible_from: Some(at(6)), ..owned("a.test", &["b.a.test"]) },
            OwnedSite { visible_from: Some(at(9)), ..owned("shop.a.test", &[]) },
        ];
        let all = Visibility::for_all_domains(OrgId(uuid::Uuid::nil()), &owned);
        let own: Vec<_> = all.own.iter().map(|own| (own.site.domain(), own.visible_from_ms)).collect();
        let expected = [("a.test", Some(6)), ("blog.a.test", Some(6)), ("shop.a.test", Some(9))];
        assert_eq!(own, expected.map(|(domain, from)| (domain.to_owned(), from)));
        assert_eq!(all.domains, ["a.test", "shop.a.test"], "former subdomains are not verified domains");
    }

    #[test]
    fn former_parents_do_not_affect_subdomains() {
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        let left = |domain, ms| (site(domain), at(ms));
        // Both hosts store when c.b.a.x.test was released. Only x.test has the former owner's later time, which doesn't apply below
        // b.a.x.test.
        let owned = [
            OwnedSite { formerly_owned: vec![left("a.x.test", 9), left("c.b.a.x.test", 9)], ..owned("x.test", &[]) },
            OwnedSite { formerly_owned: vec![left("c.b.a.x.test", 5)], ..owned("b.a.x.test", &[]) },
        ];
        let all = Visibility::for_all_domains(OrgId(uuid::Uuid::nil()), &owned);
        let own: Vec<_> = all.own.iter().map(|own| (own.site.domain(), own.visible_from_ms)).collect();
        let expected = [("x.test", None), ("a.x.test", Some(9)), ("b.a.x.test", None), ("c.b.a.x.test", Some(5))];
        assert_eq!(own, expected.map(|(domain, from)| (domain.to_owned(), from)));
    }

    #[test]
    fn rounds_visible_from_up_to_a_millisecond() {
        let visible_from = DateTime::from_timestamp_micros(4_001);
        let all = Visibility::for_all_domains(OrgId(uuid::Uuid::nil()), &[OwnedSite { visible_from, ..owned("a.test", &[]) }]);
        assert_eq!(all.own[0].visible_from_ms, Some(5));
    }
}
