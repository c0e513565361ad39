mod reference_pages;
