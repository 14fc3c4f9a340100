"""Columns of the tables, and whose numbers are in them."""

from __future__ import annotations

from discoformer_paper.harness.contestants import core_name

__all__ = ["CORE", "GMM", "IN_FAMILY", "KDE", "OURS", "PUBLISHED", "PUBLISHED_KDE", "columns"]

PUBLISHED, PUBLISHED_KDE = "published", "published KDE"
CORE, OURS, KDE, GMM = "paper's core", "ours", "KDE", "GMM-BIC"
IN_FAMILY = {GMM: "whose family holds the truth"}  # why a mixture may win where the truth is a mixture


def columns(dim: int, ours: str, gmm: str = "gmm-diag") -> dict[str, str]:
    """The usual columns and whose numbers are in them.

    >>> columns(2, "default")["KDE"]
    'kde-scott'
    """
    return {CORE: core_name(dim), OURS: ours, KDE: "kde-scott", GMM: gmm}
