"""Write the report of a candidate: its content, the HTML page, and the plots for DVC."""
