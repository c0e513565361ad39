named_enum! {
    /// What an organisation is; decides the key prefix and which surfaces it may use.
    pub enum OrgType {
        /// Owns domains and reads their telemetry.
        ContentOwner = "content_owner",
        /// Marketplace, network, vendor: reports events, reads what is delegated to it.
        Platform = "platform",
        /// Runs an AI agent: reports sessions and events, reads its own.
        Agent = "agent",
    }
}

impl OrgType {
    /// Whether its keys begin with `svc_pk_`: it may be delegated to, and makes click tokens.
    pub fn is_platform_or_agent(self) -> bool {
        matches!(self, Self::Platform | Self::Agent)
    }
}
