-- The database of the views that analyst accounts read. It contains only these views.
CREATE DATABASE IF NOT EXISTS analytics ENGINE = Atomic
