"""Write a report for print, a page a building: `plumbline report`."""
