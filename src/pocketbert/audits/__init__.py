"""Audits: what a trained classifier does when only a pronoun, a name or a gendered noun changes.

counterfactuals/ makes the sentences, suites.py items of them; audit.py asks the classifier, measures.py says how sure
the answer is, wording.py says it in sentences.
"""

from pocketbert.audits.audit import audit
from pocketbert.audits.result import AuditResult, ChangeResult, WorstPair
from pocketbert.audits.suites import Item, Suite, Swap

__all__ = ["AuditResult", "ChangeResult", "Item", "Suite", "Swap", "WorstPair", "audit"]
