"""Work with Prefect: servers, work pools, tasks, and the records of runs."""
