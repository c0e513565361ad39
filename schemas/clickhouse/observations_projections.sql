-- Merging drops rows, so what points into a part is built anew with it.
ALTER TABLE observations
    MODIFY SETTING deduplicate_merge_projection_mode = 'rebuild'
