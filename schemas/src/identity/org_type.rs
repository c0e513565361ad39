named_enum! {
    /// An organization's type. Determines its key prefix and the endpoints it may use.
    pub enum OrgType {
        /// Owns domains and reads their telemetry.
        ContentOwner = "content_owner",
        /// A marketplace, network or vendor: reports events and reads delegated data.
        Platform = "platform",
        /// Runs an AI agent: reports sessions and events, and reads its own data.
        Agent = "agent",
    }
}

impl OrgType {
    /// Returns whether its keys start with `svc_pk_`. Such organizations can receive delegations and create click tokens.
    pub fn is_platform_or_agent(self) -> bool {
        matches!(self, Self::Platform | Self::Agent)
    }
}
