//! What a caller may see: who asks + `delegated_from` + `domain`. The only value a telemetry query accepts.
//!
//! Must not be built in any other way, must not be kept between requests (a revocation counts at once), and must
//! answer the same whether the organisation or domain asked for exists or not.

use crate::period::ceil_ms;
use schemas::identity::OrgType;
use schemas::ids::OrgId;
use schemas::problem::Code;
use schemas::site::Site;
use service_kit::auth::{Caller, Reader};
use service_kit::directory::{Directory, OwnedSite};
use service_kit::http::ApiError;

/// Whose telemetry, and which of it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Visibility {
    organization_id: OrgId,
    domains: Vec<String>,
    territories: Vec<Territory>,
}

/// A host and its subdomains. No two territories of a [`Visibility`] overlap: the longest verified host decides.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Territory {
    /// The host.
    pub(crate) site: Site,
    /// Hosts beneath it that belong to somebody else, or to another territory.
    pub(crate) except: Vec<Site>,
    /// First millisecond that is this owner's; `None` is all history.
    pub(crate) visible_from_ms: Option<i64>,
}

impl Visibility {
    /// Decides what the caller may see, or refuses.
    pub(crate) async fn establish(
        directory: &Directory,
        Reader(caller): &Reader,
        delegated_from: Option<&str>,
        domain: Option<&str>,
    ) -> Result<Self, ApiError> {
        let organization_id = match (caller.org_type, delegated_from) {
            (OrgType::ContentOwner, None) => caller.org_id,
            (OrgType::Platform | OrgType::Agent, None) => return Err(without_grantor()),
            (_, Some(grantor)) => grantor_of(directory, caller, grantor).await?,
        };
        let owned = directory.owned_sites(organization_id).await?;
        match domain {
            None => Ok(Self::of_everything(organization_id, &owned)),
            Some(domain) => Self::of_domain(organization_id, &owned, domain),
        }
    }

    fn of_everything(organization_id: OrgId, owned: &[OwnedSite]) -> Self {
        let mut domains: Vec<String> = owned.iter().map(|owned| owned.site.domain()).collect();
        domains.sort_unstable();
        Self { organization_id, domains, territories: territories(owned) }
    }

    fn of_domain(organization_id: OrgId, owned: &[OwnedSite], domain: &str) -> Result<Self, ApiError> {
        let site = Site::from_domain(domain).map_err(|_| domain_refused())?;
        if !owned.iter().any(|owned| owned.covers(&site)) {
            return Err(domain_refused());
        }
        let territories = territories(owned).into_iter().filter_map(|territory| territory.within(&site)).collect();
        Ok(Self { organization_id, domains: vec![site.domain()], territories })
    }

    /// Whose telemetry it is.
    pub(crate) fn organization_id(&self) -> OrgId {
        self.organization_id
    }

    /// The domains covered, sorted.
    pub(crate) fn domains(&self) -> &[String] {
        &self.domains
    }

    /// What of the telemetry may be seen; nothing when empty.
    pub(crate) fn territories(&self) -> &[Territory] {
        &self.territories
    }
}

impl Territory {
    /// The part of it that lies at `site` and beneath.
    fn within(self, site: &Site) -> Option<Self> {
        if self.site.is_within(site) {
            return Some(self);
        }
        if !site.is_within(&self.site) || self.except.iter().any(|other| site.is_within(other)) {
            return None;
        }
        let except = self.except.into_iter().filter(|other| other.is_within(site)).collect();
        Some(Self { site: site.clone(), except, ..self })
    }
}

/// One per verified host, each without what lies in another one.
fn territories(owned: &[OwnedSite]) -> Vec<Territory> {
    let one = |host: &OwnedSite| {
        let deeper = owned.iter().map(|other| &other.site).filter(|other| **other != host.site && other.is_within(&host.site));
        let mut except: Vec<Site> = host.except.iter().chain(deeper).cloned().collect();
        except.sort_unstable();
        // What lies beneath another exception needs no exception of its own.
        except.dedup_by(|deeper, kept| deeper.is_within(kept));
        Territory { site: host.site.clone(), except, visible_from_ms: host.visible_from.map(ceil_ms) }
    };
    owned.iter().map(one).collect()
}

/// The organisation that lets the caller read right now. Every reason to refuse has one answer.
async fn grantor_of(directory: &Directory, caller: &Caller, grantor: &str) -> Result<OrgId, ApiError> {
    let grantor: OrgId = grantor.parse().map_err(|_| delegation_refused())?;
    let may_be_granted = caller.org_type != OrgType::ContentOwner && caller.org_id != grantor;
    if may_be_granted && directory.may_read_for(grantor, caller.org_id).await? {
        return Ok(grantor);
    }
    Err(delegation_refused())
}

fn without_grantor() -> ApiError {
    ApiError::new(Code::Forbidden, "The API key has no domains of its own; name the content owner in delegated_from.")
}

fn delegation_refused() -> ApiError {
    ApiError::new(Code::Forbidden, "No active delegation lets this API key read for the organisation in delegated_from.")
}

fn domain_refused() -> ApiError {
    ApiError::new(Code::Forbidden, "The domain is not a verified domain that this API key may read, nor within one.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::DateTime;

    fn site(domain: &str) -> Site {
        Site::from_domain(domain).unwrap()
    }

    fn owned(domain: &str, except: &[&str]) -> OwnedSite {
        OwnedSite { site: site(domain), visible_from: None, except: except.iter().map(|other| site(other)).collect() }
    }

    fn shown(visibility: &Visibility) -> Vec<(String, Vec<String>)> {
        let one = |t: &Territory| (t.site.domain(), t.except.iter().map(Site::domain).collect());
        visibility.territories.iter().map(one).collect()
    }

    fn of_domain(owned: &[OwnedSite], domain: &str) -> Option<Vec<(String, Vec<String>)>> {
        Visibility::of_domain(OrgId(uuid::Uuid::nil()), owned, domain).ok().map(|visibility| shown(&visibility))
    }

    fn named(domain: &str, except: &[&str]) -> (String, Vec<String>) {
        (domain.to_owned(), except.iter().map(|other| (*other).to_owned()).collect())
    }

    #[test]
    fn territories_never_overlap() {
        let owned = [
            owned("example.com", &["blog.example.com", "x.deep.blog.example.com"]),
            owned("deep.blog.example.com", &["x.deep.blog.example.com"]),
            owned("shop.example.com", &[]),
        ];
        let all = Visibility::of_everything(OrgId(uuid::Uuid::nil()), &owned);
        assert_eq!(all.domains, ["deep.blog.example.com", "example.com", "shop.example.com"]);
        assert_eq!(
            shown(&all),
            [
                named("example.com", &["blog.example.com", "shop.example.com"]),
                named("deep.blog.example.com", &["x.deep.blog.example.com"]),
                named("shop.example.com", &[]),
            ]
        );
    }

    #[test]
    fn a_domain_narrows_to_itself_and_what_lies_beneath() {
        let owned = [owned("example.com", &["blog.example.com"]), owned("deep.blog.example.com", &[]), owned("a.test", &[])];
        assert_eq!(of_domain(&owned, "A.TEST."), Some(vec![named("a.test", &[])]));
        assert_eq!(of_domain(&owned, "www.a.test"), Some(vec![named("www.a.test", &[])]));
        assert_eq!(of_domain(&owned, "x.deep.blog.example.com"), Some(vec![named("x.deep.blog.example.com", &[])]));
        let narrowed = vec![named("example.com", &["blog.example.com"]), named("deep.blog.example.com", &[])];
        assert_eq!(of_domain(&owned, "example.com"), Some(narrowed));
    }

    #[test]
    fn a_domain_that_is_somebody_elses_or_nobodys_is_refused() {
        let owned = [owned("example.com", &["blog.example.com"]), owned("deep.blog.example.com", &[])];
        for domain in
            ["blog.example.com", "x.blog.example.com", "com", "notexample.com", "example.com.evil.test", "*.example.com", ""]
        {
            assert_eq!(of_domain(&owned, domain), None, "{domain}");
        }
    }

    #[test]
    fn the_deepest_verified_host_decides_the_history() {
        let from = DateTime::from_timestamp_millis(5);
        let owned = [owned("example.com", &[]), OwnedSite { visible_from: from, ..owned("news.example.com", &[]) }];
        let all = Visibility::of_everything(OrgId(uuid::Uuid::nil()), &owned);
        assert_eq!(all.territories[0].except, [site("news.example.com")]);
        assert_eq!(all.territories[1].visible_from_ms, Some(5));
    }
}
