SELECT DISTINCT site FROM sites WHERE above = site
FORMAT RowBinary
