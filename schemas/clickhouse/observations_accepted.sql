-- Of which time of acceptance the rows of a part are: a page of events asks for rows that were accepted about when its own were, and
-- parts of other times are not read. A number or two for each granule.
ALTER TABLE observations
    ADD INDEX IF NOT EXISTS by_acceptance version TYPE minmax GRANULARITY 1
