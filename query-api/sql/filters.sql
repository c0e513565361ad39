-- Conditions of the filters on events, each starting with AND. The requested ones replace the comment "filters.sql" in a statement
-- that defines is_told. Agent and platform are those that the reader sees. Evidence is "claimed" if an agent reports the event,
-- "observed" if another organization's server does, and "corroborated" if both do. "signed" events have one of these values too.
AND if(is_told, toString(agent), '') = {agent_id:String}
AND if(is_claim AND (is_told OR role = 1), if(is_told, toString(agent), ''), toString(bot)) = {agent_or_bot:String}
AND toString(bot) = {bot:String}
AND toString(type) = {event_type:String}
AND if({evidence:String} = 'signed', signature = 'valid',
    ['', 'claimed', 'observed', 'corroborated'][1 + ((is_claimed OR is_claim) AND (is_told OR role = 1))
        + 2 * (is_seen OR (role IN (2, 3) AND NOT is_claimed))] = {evidence:String})
AND toString(operator) = {operator:String}
AND outcome = {outcome:String}
AND multiIf(startsWith({path:String}, '*'),
        positionCaseInsensitive(path(url), substring({path:String}, 2, length({path:String}) - 2)) > 0,
    endsWith({path:String}, '*'), startsWith(path(url), substring({path:String}, 1, length({path:String}) - 1)),
    path(url) = {path:String})
AND if(is_told, platform, organization) = {platform_id:UUID}
AND toString(purpose) = {purpose:String}
AND toString(signature) = {signature:String}
AND bitTest(roles, {source_role:UInt8})
AND toString(status) LIKE {status:String}
AND toString(verified) = {verified:String}
