-- The database of the views that analyst accounts read, and of nothing else.
CREATE DATABASE IF NOT EXISTS analytics ENGINE = Atomic
