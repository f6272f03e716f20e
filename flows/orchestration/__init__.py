"""Prefect: servers, work pools, tasks and what runs leave behind."""
