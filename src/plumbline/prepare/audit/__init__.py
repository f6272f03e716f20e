"""What a careful person would look at before training: structure, labels, features, drift; rules with a verdict."""

from plumbline.prepare.audit.run import AuditResult, audit

__all__ = ["AuditResult", "audit"]
