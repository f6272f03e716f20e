"""Audit prepared data before training: structure, labels, features and drift, by rules with
a verdict."""

from plumbline.prepare.audit.run import AuditResult, audit

__all__ = ["AuditResult", "audit"]
