SELECT DISTINCT home FROM (SELECT home FROM events UNION ALL SELECT home FROM reports UNION ALL SELECT home FROM failed_fetches)
FORMAT RowBinary
