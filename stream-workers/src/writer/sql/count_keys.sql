SELECT count() FROM events FINAL
FORMAT RowBinary
