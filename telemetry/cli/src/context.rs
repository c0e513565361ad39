//! A command's context: the clock, the options, the profile and a client with the right credential.

use crate::client::{Client, Credential};
use crate::failure::Failure;
use crate::options::{Options, address};
use crate::output::Output;
use crate::profile_file::{Profile, Profiles, usual_file};
use crate::secret::Secret;
use service_kit::clock::Clock;
use std::path::PathBuf;
use url::Url;

/// Kind of credential that a command accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CredentialKind {
    /// No credential is required.
    Anonymous,
    Key,
    Person,
    /// Either one. A key takes precedence over a session.
    KeyOrPerson,
}

pub(crate) struct Context {
    pub(crate) clock: Clock,
    pub(crate) options: Options,
}

impl Context {
    pub(crate) fn output(&self) -> Output {
        Output { format: self.options.output }
    }

    pub(crate) fn config_file(&self) -> Result<PathBuf, Failure> {
        self.options.config.clone().map_or_else(usual_file, Ok)
    }

    /// The folder with the progress of imports, next to the profiles.
    pub(crate) fn state_folder(&self) -> Result<PathBuf, Failure> {
        let file = self.config_file()?;
        Ok(file.parent().map(PathBuf::from).unwrap_or_default().join("imports"))
    }

    pub(crate) fn profiles(&self) -> Result<Profiles, Failure> {
        Profiles::load(&self.config_file()?)
    }

    pub(crate) fn profile(&self) -> Result<Option<Profile>, Failure> {
        let profiles = self.profiles()?;
        Ok(profiles.chosen(self.options.profile.as_deref())?.map(|(_, profile)| profile.clone()))
    }

    pub(crate) fn client(&self, asker: CredentialKind) -> Result<Client, Failure> {
        let profile = self.profile()?;
        let base = self.base(profile.as_ref())?;
        let is_own = |profile: &Profile| profile.url.origin() == base.origin();
        let own = profile.as_ref().filter(|profile| is_own(profile));
        let credential = self.credential(asker, own)?;
        if credential.is_none() && asker != CredentialKind::Anonymous {
            return Err(self.without_credential(asker, &base, profile.as_ref()));
        }
        let organization = self.options.organization.or_else(|| own?.organization_id);
        Client::new(base, credential, organization)
    }

    /// Returns the address from the options or the environment, otherwise from the profile.
    pub(crate) fn base(&self, profile: Option<&Profile>) -> Result<Url, Failure> {
        if let Some(given) = &self.options.url {
            return address(given);
        }
        profile.map(|profile| profile.url.clone()).ok_or_else(|| {
            Failure::Usage("no service address: set --url or TELEMETRY_URL, or run `telemetry login --url URL`".to_owned())
        })
    }

    pub(crate) fn key_of_file(&self) -> Result<Option<Secret>, Failure> {
        let Some(file) = &self.options.key_file else { return Ok(None) };
        Secret::read(file)?.into_key(&file.display().to_string()).map(Some)
    }

    fn given_key(&self) -> Result<Option<Secret>, Failure> {
        if let Some(key) = self.key_of_file()? {
            return Ok(Some(key));
        }
        self.options.key.0.clone().map(|key| key.into_key("TELEMETRY_KEY")).transpose()
    }

    fn credential(&self, asker: CredentialKind, own: Option<&Profile>) -> Result<Option<Credential>, Failure> {
        let takes_key = matches!(asker, CredentialKind::Key | CredentialKind::KeyOrPerson);
        let takes_session = matches!(asker, CredentialKind::Person | CredentialKind::KeyOrPerson);
        let key = if takes_key { self.given_key()?.or_else(|| own?.key.clone()) } else { None };
        if let Some(key) = key {
            return Ok(Some(Credential::Key(key)));
        }
        let session = own.filter(|_| takes_session).and_then(|profile| profile.session.as_ref());
        let Some(session) = session else { return Ok(None) };
        if session.expires_at <= self.clock.now() {
            return Err(Failure::NoCredential(format!("the session of {} has expired: run `telemetry login`", session.email)));
        }
        Ok(Some(Credential::Session(session.secret.clone())))
    }

    fn without_credential(&self, asker: CredentialKind, base: &Url, profile: Option<&Profile>) -> Failure {
        if let Some(profile) = profile.filter(|profile| profile.url.origin() != base.origin()) {
            return Failure::NoCredential(format!(
                "the profile's credentials are for {} and are not sent to {base}: use another key or profile",
                profile.url
            ));
        }
        Failure::NoCredential(
            match asker {
                CredentialKind::Person => "this command requires a signed-in user: run `telemetry login`",
                CredentialKind::Key => {
                    "this command requires an API key: use --key-file, set TELEMETRY_KEY, or save one with `telemetry profile set`"
                }
                CredentialKind::KeyOrPerson | CredentialKind::Anonymous => {
                    "no credential: run `telemetry login`, or provide an API key with --key-file or TELEMETRY_KEY"
                }
            }
            .to_owned(),
        )
    }
}
