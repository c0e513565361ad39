-- The time of acceptance is the upper part of `version`: stored twice it cost 6 of 95 bytes a row.
ALTER TABLE observations
    MODIFY COLUMN received_at DateTime64(6, 'UTC') ALIAS fromUnixTimestamp64Micro(toInt64(bitShiftRight(bitNot(version), 12)), 'UTC')
