-- Like filters.sql, for log lines without content. Replaces the comment "filters_lines.sql" in a statement. A line is observed and
-- has no agent. Filters by type, platform and role exclude all lines, because lines aren't events.
AND {agent_id:String} = ''
AND toString(bot) = {agent_or_bot:String}
AND toString(bot) = {bot:String}
AND {event_type:String} = ''
AND if({evidence:String} = 'signed', signature = 'valid', {evidence:String} = 'observed')
AND toString(operator) = {operator:String}
AND outcome = {outcome:String}
AND multiIf(startsWith({path:String}, '*'), positionCaseInsensitive(path, substring({path:String}, 2, length({path:String}) - 2)) > 0,
    endsWith({path:String}, '*'), startsWith(path, substring({path:String}, 1, length({path:String}) - 1)), path = {path:String})
AND {platform_id:String} = ''
AND toString(purpose) = {purpose:String}
AND toString(signature) = {signature:String}
AND {source_role:String} = ''
AND toString(status) LIKE {status:String}
AND toString(verified) = {verified:String}
